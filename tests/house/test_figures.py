"""Measured figures that pages give are those of the committed results, rounded as the page rounds them."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.house.checkout import ROOT, text_of

RESULTS = ROOT / "benchmarks" / "results"
PLAN, REWRITE = "compaction_plan", "compaction: rewrite: medians"
BESIDE = "append_compact"
PUBLISH, SERVER = "publish: sqlite", "publish: postgresql"
PLACES = "allocation"
COSTS = "balancing"

FIGURES = [
    ("concepts/compaction.md", "{:.1f} s", f"{PLAN}: full_analysis_s"),
    ("concepts/compaction.md", "{:.1f} s", f"{PLAN}: full_analysis_with_states_s"),
    ("concepts/compaction.md", "{:.0f} ms", f"{PLAN}: reanalysis_ms"),
    ("concepts/compaction.md", "{:.1f} ms", f"{PLAN}: nothing_changed_ms"),
    ("concepts/rewriting.md", "{:.1f} s", f"{REWRITE}: carnac s"),
    ("concepts/rewriting.md", "{:.2f} times", f"{REWRITE}: carnac / DuckDB (s)"),
    ("concepts/rewriting.md", "{:.0%}", "compaction: proof: medians: proof overhead"),
    ("decisions/0013-rewrites.md", "| **{:.1f}** |", f"{REWRITE}: carnac s"),
    ("decisions/0013-rewrites.md", "| **{:.1f}** |", f"{REWRITE}: carnac CPU s"),
    ("decisions/0013-rewrites.md", "| {:.1f} |", f"{REWRITE}: DuckDB s"),
    ("decisions/0013-rewrites.md", "| {:.1f} |", f"{REWRITE}: DuckDB CPU s"),
    ("decisions/0013-rewrites.md", "| {:.1f} |", f"{REWRITE}: Polars s"),
    ("decisions/0013-rewrites.md", "| {:.1f} |", f"{REWRITE}: Polars CPU s"),
    ("decisions/0013-rewrites.md", "| {:.1f} |", f"{REWRITE}: delta-rs compact s"),
    ("decisions/0013-rewrites.md", "| {:.0f} |", f"{REWRITE}: delta-rs z_order s"),
    ("decisions/0013-rewrites.md", "| {:.0f} |", f"{REWRITE}: plain Spark s"),
    ("decisions/0013-rewrites.md", "{:.2f} times", f"{REWRITE}: carnac / DuckDB (s)"),
    ("decisions/0013-rewrites.md", "({:.2f} in CPU", f"{REWRITE}: carnac / DuckDB (CPU s)"),
    ("decisions/0013-rewrites.md", "{:.1f} times", f"{REWRITE}: plain Spark / carnac (s)"),
    ("decisions/0013-rewrites.md", "({:.1f} in CPU", f"{REWRITE}: plain Spark / carnac (CPU s)"),
    ("decisions/0013-rewrites.md", "{:.1f} times", f"{REWRITE}: z_order / carnac (s)"),
    ("decisions/0013-rewrites.md", "{:.1%}", "compaction: proof: medians: proof overhead"),
    ("decisions/0013-rewrites.md", "{:.1%}", "compaction: proof: medians: proof overhead, a quarter hidden"),
    ("decisions/0013-rewrites.md", "{:.0%}", "compaction: proof: medians: proof overhead, rolled up"),
    ("decisions/0013-rewrites.md", "{:.0f} times", "compaction: minor: medians: major / minor work"),
    ("decisions/0013-rewrites.md", "{:.2f} bytes", "compaction: minor: medians: minor bytes out / in"),
    ("decisions/0013-rewrites.md", "{:.0f} commits", f"{BESIDE}: carnac: medians: commits a second"),
    ("decisions/0013-rewrites.md", "{:.0f},", f"{BESIDE}: delta-rs: medians: commits a second"),
    ("decisions/0013-rewrites.md", "{:.1f}.", f"{BESIDE}: pyiceberg: medians: commits a second"),
    ("decisions/0013-rewrites.md", "{:.1f} times", f"{BESIDE}: carnac commits / better peer"),
    ("decisions/0013-rewrites.md", "{:d} were", f"{BESIDE}: carnac: medians: live segments at most"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f} commits", f"{PUBLISH}: 16_processes: carnac: per_s"),
    ("decisions/0021-publishing-for-others.md", "{:.0f} ms", f"{PUBLISH}: 16_processes: carnac: p99_ms"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f} with", f"{PUBLISH}: 16_processes: plain_sql: per_s"),
    ("decisions/0021-publishing-for-others.md", "{:.0f} ms", f"{PUBLISH}: 16_processes: plain_sql: p99_ms"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f}", f"{PUBLISH}: 1_processes: carnac: per_s"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f}", f"{PUBLISH}: 1_process_32_threads: carnac: per_s"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f}", f"{PUBLISH}: 1_process_32_in_flight: carnac: per_s"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f}", f"{PUBLISH}: 1_process_64_in_flight: carnac: per_s"),
    ("decisions/0021-publishing-for-others.md", "{:.0f} ms", f"{PUBLISH}: 1_process_64_in_flight: carnac: p99_ms"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f}", f"{PUBLISH}: 1_processes: plain_sql: per_s"),
    ("decisions/0021-publishing-for-others.md", "{:,.0f} times a second", f"{SERVER}: 16_processes: carnac: per_s"),
    ("decisions/0021-publishing-for-others.md", "does {:,.0f}, and", f"{SERVER}: 16_processes: plain_sql: per_s"),
    ("decisions/0021-publishing-for-others.md", "and 4 {:,.0f};", f"{SERVER}: 4_processes: carnac: per_s"),
    ("concepts/operating.md", "{:,d} MiB", "million_segments: database_mib"),
    *(
        ("concepts/allocation.md", "{:,.0f}", f"{PLACES}: {store}: {way}: per_s")
        for store in ("sqlite", "postgresql")
        for way in ("service_founded", "service_live", "service_locked", "http_live", "http_by_16_live", "bulk_live")
    ),
    ("concepts/balancing.md", "{:,.4r}", f"{COSTS}: pairs: pairs_per_s"),
    ("concepts/balancing.md", "{:,.4r}", f"{COSTS}: held_1_000_000: one_server_per_s_from_python"),
    ("concepts/balancing.md", "{:,.4r}", f"{COSTS}: held_1_000_000: all_servers_per_s_from_python"),
    ("concepts/balancing.md", "{:,.0f} times", f"{COSTS}: held_1_000_000: times_the_sum_over_pairs"),
    ("concepts/balancing.md", "{:,.4r}", f"{COSTS}: place: any_order_per_s"),
    ("concepts/balancing.md", "{:.2f} s", f"{COSTS}: run: run_s"),
    ("concepts/balancing.md", "{:.1f} s", f"{COSTS}: run: index_s"),
    ("concepts/balancing.md", "{:d} MB", f"{COSTS}: run: index_memory_mb"),
    ("concepts/balancing.md", "{:.2f} ms", f"{COSTS}: pairs: naive_10_000_hours_ms"),
    ("concepts/balancing.md", "{:,.3r}", f"{COSTS}: six_servers_200_days_100_partitions: choices_per_s_from_python"),
]  # fmt: skip
"""(page, how it writes the figure, where the figure is). `{:,.3r}` is a number of three digits that count."""


@cache
def result(name: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())["figures"]
    return figures


def figure(place: str) -> float:
    name, *steps = place.split(": ")
    found: Any = result(name)
    for step in steps:
        found = found[step]
    assert isinstance(found, int | float)
    return found


def written(form: str, value: float) -> str:
    """Return the figure as the page writes it, with a narrow look at what stands around it."""
    if digits := re.search(r"\{:,\.(\d)r\}", form):
        rounded = float(f"{value:.{int(digits[1]) - 1}e}")
        return form.replace(digits[0], f"{rounded:,.0f}")
    return form.format(value).replace("%", " %")


@pytest.mark.parametrize(("page", "form", "place"), FIGURES)
def test_a_page_says_what_was_measured(page: str, form: str, place: str) -> None:
    text = " ".join(text_of(ROOT / "docs" / page).split())
    shown = written(form, figure(place))
    assert re.search(rf"(?<![\d.,]){re.escape(shown)}(?!\d)", text), (
        f"docs/{page} does not say {shown}: benchmarks/results has another figure for {place}"
    )


def test_every_result_says_where_and_when_it_was_measured() -> None:
    files = sorted(RESULTS.glob("*.json"))
    assert len(files) > 5
    for path in files:
        document = json.loads(path.read_text())
        assert document["benchmark"] == path.stem
        assert {"cores", "memory_gib", "python", "kernel"} <= document["machine"].keys()
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", document["date"])
        assert document["figures"]
