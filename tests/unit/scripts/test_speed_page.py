"""The page of speed: bold where the results of benchmarks miss a limit, and nowhere else."""

from __future__ import annotations

import pytest

from scripts.docs import speed_page
from scripts.docs.results import read_result

SIDES = [side for side, _ in speed_page.SIDES]


def cells(page: str, name: str) -> list[str]:
    """Return the cells of a row of the section about what was asked."""
    [section] = [one for one in page.split("\n## ") if one.startswith("Asking\n")]
    [row] = [line for line in section.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


@pytest.mark.parametrize("side", ["embedded", "broker"])
def test_a_statement_is_bold_where_its_limit_is_missed(side: str) -> None:
    page, figures = speed_page.render(), read_result("queries")["figures"]
    limits = {one["what"]: one["is_met"] for one in figures["limits"]}
    whats = {name: f"raw, {name}: {side}, ms" for name in figures["raw"]}
    judged = {name: limits[what] for name, what in whats.items() if what in limits}
    shown = {name: not cells(page, name)[SIDES.index(side)].startswith("**") for name in judged}
    assert shown == judged != {}


def test_what_has_no_limit_is_bold_where_duckdb_is_faster() -> None:
    page, figures = speed_page.render(), read_result("queries")["figures"]
    place = SIDES.index("embedded_without_hot")
    shown = {name: cells(page, name)[place].startswith("**") for name in figures["raw"]}
    assert shown == {
        name: one["embedded_without_hot_ms"] > one["duckdb_files_ms"]
        for name, one in figures["raw"].items()
    }


@pytest.mark.parametrize(("found", "shown"), [(100, "100 ms"), (101, "**101 ms**")])
def test_what_is_more_than_its_limit_is_bold(found: float, shown: str) -> None:
    assert speed_page._at_most("open", found, 100, "ms") == ["open", shown, "100 ms"]
