"""Pictures and page of a simulation: what they say is what was simulated."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carnac.console.balance_page import NO_BAND, pack_moves, render_page
from carnac.console.balance_story import PAGE, draw_story, write_story
from carnac.errors import Invalid
from carnac.simulation.load import change_scenario, load_preset
from carnac.simulation.run import Film, Outcome, Simulation


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return simulate()


def simulate(**more: Any) -> Outcome:
    changes = {
        "days": 2,
        "history": {"days": 10, "movesPerHour": 10},
        "events": [{"atHour": 20, "kind": "replace"}],
        **more,
    }
    return Simulation(change_scenario(load_preset("small"), changes)).run(("cost", "random"))


def read_data(page: str) -> Any:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page)
    assert found is not None
    return json.loads(found.group(1))


def play(packed: bytes, counts: list[int], points: int) -> list[np.ndarray[Any, Any]]:
    """Return the band of each point after each frame, as the page works it out."""
    total = sum(counts)
    number = np.frombuffer(packed[: 4 * total], "<u4")
    band = np.frombuffer(packed[4 * total :], "<u2")
    state = np.full(points, NO_BAND)
    frames, first = [], 0
    for count in counts:
        state[number[first : first + count]] = band[first : first + count]
        frames.append(state.copy())
        first += count
    return frames


@pytest.mark.slow
def test_the_page_plays_exactly_what_was_filmed(outcome: Outcome) -> None:
    for future, raw in zip(
        outcome.futures, read_data(render_page(outcome, []))["films"], strict=True
    ):
        film = future.film
        moves = zlib.decompress(base64.b64decode(raw["moves"]))
        frames = play(moves, raw["counts"], raw["points"])
        assert len(frames) == 2 * 24 + 1
        for shown, frame in zip(frames, film.frames, strict=True):
            bands = np.where(
                np.isin(frame, film.servers), np.searchsorted(film.servers, frame), NO_BAND
            )
            assert np.array_equal(shown, bands)
        assert raw["events"] == [
            {"hour": 20, "kind": "replace", "bands": [int(outcome.changes[0].servers[0])]}
        ]  # fmt: skip


def test_points_that_leave_the_servers_shown_leave_the_picture() -> None:
    film = Film(
        share=1.0,
        servers=np.array([2, 5]),
        source=np.zeros(3, np.int32),
        start_ms=np.zeros(3, np.int64),
        frames=tuple(np.array(row, np.int16) for row in ([2, 5, 9], [5, -1, 2], [5, -1, 2])),
    )
    packed, counts = pack_moves(film)
    assert counts == [2, 3, 0]
    assert [list(frame) for frame in play(packed, counts, 3)] == [
        [0, 1, NO_BAND],
        [1, NO_BAND, 0],
        [1, NO_BAND, 0],
    ]


@pytest.mark.slow
def test_the_page_needs_nothing_from_elsewhere(outcome: Outcome) -> None:
    page = render_page(outcome, ["<svg></svg>"])
    assert "{{" not in page
    assert not re.search(r"(?:src|href)\s*=|@import|url\(|fetch\(", page)
    assert len(page) < 400_000
    assert "after cost" in page
    assert "after random" in page


@pytest.mark.slow
def test_every_picture_is_written_as_png_and_svg(tmp_path: Path) -> None:
    outcome = simulate(tiers=[{"servers": 6}], datasources=[{"name": "a", "load": [{"days": 10}]}])
    told: list[tuple[str, int, int]] = []
    paths = write_story(outcome, tmp_path / "story", on_progress=lambda *what: told.append(what))
    names = {"before", "after-cost", "after-random", "makespan", "timeline", "disks"}
    assert {path.name for path in paths} == {
        PAGE,
        *(f"{name}.{kind}" for name in names for kind in ("png", "svg")),
    }
    assert told[-1] == ("pictures", 7, 7)
    svg = (tmp_path / "story" / "after-cost.svg").read_text()
    assert "replaced at t + 20 h" in svg
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="cannot be made"):
        write_story(outcome, tmp_path / "file" / "story")


def test_the_curves_are_distributions(outcome: Outcome) -> None:
    chart: Any = draw_story(outcome)["makespan"]
    for state in {value["state"] for value in chart["data"]["values"]}:
        shares = [v["share"] for v in chart["data"]["values"] if v["state"] == state]
        assert shares == sorted(shares)
        assert shares[-1] == 1
