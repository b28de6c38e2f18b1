"""A broker of Kafka's protocol in this process, as the library brings it along, and specs that read from it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="the extra kafka is not installed; make setup does that"
)

TOPIC = "clicks"
PARTITIONS = 4
"""Of a topic that comes to be by being written to."""
KEPT_BYTES = 5 << 20
"""Of a partition; older messages are gone."""


class Broker:
    """One broker; it is gone with the object."""

    def __init__(self) -> None:
        quiet = logging.getLogger("tests.kafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": "none", "test.mock.num.brokers": 1, "linger.ms": 0}, logger=quiet
        )
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.address = ",".join(f"{one.host}:{one.port}" for one in brokers)

    def write(
        self,
        values: Iterable[bytes | str | None],
        *,
        partition: int = 0,
        topic: str = TOPIC,
        **more: Any,
    ) -> None:
        """Put messages into a partition, in order."""
        for value in values:
            self._producer.produce(topic, value=value, partition=partition, **more)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def write_ids(self, ids: Iterable[int], *, topic: str = TOPIC) -> None:
        """Put a message for each id, over all partitions."""
        for number in ids:
            self.write([row(number)], partition=number % PARTITIONS, topic=topic)


def row(number: int, **more: object) -> str:
    """Return a message."""
    return json.dumps({"t": 1_400_000_000_000 + number, "id": number, **more})


def spec_for(
    address: str,
    *,
    io: Mapping[str, object] | None = None,
    tuning: Mapping[str, object] | None = None,
    schema: Mapping[str, object] | None = None,
    **more: object,
) -> dict[str, Any]:
    """Return a supervisor spec that reads ids."""
    return {
        "type": "kafka",
        "spec": {
            "dataSchema": {
                "dataSource": TOPIC,
                "timestampSpec": {"column": "t", "format": "millis"},
                "dimensionsSpec": {"dimensions": [{"type": "long", "name": "id"}]},
                "granularitySpec": {"segmentGranularity": "day", "rollup": False},
                **(schema or {}),
            },
            "ioConfig": {
                "topic": TOPIC,
                "inputFormat": {"type": "json"},
                "consumerProperties": {"bootstrap.servers": address},
                "useEarliestOffset": True,
                **(io or {}),
            },
            "tuningConfig": {
                "type": "kafka",
                "intermediateHandoffPeriod": "PT0.1S",
                **(tuning or {}),
            },
        },
        **more,
    }
