"""`carnac compact` and `carnac compaction`: plans, reasons, specs, status, simulations; without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from carnac.errors import CarnacError, Invalid, NotFound
from tests.e2e.conftest import Run

SPEC = {"dataSource": "flights", "granularitySpec": {"segmentGranularity": "month"}}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(SPEC), encoding="utf-8")
    return path


def test_what_is_stable_is_left_alone_and_says_why(run: Run, store: Path) -> None:
    done = run("compact", "flights", "--dry-run", "--store", store)
    assert done.out.startswith("nothing to compact: 3 time chunks of flights")
    told = run("compact", "flights", "--json", "--store", store).json
    assert (told["groups"], told["outcomes"], told["segments_in"]) == ([], {}, 0)
    reasons = run("compact", "flights", "--explain", "--json", "--store", store).json["chunks"]
    assert [one["score"] for one in reasons] == ["stable"] * 3
    assert all(one["reason"] for one in reasons)


def test_a_plan_shows_tasks_and_every_reason(run: Run, store: Path, spec: Path) -> None:
    plan = run("compact", "flights", "--dry-run", "--spec", spec, "--json", "--store", store).json
    (task,) = plan["tasks"]
    assert plan["dry_run"] is True
    assert task["groups"][0]["kind"] == "major"
    assert len(task["groups"][0]["segments"]) == 3
    shown = run("compact", "flights", "--explain", "--spec", spec, "--store", store)
    assert "segment granularity MONTH is asked for" in shown.out
    assert "1 task at revision" in shown.err
    inside = run(
        "compact", "flights", "--explain", "--spec", spec, "--store", store,
        "--interval", "2013-01-01/2013-01-03",
    )  # fmt: skip
    assert "it is not wholly inside the interval that was asked for" in inside.out


def test_where_there_is_nothing_one_sentence_says_so(run: Run, store: Path) -> None:
    words = "nothing to compact: flights has no time chunk in 2030-01-01/2030-01-02\n"
    for how in ((), ("--dry-run",), ("--explain",)):
        done = run("compact", "flights", *how, "--interval", "2030-01-01/P1D", "--store", store)
        assert (done.out, done.err) == (words, ""), how
    auto = run("compact", "--auto", "--until-stable", "--store", store)
    assert auto.out == "nothing is left to compact; 0 groups committed\n"
    assert "no datasource has a compaction spec" in auto.err


def test_a_spec_of_what_is_not_there_yet_is_set_with_a_warning(run: Run, store: Path) -> None:
    path = store.parent / "trains.json"
    path.write_text('{"dataSource": "trains"}', encoding="utf-8")
    assert "no datasource 'trains' yet" in run("compaction", "set", path, "--store", store).err
    run("compact", "--auto", "--until-stable", "--store", store)
    status = run("compaction", "status", "trains", "--store", store)
    assert status.out.startswith("nothing is known of its time chunks")
    summary = run("compaction", "status", "--store", store)
    assert "nothing is known of the time chunks of trains: it has none" in summary.err
    told = run("compaction", "status", "--json", "--store", store).json["controller"]
    assert told["at"].endswith("Z")
    assert not [name for name in told if name.endswith("_at_ms")]


def test_specs_are_set_shown_and_removed(run: Run, store: Path, spec: Path) -> None:
    assert "no datasource is kept compacted" in run("compaction", "status", "--store", store).out
    run("compaction", "set", spec, "--store", store)
    (shown,) = run("compaction", "show", "--store", store).json
    assert shown == {"dataSource": "flights", "granularitySpec": {"segmentGranularity": "MONTH"}}
    assert run("compaction", "show", "flights", "--store", store).json == shown
    status = run("compaction", "status", "--store", store)
    assert "flights" in status.out
    assert "no controller has run yet" in status.err
    assert run("compaction", "status", "--json", "--store", store).json == {
        "controller": None,
        "datasources": {"flights": []},
    }
    run("compaction", "remove", "flights", "--store", store)
    assert run("compaction", "show", "--store", store).json == []
    spec.write_text(
        '{"dataSource": "flights", "engine": "msq", "tuningConfig": {"sortBy": ["orgin"]}}',
        encoding="utf-8",
    )
    told = run("compaction", "set", spec, "--store", store).err.splitlines()
    assert told[0] == "warning: engine has no effect: Spark does the work"
    assert told[1].startswith("warning: no segment has column 'orgin', which sortBy names")


@pytest.mark.parametrize(
    ("error", "args", "words"),
    [
        (Invalid, ("compact",), "say which datasource"),
        (NotFound, ("compact", "trains"), "no datasource 'trains'"),
        (Invalid, ("compact", "--auto", "--dry-run"), "give no other options"),
        (Invalid, ("compact", "flights", "--until-stable"), "goes with --auto"),
        (NotFound, ("compaction", "remove", "flights"), "has no compaction spec"),
        (NotFound, ("compaction", "status", "flights"), "has no compaction spec"),
        (NotFound, ("compaction", "show", "flights"), "has no compaction spec; there are none"),
        (NotFound, ("compact", "--auto", "flights"), "set one with carnac compaction set"),
        (
            Invalid,
            ("compaction", "simulate", "--days", "inf"),
            "it should be less than or equal to",
        ),
        (Invalid, ("compaction", "simulate", "--every", "P8D"), "is none in 7 days; give more --d"),
        (Invalid, ("compaction", "simulate", "--every", "PT0.01S"), "give fewer --days"),
        (Invalid, ("compaction", "simulate", "--lateness", "P3000Y"), "give less --lateness"),
    ],
)
def test_mistakes_are_one_sentence(
    run: Run, store: Path, error: type[CarnacError], args: tuple[str, ...], words: str
) -> None:
    done = run(*args, "--store", store, code=error.exit_code)
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_simulation_is_a_table_and_a_picture(run: Run, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "week.svg"
    done = run("compaction", "simulate", "--days", "0.2", "--out", out, "--store", store)
    assert "amplification" in done.out
    assert "all stable at 2026-01-01" in done.out
    assert out.read_text(encoding="utf-8").startswith("<svg")
    told = run("compaction", "simulate", "flights", "--days", "2", "--json", "--store", store).json
    assert told["outlook"] == "clear"
    assert told["moments"][-1]["chunks"] == 4, "the three days of the log, and again a day later"
    assert told["settled_at"] > told["moments"][0]["at"]
    times = [one["at"] for one in told["moments"]]
    assert times == sorted(set(times)), "each hour once"
    for name, code, words in (
        ("week.gif", Invalid.exit_code, "one of .svg, .png, .html, not '.gif'"),
        ("no/week.svg", NotFound.exit_code, "there is no folder"),
    ):
        refused = run(
            "compaction", "simulate", "--out", tmp_path / name, "--store", store, code=code
        )
        assert words in refused.err
        assert "simulate:" not in refused.err, "before it simulates anything"
