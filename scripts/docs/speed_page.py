"""`docs/reference/speed.md`: the figures of the committed benchmark results, beside what they were to reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scripts.docs.results import read_result

ENGINES = ("carnac", "delta-rs", "pyiceberg")
SIDES = (
    ("embedded", "Carnac"),
    ("embedded_without_hot", "files alone"),
    ("embedded_with_kept", "asked again"),
    ("broker", "2 historicals"),
    ("duckdb_files", "DuckDB, files"),
    ("duckdb_native", "DuckDB, table"),
    ("chdb", "chDB"),
)
"""Columns of what was asked, as the result and as the page calls them."""

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
            _format_of_spark(),
            _appending(),
            _publishing(),
            _allocating(),
            _rewriting(),
            _asking(),
            _asking_druid(),
            _serving(),
            _doors(),
            _scale(),
            _balancing(),
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


def _format_of_spark() -> str:
    result = read_result("format")
    found = result["figures"]
    writes, reads = found["writes"], found["reads"]
    every, two = reads["all columns"], reads["two columns"]
    rows = [
        _way("write", writes["parquet_s"], writes["ingest_s"], writes["format_s"]),
        _way("write, divided by day before", None, writes["ingest_s"], writes["format_by_day_s"]),
        _way("read all columns", every["parquet_s"], every["read_spark_s"], every["format_s"]),
        _way("read two columns", two["parquet_s"], two["read_spark_s"], two["format_s"]),
        _way("read them by option `columns`", None, two["read_spark_s"], two["format_columns_s"]),
    ]
    return _section(
        "The format of Spark",
        result,
        f"`format(\"carnac\")` in Carnac's session, beside `store.ingest`, `store.read_spark` and Spark's own Parquet, "
        f"over {found['rows']:,} events of a month. `ingest` leaves {writes['segments']['ingest']} segments, the "
        f"format {writes['segments']['format']}, and {writes['segments']['format_by_day']} of rows that are divided "
        "by day.",
        ["", "Parquet, s", "`ingest`, `read_spark`, s", "format, s", "format / these"],
        rows,
    )


def _way(what: str, parquet_s: float | None, ours_s: float, format_s: float) -> list[str]:
    plain = "" if parquet_s is None else _s(parquet_s)
    return [what, plain, _s(ours_s), _s(format_s), _number(format_s / ours_s)]


def _appending() -> str:
    result = read_result("append_compact")
    found = {name: one["medians"] for name, one in result["figures"].items() if name in ENGINES}
    ours, aims = found["carnac"], result["figures"]["aims"]
    alone_ms, alone_aim = ours["alone p50_ms"], aims["alone p50_ms"]
    times = ours["commits a second"] / found["delta-rs"]["commits a second"]
    times_aim = aims["carnac commits / better peer"]
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
    alone = _judged(_number(alone_ms), alone_ms <= alone_aim)
    return _section(
        "Appending beside compaction",
        result,
        "Four processes append 1,000 rows a time to one time chunk for 30 seconds while a fifth compacts it in a loop. "
        f"Carnac makes {_judged(_number(times), times >= times_aim)} times the commits of delta-rs (limit: "
        f"{times_aim}). One process alone appends 1,000 rows in {alone} ms (limit: {alone_aim}).",
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
            is_alone = (backend, name) == ("sqlite", "1_processes")
            per_s, p99_ms = one["carnac"]["per_s"], one["carnac"]["p99_ms"]
            rows.append(
                [
                    "SQLite" if backend == "sqlite" else "PostgreSQL",
                    _writers(name),
                    _judged(_number(per_s), not is_alone or per_s >= 1000),
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


def _allocating() -> str:
    result = read_result("allocation")
    found, aim = result["figures"], result["figures"]["aims"]["sqlite_service_founded_per_s"]
    ways = {
        "service_founded": "one at a time, in the overlord's process, in a new chunk",
        "service_live": "the same, in a chunk that there is",
        "service_locked": "the same, with its lock in the same transaction",
        "http_live": "over HTTP, one place a request",
        "http_by_16_live": "over HTTP, 16 places a request",
        "bulk_live": "one client, 500 places at a time",
    }
    rows = [
        [
            what,
            _judged(_number(per_s), name != "service_founded" or per_s >= aim),
            _number(found["postgresql"][name]["per_s"]),
        ]
        for name, what in ways.items()
        for per_s in (found["sqlite"][name]["per_s"],)
    ]
    return _section(
        "Allocating",
        result,
        f"Places a second for {found['clients']} clients, each synced. Limit: {aim:,} on SQLite in the overlord's "
        "process.",
        ["requests", "SQLite, 1/s", "PostgreSQL, 1/s"],
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
    proof, aims = result["figures"]["proof"]["medians"], result["figures"]["aims"]
    duck_aim, spark_aim = aims["carnac / DuckDB"], aims["plain Spark / carnac"]
    proof_aim = aims["proof overhead"]
    shares = ", ".join(
        f"{what} {_judged(f'{100 * proof[key]:.1f} %', proof[key] <= proof_aim)}"
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
        f"sort. Carnac takes {_judged(_number(duck), duck <= duck_aim)} of DuckDB's processor time (limit: "
        f"{duck_aim}), plain Spark {_judged(_number(spark), spark >= spark_aim)} times Carnac's (at least "
        f"{spark_aim}). The proof that no row was lost costs (limit: {100 * proof_aim:.0f} %): {shares}.",
        ["", "s", "CPU s"],
        rows,
    )


def _asking() -> str:
    result = read_result("queries")
    figures = result["figures"]
    limits = {one["what"]: one for one in figures["limits"]}
    missed = {what: one for what, one in limits.items() if not one["is_met"]}
    clients, day = figures["clients"], limits["dashboard after one more day"]
    listed = "".join(
        f"\n- {_contestant(what)}: {_number(one['found'])}, limit {_number(one['limit'])}"
        for what, one in missed.items()
    )
    told = f" Missed:\n{listed}" if missed else ""
    return (
        _section(
            "Asking",
            result,
            f"{figures['rows']['clicks']:,} events in 30 days, and their hourly rollup (last row). *Carnac* keeps hot "
            "segments decoded in memory and no results; *files alone* keeps nothing; *asked again* takes results that "
            "are kept, which the next commit changes for its own chunks only; *2 historicals* is a broker in front of "
            "two of them, nothing kept. Milliseconds. Limits of *Carnac*: DuckDB on the same files and a little more, "
            "and the geometric mean of DuckDB's own table; of the broker: *Carnac* and a little more. *Files alone* "
            "has no limit; it is bold where DuckDB on the same files is faster.",
            ["", *(name for _, name in SIDES)],
            _asked(figures, limits),
        )
        + f"\n{clients['clients']} clients for {clients['seconds']} s at the broker, nothing kept: "
        f"{_number(clients['queries_per_s'])} answers a second, p50 {_number(clients['p50_ms'])} ms, p99 "
        f"{_number(clients['p99_ms'])} ms, {clients['errors']} errors. A dashboard that is asked again after one more "
        f"day was appended takes {_judged(day['found'], day['is_met'])} of its first time (limit: {day['limit']}).\n\n"
        f"{len(limits) - len(missed)} of {len(limits)} limits are met.{told}\n"
    )


def _asked(
    figures: Mapping[str, Any], limits: Mapping[str, Mapping[str, Any]]
) -> Iterator[list[str]]:
    for name, one in figures["raw"].items():
        row = [name]
        for side, _ in SIDES:
            found_ms, limit = one[f"{side}_ms"], limits.get(f"raw, {name}: {side}, ms")
            is_met = "embedded" not in side or found_ms <= one["duckdb_files_ms"]
            row.append(_judged(_number(found_ms), is_met if limit is None else limit["is_met"]))
        yield row
    for kind, means in figures["geometric_means_ms"].items():
        row = [f"geometric mean, {kind}"]
        for side, _ in SIDES:
            limit = limits.get(f"{kind}: geometric mean of {side} over DuckDB's table")
            row.append(_judged(_number(means[side]), limit is None or limit["is_met"]))
        yield row


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
        f"{figures['rows']:,} rows, each warmed by {figures['warm_s']} seconds of each statement. "
        f"Ahead on {figures['ahead_on']} of {figures['of']}.",
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
        ["from the commit to the answer of a historical", *_pair(calm, 1000), "p99 1,000"],
        [
            "the same, while another server is emptied",
            *_pair(busy, 1.2 * calm["p99_ms"]),
            "p99 1.2 of that",
        ],
        [
            "a broker's plan after a commit, 1,000,000 live segments",
            *_pair(plan["plan_ms"], plan["aims"]["plan_ms"]),
            f"{plan['aims']['plan_ms']}",
        ],
    ]
    return _section(
        "Serving",
        result,
        "A broker and two historicals.",
        ["", "p50, ms", "p99, ms", "limit"],
        rows,
    )


def _doors() -> str:
    result = read_result("doors")
    figures = result["figures"]
    rows = [
        [
            *(name, _s(one["s"]), _number(one["of_json"])),
            *(_number(figures[asked][name]) for asked in ("few_ms", "again_ms")),
        ]
        for name, one in figures["many"].items()
    ]
    return _section(
        "By which door",
        result,
        f"{figures['rows']:,} rows of seven columns, and a single number, by a statement that is new and by one that "
        f"was asked before, from one `carnac serve`; no limits. Where the store has users, and a client sends a "
        f"password each time, the number by JSON takes {_number(figures['users']['ratio'])} of that.",
        ["", "rows, s", "of JSON", "a number, ms", "the same again, ms"],
        rows,
    )


def _scale() -> str:
    million, plan, balancing = (
        read_result(name) for name in ("million_segments", "compaction_plan", "balancing")
    )
    store, planned, moved = million["figures"]["medians"], plan["figures"], balancing["figures"]
    aims = million["figures"]["aims"] | planned["aims"] | moved["aims"]
    cold_s = read_result("sql")["figures"]["cold_command"]["wall_s"]
    open_ms = 1000 * store["open_and_first_answers_s"]
    placed_per_s = moved["place"]["any_order_per_s"]
    place_aim = aims["place_any_order_per_s"]
    rows = [
        _at_most("open a store, first answers", open_ms, 100, "ms"),
        *(
            _at_most(what, store[name], aims[name], unit)
            for what, name, unit in (
                ("list the segments of a day", "one_day_ms", "ms"),
                ("follow a commit that changes 1,000 segments", "sync_1000_changes_ms", "ms"),
                ("memory of the reader at most", "peak_memory_mib", "MiB"),
            )
        ),
        *(
            _at_most(what, planned[name], aims[name], unit)
            for what, name, unit in (
                ("plan compaction from nothing", "full_analysis_s", "s"),
                ("plan again after 1,000 changed chunks", "reanalysis_ms", "ms"),
            )
        ),
        [
            "place segments on servers, in any order",
            _judged(f"{_number(placed_per_s)} a second", placed_per_s >= place_aim),
            f"{place_aim:,}",
        ],
        _at_most(
            "choose 1,000 moves among 3,000,000 segments",
            moved["run"]["run_s"],
            aims["run_of_1000_moves_s"],
            "s",
        ),
        _at_most("`carnac sql` from the shell, a small store", cold_s, 0.8, "s"),
    ]
    return _section("A million segments", million, "On SQLite.", ["", "measured", "limit"], rows)


def _balancing() -> str:
    result = read_result("balancing")
    found = result["figures"]
    held, run, grown = found["held_1_000_000"], found["run"], found["growth"]
    rows = [
        ["pairs costed one by one", _rate(found["pairs"]["pairs_per_s"])],
        [
            "a segment costed against a million, on all 300 servers, from Python",
            _rate(held["all_servers_per_s_from_python"]),
        ],
        ["the same as a sum over pairs", _rate(held["all_servers_by_pairs_per_s"])],
        [
            f"a run of {run['moves']:,} moves among {run['segments']:,} segments, beside an index that is kept",
            f"{_number(run['run_s'])} s",
        ],
        [
            f"making the index, of {_number(run['index_memory_mb'])} MB",
            f"{_number(run['index_s'])} s",
        ],
        *(
            [
                f"a placement beside {one['held']:,} segments, in {_number(one['memory_mb'])} MB",
                f"{_number(one['placement_us'])} µs",
            ]
            for one in grown
        ),
    ]
    return _section(
        "Balancing",
        result,
        "One thread, 300 servers, hours of ten datasources. The time of a placement does not grow with the segments, "
        "since a year has as many hours with more of them; memory goes with their starts and ends.",
        ["", "found"],
        rows,
    )


def _rate(per_s: float) -> str:
    return f"{_number(per_s)}/s"


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


def _pair(one: Mapping[str, float], p99_max_ms: float) -> tuple[str, str]:
    p99_ms = one["p99_ms"]
    return _number(one["p50_ms"]), _judged(_number(p99_ms), p99_ms <= p99_max_ms)


def _at_most(what: str, found: float, limit: float, unit: str) -> list[str]:
    return [what, _judged(f"{_number(found)} {unit}", found <= limit), f"{_number(limit)} {unit}"]


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
