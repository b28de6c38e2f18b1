"""`demo replacement --real`: one copy of each segment, a historical killed at three moments, and every answer whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from carnac.simulation.replacement import AnswerKind, Death, Way
from tests.e2e.conftest import Run
from tests.nightly import IS_NIGHTLY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.skipif(
    not IS_NIGHTLY, reason="three clusters, one after the other: for the nightly profile"
)
def test_no_second_is_short_or_refused_whenever_the_only_copy_dies(
    run: Run, spark: SparkSession
) -> None:
    assert spark is not None
    done = run("demo", "replacement", "--real", "--keep", "out", "--json")
    courses = json.loads(done.out)["courses"][len(Way) * len(Death) :]
    assert [one["death"] for one in courses] == [death.value for death in Death]
    for course in courses:
        assert course["diedS"] is not None
        assert course["switchedS"] is not None
        seen = {AnswerKind(one["sees"]) for one in course["seconds"]}
        assert all(kind.is_whole for kind in seen), course
