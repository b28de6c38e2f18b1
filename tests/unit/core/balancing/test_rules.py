"""Rules: their JSON, what they match, and which one wins."""

from __future__ import annotations

import numpy as np
import pytest

from carnac.core.balancing.plan.rules import (
    NO_RULE,
    Action,
    Match,
    Rule,
    RuleSet,
    decide_rules,
    dump_rule,
    load_forever,
    parse_rule,
    parse_rules,
)
from carnac.core.time.intervals import parse_instant, parse_interval
from carnac.errors import Invalid
from tests.clusters import START_MS, hour, segment
from tests.support.planned_clusters import segment_table

NOW_MS = parse_instant("2020-03-31T12:00:00Z")


def matches(rule: Rule, text: str, now_ms: int = NOW_MS) -> bool:
    interval = parse_interval(text)
    starts, ends = np.array([interval.start_ms]), np.array([interval.end_ms])
    return bool(rule.matches(starts, ends, now_ms)[0])


def by_period(kind: str, period: str = "P1M", **fields: object) -> Rule:
    return parse_rule({"type": kind, "period": period} | fields)


@pytest.mark.parametrize(
    ("kind", "interval", "expected"),
    [
        # now is 31 March, 12:00; a month before it is 29 February, 12:00: counted on the calendar
        ("loadByPeriod", "2020-02-28/2020-02-29T12:00Z", False),
        ("loadByPeriod", "2020-02-28/2020-02-29T12:00:00.001Z", True),
        ("loadByPeriod", "2020-01-01/2021-01-01", True),
        ("loadByPeriod", "2030-01-01/2030-01-02", True),
        ("dropByPeriod", "2020-02-29T11:59:59.999Z/2020-03-02", False),
        ("dropByPeriod", "2020-02-29T12:00Z/2020-03-02", True),
        ("dropByPeriod", "2030-01-01/2030-01-02", True),
        ("dropBeforeByPeriod", "2020-02-28/2020-02-29T12:00Z", True),
        ("dropBeforeByPeriod", "2020-02-28/2020-02-29T12:00:00.001Z", False),
        ("broadcastByPeriod", "2020-03-01/2020-03-02", True),
        ("broadcastByPeriod", "2019-03-01/2019-03-02", False),
    ],
)
def test_what_a_period_matches(kind: str, interval: str, expected: bool) -> None:
    assert matches(by_period(kind), interval) is expected


@pytest.mark.parametrize(
    ("kind", "interval", "expected"),
    [
        ("loadByPeriod", "2020-03-31T12:00Z/2020-04-01", False),
        ("loadByPeriod", "2020-03-31/2020-04-01", True),
        ("dropByPeriod", "2020-03-31/2020-04-01", False),
        ("dropByPeriod", "2020-03-31/2020-03-31T12:00Z", True),
    ],
)
def test_without_the_future_a_period_ends_now(kind: str, interval: str, expected: bool) -> None:
    assert matches(by_period(kind, includeFuture=False), interval) is expected


@pytest.mark.parametrize(
    ("kind", "interval", "expected"),
    [
        ("loadByInterval", "2011-12-31T23:00Z/2012-01-01T01:00Z", True),
        ("loadByInterval", "2013-01-01/2013-01-02", False),
        ("dropByInterval", "2011-12-31T23:00Z/2012-01-01T01:00Z", False),
        ("dropByInterval", "2012-12-31/2013-01-01", True),
        ("broadcastByInterval", "2012-06-01/2014-01-01", True),
    ],
)
def test_an_interval_loads_what_it_touches_and_drops_what_lies_in_it(
    kind: str, interval: str, expected: bool
) -> None:
    rule = parse_rule({"type": kind, "interval": "2012-01-01/2013-01-01"})
    assert matches(rule, interval) is expected


def test_drop_before_then_load_is_load_by_period_then_drop() -> None:
    one = RuleSet(default=(by_period("dropBeforeByPeriod", "P7D"), load_forever()))
    other = RuleSet(
        default=(by_period("loadByPeriod", "P7D"), *parse_rules([{"type": "dropForever"}]))
    )
    table = segment_table(segment(f"s{n}", at=n) for n in range(400))
    now_ms = START_MS + 300 * 3_600_000
    loaded = [decide_rules(rules, table, now_ms).by_action(Action.LOAD) for rules in (one, other)]
    assert loaded[0].tolist() == loaded[1].tolist()
    assert 0 < loaded[0].sum() < 400


