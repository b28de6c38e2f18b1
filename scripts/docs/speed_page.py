"""`docs/reference/speed.md`: the figures of the committed benchmark results, beside what they were to reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scripts.docs.results import read_result

ENGINES = ("carnac", "delta-rs", "pyiceberg")

_INTRO = """\
# How fast

<!-- Made by `make docs` from `benchmarks/results/`; do not edit. -->

All contestants of a table ran in turns, in one run, on one machine; figures are medians. **Bold** is
what misses its limit, or is slower than a contestant that it was to beat. Compare rows, not pages:
your machine has other absolute figures. `make bench` measures on it (`make bench ARGS="publish"` one
of them).

![Milliseconds of each statement by engine, beside Druid and beside DuckDB and chDB](../images/speed.svg)
"""


def render() -> str:
    """Return the page, as Markdown."""
    return "\n".join(
        [
            _INTRO,
            _loading(),
            _appending(),
            _publishing(),
            _rewriting(),
            _asking(),
            _asking_druid(),
            _serving(),
            _scale(),
        ]
    )


def _loading() -> str:
    result = read_result("ingest")
    rows = [
        [
            name,
            _s(one["plain s"]),
            _s(one["ours s"]),
            _judged(_number(one["ratio"]), one["ratio"] <= 0.7),
        ]
        for name, one in result["figures"].items()
    ]
    return _section(
        "Loading",
        result,
        "`carnac ingest` against the plain Spark job (`repartitionByRange` by day, sort, `partitionBy`) over 5,000,000 "
        "events, in one warm session. Limit: 0.7 of the plain job's time.",
        ["input", "plain Spark, s", "Carnac, s", "Carnac / plain"],
        rows,
    )


def _appending() -> str:
    result = read_result("append_compact")
    found = {name: one["medians"] for name, one in result["figures"].items() if name in ENGINES}
    ours, delta = found["carnac"], found["delta-rs"]
    times = ours["commits a second"] / delta["commits a second"]
    rows = [
        [
            name.replace("carnac", "Carnac"),
            _number(one["commits a second"]),
            _number(one["p50_ms"]),
            _number(one["p99_ms"]),
            str(one["failed appends"]),
            str(one["compactions"]),
            str(one["aborted compactions"]),
        ]
        for name, one in found.items()
    ]
    alone = _judged(_number(ours["alone p50_ms"]), ours["alone p50_ms"] <= 15)
    return _section(
        "Appending beside compaction",
        result,
        "Four processes append 1,000 rows a time to one time chunk for 30 seconds while a fifth compacts it in a loop. "
        f"Carnac makes {_judged(_number(times), times >= 8)} times the commits of delta-rs (limit: 8). One process "
        f"alone appends 1,000 rows in {alone} ms (limit: 15).",
        ["", "commits/s", "p50, ms", "p99, ms", "failed appends", "compactions", "aborted"],
        rows,
    )


def _publishing() -> str:
    result = read_result("publish")
    rows = []
    for backend in ("sqlite", "postgresql"):
        for name, one in result["figures"][backend].items():
            plain, share = one.get("plain_sql"), one.get("rate_of_plain_sql")
            is_limited = (backend, name) == ("sqlite", "16_processes")
            p99_ms = one["carnac"]["p99_ms"]
            rows.append(
                [
                    "SQLite" if backend == "sqlite" else "PostgreSQL",
                    _writers(name),
                    _number(one["carnac"]["per_s"]),
                    _number(one["carnac"]["p50_ms"]),
                    _judged(_number(p99_ms), not is_limited or p99_ms <= 100),
                    _number(plain["per_s"]) if plain else "",
                    _judged(share, not is_limited or share >= 0.6) if plain else "",
                ]
            )
    return _section(
        "Publishing",
        result,
        "A commit that appends one segment, against the same rows by plain SQL: one transaction of seven INSERTs that "
        "reads and decides nothing. Each is synced. Limits, on SQLite: 1,000 commits a second from one process; from "
        "sixteen 0.6 of plain SQL and a p99 of 100 ms.",
        ["", "writers", "commits/s", "p50, ms", "p99, ms", "plain SQL, 1/s", "Carnac / plain"],
        rows,
    )


def _rewriting() -> str:
    result = read_result("compaction")
    found = result["figures"]["rewrite"]["medians"]
    names = ("carnac", "DuckDB", "Polars", "delta-rs compact", "delta-rs z_order", "plain Spark")
    rows = [
        [
            "Carnac" if name == "carnac" else name,
            *(_s(found[f"{name} {unit}"]) for unit in ("s", "CPU s")),
        ]
        for name in names
    ]
    duck, spark = found["carnac / DuckDB (CPU s)"], found["plain Spark / carnac (CPU s)"]
    proof = result["figures"]["proof"]["medians"]
    shares = ", ".join(
        f"{what} {_judged(f'{100 * proof[key]:.1f} %', proof[key] <= 0.1)}"
        for what, key in (
            ("of all rows", "proof overhead"),
            ("of rolled up rows", "proof overhead, rolled up"),
            ("after a deletion", "proof overhead, deletion"),
            ("with a quarter of the rows hidden", "proof overhead, a quarter hidden"),
        )
    )
    return _section(
        "Compacting",
        result,
        "10,000,000 rows in 1,000 segments become 30 sorted ones. Carnac's time includes planning, the proof and 30 "
        "commits; DuckDB, Polars and plain Spark write sorted files and nothing else; delta-rs's `compact` does not "
        f"sort. Carnac takes {_judged(_number(duck), duck <= 1.3)} of "
        f"DuckDB's processor time (limit: 1.3), plain Spark {_judged(_number(spark), spark >= 4)} times Carnac's "
        f"(at least 4). The proof that no row was lost costs (limit: 10 %): {shares}.",
        ["", "s", "CPU s"],
        rows,
    )


def _asking() -> str:
    result = read_result("queries")
    figures = result["figures"]
    columns = (
        ("embedded_ms", "Carnac"),
        ("embedded_without_hot_ms", "files alone"),
        ("embedded_with_kept_ms", "asked again"),
        ("broker_ms", "2 historicals"),
        ("duckdb_files_ms", "DuckDB, files"),
        ("duckdb_native_ms", "DuckDB, table"),
        ("chdb_ms", "chDB"),
    )
    rows = []
    for name, one in figures["raw"].items():
        worst = one["duckdb_files_ms"] + 2
        rows.append(
            [name]
            + [
                _judged(_number(one[key]), "embedded" not in key or one[key] <= worst)
                for key, _ in columns
            ]
        )
    for kind, means in figures["geometric_means_ms"].items():
        rows.append(
            [f"geometric mean, {kind}"]
            + [
                _judged(
                    _number(means[key.removesuffix("_ms")]),
                    key not in ("embedded_ms", "embedded_without_hot_ms")
                    or means[key.removesuffix("_ms")] <= means["duckdb_native"],
                )
                for key, _ in columns
            ]
        )
    met, clients, day = figures["limits"], figures["clients"], figures["dashboard_s"]
    missed = [one for one in met if not one["is_met"]]
    listed = "".join(
        f"\n- {_contestant(one['what'])}: {_number(one['found'])}, limit {_number(one['limit'])}"
        for one in missed
    )
    return (
        _section(
            "Asking",
            result,
            f"{figures['rows']['clicks']:,} events in 30 days, and their hourly rollup (last row). *Carnac* keeps hot "
            "segments decoded in memory and no results; *files alone* keeps nothing; *asked again* takes results that "
            "are kept, which the next commit changes for its own chunks only; *2 historicals* is a broker in front of "
            "two of them, nothing kept. Milliseconds. Limits: DuckDB on the same files plus 2 ms for each; the "
            "geometric mean of DuckDB's own table.",
            ["", *(name for _, name in columns)],
            rows,
        )
        + f"\n{clients['clients']} clients for {clients['seconds']} s at the broker, nothing kept: "
        f"{_number(clients['queries_per_s'])} answers a second, p50 {_number(clients['p50_ms'])} ms, p99 "
        f"{_number(clients['p99_ms'])} ms, {clients['errors']} errors. A dashboard that is asked again after one more "
        f"day was appended takes {_judged(day['ratio'], day['ratio'] <= 0.2)} of its first time (limit: 0.2).\n\n"
        f"{len(met) - len(missed)} of {len(met)} limits are met. Missed:\n{listed}\n"
    )


def _asking_druid() -> str:
    result = read_result("queries_druid")
    figures = result["figures"]
    rows = [
        [
            name,
            _number(one["druid_ms"]),
            _number(one["carnac_ms"]),
            _judged(one["ratio"], one["ratio"] <= 1),
        ]
        for name, one in figures["statements"].items()
    ]
    return _section(
        "Asking, beside Apache Druid",
        result,
        f"`carnac serve` and Apache Druid {figures['druid']}, over HTTP, caches off, the same "
        f"{figures['rows']:,} rows, each warmed by ten seconds of each statement. Ahead on {figures['ahead_on']} of "
        f"{figures['of']}.",
        ["", "Druid, ms", "Carnac, ms", "Carnac / Druid"],
        rows,
    )


def _serving() -> str:
    result = read_result("serving")
    figures = result["figures"]
    calm, busy = (
        figures["publish_to_queryable_ms"],
        figures["publish_to_queryable_while_a_server_is_emptied_ms"],
    )
    plan = figures["plans_after_commits"]
    rows = [
        ["from the commit to the answer of a historical", *_pair(calm), "p99 1,000"],
        [
            "the same, while another server is emptied",
            _number(busy["p50_ms"]),
            _judged(_number(busy["p99_ms"]), busy["p99_ms"] <= 1.2 * calm["p99_ms"]),
            "p99 1.2 of that",
        ],
        ["a broker's plan after a commit, 1,000,000 live segments", *_pair(plan["plan_ms"]), "100"],
    ]
    return _section(
        "Serving",
        result,
        "A broker and two historicals.",
        ["", "p50, ms", "p99, ms", "limit"],
        rows,
    )


def _scale() -> str:
    million, plan, balancing = (
        read_result(name) for name in ("million_segments", "compaction_plan", "balancing")
    )
    store, planned, moved = million["figures"]["medians"], plan["figures"], balancing["figures"]
    cold = read_result("sql")["figures"]["cold_command"]["wall_s"]
    rows = [
        [
            "open a store, first answers",
            f"{_number(1000 * store['open_and_first_answers_s'])} ms",
            "100 ms",
        ],
        ["list the segments of a day", f"{_number(store['one_day_ms'])} ms", "20 ms"],
        [
            "follow a commit that changes 1,000 segments",
            f"{_number(store['sync_1000_changes_ms'])} ms",
            "100 ms",
        ],
        ["memory of the reader at most", f"{_number(store['peak_memory_mib'])} MiB", "1,024 MiB"],
        ["plan compaction from nothing", f"{_number(planned['full_analysis_s'])} s", "5 s"],
        [
            "plan again after 1,000 changed chunks",
            f"{_number(planned['reanalysis_ms'])} ms",
            "50 ms",
        ],
        [
            "place segments on servers, in any order",
            f"{_number(moved['place']['any_order_per_s'])} a second",
            "100,000",
        ],
        [
            "choose 1,000 moves among 3,000,000 segments",
            f"{_number(moved['run']['run_s'])} s",
            "1 s",
        ],
        ["`carnac sql` from the shell, a small store", f"{_number(cold)} s", "0.8 s"],
    ]
    return _section("A million segments", million, "On SQLite.", ["", "measured", "limit"], rows)


def _section(
    title: str,
    result: Mapping[str, Any],
    text: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> str:
    machine = result["machine"]
    head_line = f"| {' | '.join(head)} |".replace("|  |", "| |")
    lines = [head_line, "|" + "---|" + "--:|" * (len(head) - 1)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    where = (
        f"*{result['date']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB, Python {machine['python']}: "
        f"[`{result['benchmark']}.json`](../../benchmarks/results/{result['benchmark']}.json)*"
    )
    return f"## {title}\n\n{text}\n\n" + "\n".join(lines) + f"\n\n{where}\n"


def _pair(one: Mapping[str, float]) -> tuple[str, str]:
    return _number(one["p50_ms"]), _number(one["p99_ms"])


def _judged(value: object, is_met: bool) -> str:
    return str(value) if is_met else f"**{value}**"


def _writers(name: str) -> str:
    """Return `1_process_8_threads` and the like in words."""
    count, _, threads, *_ = [*name.split("_"), "", ""]
    processes = "1 process" if count == "1" else f"{count} processes"
    return f"{processes}, {threads} threads" if threads else processes


def _contestant(what: str) -> str:
    """Return what a limit is about, in the words of the table."""
    words = {"embedded_without_hot": "files alone", "embedded": "Carnac", "broker": "2 historicals"}
    for name, word in words.items():
        what = what.replace(name, word)
    return what


def _s(seconds: float) -> str:
    return f"{seconds:.1f}"


def _number(value: float) -> str:
    """Return three digits, or all of a whole number."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
