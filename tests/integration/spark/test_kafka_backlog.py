"""A backlog that Spark reads: ranges of offsets, each a part of a task, in one commit with the position."""

from __future__ import annotations

from pathlib import Path

import pytest

import carnac
from tests.support.kafka import TOPIC, Broker, spec_for
from tests.unit.store.test_streaming import ids, read, rows

pytestmark = pytest.mark.spark


def test_spark_reads_what_waits_and_the_task_goes_on_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.store.streaming.reading.PIECE_MESSAGES", 100)
    broker = Broker()
    broker.write_ids(range(1_000))
    broker.write(["broken"])
    spec = spec_for(broker.address, context={"sparkBacklog": 500})
    with carnac.open(tmp_path / "store", create=True) as store:
        counts = read(store, spec, rows(1_000))
        assert (counts.processed, counts.unparseable, counts.commits) == (1_000, 1, 1)
        broker.write_ids(range(1_000, 1_010))
        read(store, spec, rows(10))
        assert ids(store) == list(range(1_010))
        assert store.position(TOPIC)["clicks/0"] == "254"
        assert store.check() == ()
