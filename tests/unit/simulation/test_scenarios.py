from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from carnac.errors import Invalid
from carnac.simulation.arrivals import make_copies, make_segments, make_sources
from carnac.simulation.load import change_scenario, load_preset, load_scenario
from carnac.simulation.presets import PRESETS
from carnac.simulation.tier import plan_changes
from scripts.docs.scenario_page import BLOCKS, render

TINY: dict[str, Any] = {
    "tiers": [{"servers": 3}],
    "datasources": [{"name": "a", "load": [{"days": 2}]}],
    "history": {"days": 4},
    "days": 1,
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_scenarios_and_survive_being_written_down(name: str) -> None:
    scenario = load_preset(name)
    assert load_scenario(scenario.to_json_dict()) == scenario
    assert scenario.name == name


def test_metamarkets_is_what_it_is_said_to_be() -> None:
    scenario = load_preset("metamarkets")
    sources = make_sources(scenario)
    held = sum(source.partitions / source.hours for source in sources) * 90 * 24
    assert {rule.days for kind in scenario.datasources for rule in kind.load} == {90}
    assert scenario.history.days == 90
    assert scenario.tiers[0].servers == 300
    assert 1_950_000 < held < 2_050_000
    assert [event.kind for event in scenario.events] == ["replace"]
    assert len({source.size_bytes for source in sources}) == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tiers": []}, "tiers: must not be empty"),
        ({"tiers": [{"servers": 0}]}, r"tiers\[0\].servers: must be greater than or equal to 1"),
        ({"tiers": [{"servers": 2}, {"servers": 2}]}, "two tiers have one name"),
        ({"colour": "red"}, "colour: unknown field"),
        ({"days": 0}, "days: must be greater"),
        ({"start": "yesterday"}, "'yesterday' is not an ISO 8601"),
        ({"strategy": "costs"}, "did you mean 'cost'"),
        ({"datasources": [{"name": "a", "granularity": "dya"}]}, "did you mean 'day'"),
        ({"datasources": [{"name": "a", "load": [{"tier": "x"}]}]}, "there is no tier 'x'"),
        ({"datasources": [{"name": "a", "load": [{"replicas": 4}]}]}, "which has 3 servers"),
        ({"datasources": [{"name": "a"}, {"name": "a"}]}, "two groups of datasources"),
        ({"datasources": [{"name": "a", "popularity": 0}]}, "no datasource is ever asked"),
        ({"events": [{"atHour": 24, "kind": "fail"}]}, "outside of the hours -96 to 23"),
        ({"events": [{"atHour": 2, "kind": "fail", "servers": 4}]}, "it has 3 then"),
        ({"events": [{"atHour": 2, "kind": "fail", "servers": 3}]}, "ends without a server"),
        (
            {"datasources": [{"name": "a", "partitions": 10_000, "count": 1_000}]},
            "can be simulated",
        ),
    ],
)
def test_a_wrong_scenario_is_one_clear_sentence(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid, match=says) as caught:
        make_segments(load_scenario({**TINY, **changes}))
    assert "\n" not in caught.value.message
    assert not caught.value.message.endswith(".")


def test_a_text_that_is_no_scenario_is_refused() -> None:
    with pytest.raises(Invalid, match="not valid JSON: line 1"):
        load_scenario("{")
    with pytest.raises(Invalid, match="a scenario is an object"):
        load_scenario("[1]")
    with pytest.raises(Invalid, match=r"there is no preset 'smal'; .*did you mean 'small'"):
        load_preset("smal")


def test_the_reference_page_has_every_field_and_its_example_is_a_scenario() -> None:
    page = render()
    example = page.split("```yaml\n")[1].split("```")[0]
    assert load_scenario(example).tiers[0].servers == 20
    for _, model in BLOCKS:
        assert all(info.description for info in model.model_fields.values()), model
    for field in ("measureEveryHours", "meanAgeHours", "atHour", "looksPerMove"):
        assert f"| `{field}` |" in page


def test_changes_are_checked_like_the_rest() -> None:
    scenario = load_scenario(TINY)
    assert change_scenario(scenario, {"days": 3}).days == 3
    assert change_scenario(scenario, {}) is scenario
    with pytest.raises(Invalid, match="days"):
        change_scenario(scenario, {"days": -1})


def test_segments_arrive_when_their_interval_ends_and_stay_as_long_as_the_rule_says() -> None:
    scenario = load_scenario(
        {
            **TINY,
            "tiers": [{"servers": 3}, {"name": "cold", "servers": 2}],
            "datasources": [
                {"name": "a", "granularity": "six_hour", "partitions": 2.5,
                 "load": [{"days": 2, "replicas": 2}, {"tier": "cold", "days": 9}]},
                {"name": "b", "granularity": "day", "load": [{"days": 1}]},
            ],
        }
    )  # fmt: skip
    segments = make_segments(scenario)
    assert len(segments) == 5 * 4 * 2.5 + 5
    assert (np.diff(segments.end) >= 0).all()
    assert set(segments.end - segments.start) == {6, 24}
    hot, cold = (make_copies(scenario, segments, tier) for tier in scenario.tiers)
    assert len(hot) == 50 * 2 + 5
    assert len(cold) == 50
    assert set(hot.leave - hot.arrive) == {48, 24}
    assert set(cold.leave - cold.arrive) == {9 * 24}


def test_skew_shifts_partitions_and_keeps_their_sum() -> None:
    flat, steep = (
        make_segments(
            load_scenario(
                {**TINY, "datasources": [{"name": "a", "count": 3, "partitions": 4, "skew": skew}]}
            )
        )
        for skew in (0, 2)
    )
    counts = np.bincount(steep.source)
    assert abs(len(flat) - len(steep)) <= 3
    assert counts[0] > 3 * counts[1] > 3 * counts[2]


def test_servers_that_are_added_take_the_next_numbers_and_the_lost_are_not_lost_twice() -> None:
    scenario = load_scenario(
        {
            **TINY,
            "events": [
                {"atHour": 5, "kind": "fail", "servers": 2},
                {"atHour": -5, "kind": "add", "servers": 2},
                {"atHour": 9, "kind": "replace", "servers": 3},
            ],
        }
    )
    changes = plan_changes(scenario, scenario.tiers[0], np.random.default_rng(0))
    assert [change.at_hour for change in changes] == [-5, 5, 9]
    assert list(changes[0].servers) == [3, 4]
    assert len({*changes[1].servers, *changes[2].servers}) == 5
