"""The JSON form of values, and of objects that are written by hand: instants are texts, and their names lose `_ms`."""

from __future__ import annotations

from carnac.core.json_form import name_in_json, object_to_json, to_json
from carnac.core.tasks.leadership import Leadership

NOON = "2013-01-01T12:00:00.000Z"
NOON_MS = 1_357_041_600_000


def test_instants_of_a_value_are_texts_and_durations_stay_numbers() -> None:
    leader = Leadership(
        role="overlord",
        leader_id="x",
        fence=1,
        holder="me",
        since_ms=NOON_MS,
        heartbeat_at_ms=NOON_MS,
        lease_ms=60_000,
    )
    assert to_json(leader) == {
        "role": "overlord",
        "leader_id": "x",
        "fence": 1,
        "holder": "me",
        "url": "",
        "since": NOON,
        "heartbeat_at": NOON,
        "lease_ms": 60_000,
    }


def test_an_object_is_written_like_a_value_also_inside_of_lists() -> None:
    told = {"at_ms": NOON_MS, "clears_at_ms": None, "running": [{"started_ms": NOON_MS, "rows": 3}]}
    assert object_to_json(told) == {
        "at": NOON,
        "clears_at": None,
        "running": [{"started": NOON, "rows": 3}],
    }


def test_names_of_data_are_left_alone() -> None:
    assert to_json({"at_ms": 5}) == {"at_ms": 5}
    assert [name_in_json(name) for name in ("at_ms", "latency_ms", "rows")] == [
        "at",
        "latency_ms",
        "rows",
    ]