def test_the_first_match_wins_and_a_datasource_comes_before_the_default() -> None:
    rules = RuleSet(
        by_datasource={"a": (parse_rule({"type": "dropByInterval", "interval": str(hour(0))}),)},
        default=(
            parse_rule(
                {
                    "type": "loadByInterval",
                    "interval": str(hour(0, 2)),
                    "tieredReplicants": {"hot": 3},
                }
            ),
            parse_rule({"type": "broadcastByInterval", "interval": str(hour(0, 5))}),
        ),
    )
    table = segment_table(
        [
            segment("dropped"),
            segment("loaded", 1),
            segment("other", 0, datasource="b"),
            segment("cast", 3),
            segment("left", 9),
        ]
    )
    found = decide_rules(rules, table, START_MS)
    assert found.by_action(Action.DROP).tolist() == [True, False, False, False, False]
    assert found.replicas_in("hot").tolist() == [0, 3, 3, 0, 0]
    assert found.replicas_in("cold").tolist() == [0] * 5
    assert found.by_action(Action.BROADCAST).tolist() == [False, False, False, True, False]
    assert [rule == NO_RULE for rule in found.rule] == [False, False, False, False, True]


def test_no_rules_and_no_segments() -> None:
    nothing = decide_rules(RuleSet(default=()), segment_table([segment("x")]), 0)
    assert nothing.rule.tolist() == [NO_RULE]
    assert nothing.replicas_in("hot").tolist() == [0]
    assert len(decide_rules(RuleSet(), segment_table([]), 0).rule) == 0


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "loadForever", "tieredReplicants": {"hot": 1, "_default_tier": 1}},
        {"type": "loadByInterval", "interval": "2012-01-01/2013-01-01", "tieredReplicants": {}},
        {"type": "loadByPeriod", "period": "P1M", "includeFuture": False, "tieredReplicants": {"x": 0}},
        {"type": "dropForever"},
        {"type": "dropByInterval", "interval": "2012-01-01/P1Y"},
        {"type": "dropByPeriod", "period": "P1M", "includeFuture": True},
        {"type": "dropBeforeByPeriod", "period": "P1M"},
        {"type": "broadcastForever"},
        {"type": "broadcastByInterval", "interval": "2012-01-01/P1D"},
        {"type": "broadcastByPeriod", "period": "PT6H"},
    ],
)  # fmt: skip
def test_json_comes_back(raw: dict[str, object]) -> None:
    rule = parse_rule(raw)
    again = dump_rule(rule)
    assert again["type"] == raw["type"]
    assert parse_rule(again) == rule


def test_defaults_are_those_of_druid() -> None:
    assert parse_rule({"type": "loadByPeriod", "period": "P1D"}).include_future is True
    assert parse_rule({"type": "loadForever"}).replicas == {"_default_tier": 2}
    assert parse_rule({"type": "loadForever", "useDefaultTierForNull": False}).replicas == {}
    assert RuleSet().default == (parse_rule({"type": "loadForever"}),)
    assert (
        parse_rule({"type": "broadcastForever", "colocatedDataSources": []}).action == "broadcast"
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"type": "loadAlways"}, "'loadAlways' is not a type of rule"),
        ({"type": "loadBeforeByPeriod", "period": "P1D"}, "is not a type of rule"),
        ({}, "'None' is not a type of rule"),
        ("dropForever", "a rule must be an object with a type"),
        ({"type": "loadByInterval"}, "loadByInterval needs the field 'interval', as text"),
        ({"type": "loadByInterval", "interval": "2012"}, "is not an interval"),
        ({"type": "dropByPeriod", "period": "a month"}, "is not an ISO 8601 period"),
        ({"type": "dropByPeriod", "period": "P1D", "includefuture": False}, "has no field 'includefuture'"),
        ({"type": "dropByPeriod", "period": "P1D", "includeFuture": "no"}, "must be true or false"),
        ({"type": "dropBeforeByPeriod", "period": "P1D", "includeFuture": True}, "no field 'includeFuture'"),
        ({"type": "loadForever", "tieredReplicants": [2]}, "must be an object of tiers and numbers"),
        ({"type": "loadForever", "tieredReplicants": {"hot": -1}}, "asks for -1 replicas in tier 'hot'"),
        ({"type": "loadForever", "tieredReplicants": {"hot": True}}, "asks for True replicas"),
        ({"type": "broadcastForever", "colocatedDataSources": ["b"]}, "is not supported"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(raw: object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_rule(raw)


def test_a_list_of_rules_says_which_one_is_wrong() -> None:
    with pytest.raises(Invalid, match=r"rule 2 of 2: 'x' is not a type of rule"):
        parse_rules([{"type": "dropForever"}, {"type": "x"}])
    with pytest.raises(Invalid, match="must be an array"):
        parse_rules({"type": "dropForever"})
    [one] = parse_rules([{"type": "dropForever"}])
    assert (one.action, one.match) == (Action.DROP, Match.FOREVER)
