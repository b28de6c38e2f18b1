"""Real replacements: one copy of each segment, a historical killed at three moments, and every answer whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.replacement import AnswerKind, Death, Way
from benchmarks.replacement.__main__ import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.nightly("starts three clusters, one after the other")
def test_no_second_is_short_or_refused_whenever_the_only_copy_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    assert spark is not None
    assert main(["--real", "--keep", str(tmp_path / "out"), "--json"]) == 0
    courses = json.loads(capsys.readouterr().out)["courses"][len(Way) * len(Death) :]
    assert [one["death"] for one in courses] == [death.value for death in Death]
    for course in courses:
        assert course["diedS"] is not None
        assert course["switchedS"] is not None
        seen = {AnswerKind(one["sees"]) for one in course["seconds"]}
        assert all(kind.is_whole for kind in seen), course
