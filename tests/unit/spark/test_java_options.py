"""What the driver's Java is told, and what a user says instead."""

from __future__ import annotations

from carnac.spark.java import COMPILES_LATE, JAVA_OPTIONS, with_option


def test_an_option_of_the_user_comes_last_so_that_it_wins() -> None:
    given = {JAVA_OPTIONS: "-XX:CompileThresholdScaling=1", "a": "b"}
    assert with_option(given, COMPILES_LATE) == {
        JAVA_OPTIONS: f"{COMPILES_LATE} -XX:CompileThresholdScaling=1",
        "a": "b",
    }
    assert given[JAVA_OPTIONS] == "-XX:CompileThresholdScaling=1"


def test_it_is_alone_where_there_is_no_other() -> None:
    assert with_option({}, COMPILES_LATE) == {JAVA_OPTIONS: COMPILES_LATE}
