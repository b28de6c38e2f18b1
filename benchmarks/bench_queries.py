"""Queries: the dashboard's statements, embedded and through a broker, against DuckDB and chDB over the same rows.

    python -m benchmarks.bench_queries [--rows 20000000] [--seconds 60] [--runs 7] [--druid URL]

A month of events in 30 day chunks and their hourly rollup are loaded by `store.append`. A coordinator, a broker and two
historicals are processes of `carnac serve`, asked over HTTP. In one run, in turns, medians: the embedded engine, with
hot segments in memory, with none, and with what it keeps of earlier answers; the broker, with and without the last;
DuckDB on the same files; DuckDB's own table; chDB's. The percentiles of the broker's light statements are of a client
that asks nobody else; those of the turns, in which threads of the others still tidy up, stand beside them. Then 50
clients ask the broker at once, and one more day is appended. A limit that is missed stands in the result.

`--druid` asks Druid's ten statements of a Druid at that address (its datasource `clicks` holds the same rows, which
`--rows-to FILE` writes, as Parquet) and of one `carnac serve`, in turns, caches off, each 25 times after half a minute
of the same statement, and writes `queries_druid.json`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow.parquet as pq

from benchmarks.bench_serving import cluster, settle
from benchmarks.support.clients import ask_at_once
from benchmarks.support.dashboard import ROLLUP_DIMENSIONS, STATEMENTS, Statement, over
from benchmarks.support.events import DAYS, make_table
from benchmarks.support.harness import ratio, seconds, write_results
from carnac.bootstrap.store import open_store
from carnac.query.hot import READS
from carnac.store import Store
from tests.support.serve_process import serving

RUNS = 7
LIGHT_RUNS = 100
DRUID_RUNS = 25
WARM_S = 30
"""How long a statement is asked of Druid, and of Carnac, before it is measured; Java goes on compiling after ten."""
HEAT_S = 120
"""How long segments may take until they are hot."""
CLIENTS = 50
RAW, ROLLUP = "clicks", "clicks_hourly"

EMBEDDED_OVER_DUCKDB_MS = 2.0
"""More than DuckDB on the same files, for each statement; `BROKER_MS` beside `BROKER_RATIO` times embedded."""
HOURLY_RATIO = 0.35
NATIVE_RATIO = 1.0
BROKER_RATIO, BROKER_MS = 1.5, 5.0
LIGHT_P95_MS = 15.0
APPENDED_RATIO = 0.2

UNKEPT = {"useCache": False, "populateCache": False}
"""Druid's own words for: neither take from kept partial results nor keep any."""

Ask = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that answer.

    Attributes:
        tables: Its names of raw events and of their rollup.
    """

    ask: Ask
    tables: tuple[str, str] = (RAW, ROLLUP)
    is_chdb: bool = False

    def text(self, statement: Statement, *, is_rollup: bool) -> str:
        """Return what it is asked."""
        text = (statement.clickhouse if self.is_chdb else None) or statement.text
        return over(text, self.tables[is_rollup], is_rollup=is_rollup)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=20_000_000, help="events, over 30 days")
    options.add_argument("--seconds", type=int, default=60, help="how long 50 clients ask")
    options.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        help="of each statement that is not light; 3 take half the time",
    )
    options.add_argument("--druid", metavar="URL", help="compare with a Druid, over HTTP")
    options.add_argument("--rows-to", type=Path, metavar="FILE", help="write the events and end")
    chosen = options.parse_args()
    if chosen.rows_to:
        with pq.ParquetWriter(chosen.rows_to, make_table(1, file_index=0).schema) as writer:
            for table in days(chosen.rows):
                writer.write_table(table)
    elif chosen.druid:
        write_results("queries_druid", compare_with_druid(chosen.druid, chosen.rows))
    else:
        figures = measure(chosen.rows, chosen.seconds, chosen.runs)
        write_results("queries", figures, packages=("duckdb", "pyarrow"))


def measure(rows: int, clients_s: int, runs: int) -> dict[str, object]:
    """Load, ask everybody in turns, append a day, and hold the figures against the limits."""
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder), 2) as (store, metadata, client),
        peers(Path(folder), store, rows) as others,
        open_store(Path(folder) / "store", query_kept_bytes=0) as hot,
        open_store(Path(folder) / "store", query_kept_bytes=0, query_hot_bytes=0) as plain,
    ):
        settle(metadata, store)
        first_s, _ = seconds(lambda: ask_dashboard(client, {}))
        sides = {
            "embedded": Side(lambda sql: hot.sql(sql).arrow()),
            "embedded_without_hot": Side(lambda sql: plain.sql(sql).arrow()),
            "embedded_with_kept": Side(lambda sql: store.sql(sql).arrow()),
            "broker": Side(lambda sql: asked(client, sql, UNKEPT)),
            "broker_with_kept": Side(lambda sql: asked(client, sql, {})),
            **others,
        }
        heat([hot, store], sides["broker"])
        counts = {name: count_of(store, name) for name in (RAW, ROLLUP)}
        figures: dict[str, Any] = {
            "rows": counts,
            "raw": {
                name: in_turns(
                    name, one, sides, is_rollup=False, runs=LIGHT_RUNS if one.is_light else runs
                )
                for name, one in STATEMENTS.items()
            },
            "rollup": {
                name: in_turns(
                    name, one, sides, is_rollup=True, runs=LIGHT_RUNS if one.is_light else runs
                )
                for name, one in STATEMENTS.items()
                if not one.is_of_raw
            },
        }
        figures["geometric_means_ms"] = {
            part: means(figures[part], sides) for part in ("raw", "rollup")
        }
        light = [
            over(one.text, RAW, is_rollup=False) for one in STATEMENTS.values() if one.is_light
        ]
        figures["clients"] = {
            "clients": CLIENTS,
            **ask_at_once(str(client.base_url), light, clients=CLIENTS, seconds=clients_s),
        }
        append(store, make_table(max(rows // DAYS, 1), file_index=0, day=DAYS))
        settle(metadata, store)
        again_s, _ = seconds(lambda: ask_dashboard(client, {}))
        figures["dashboard_s"] = {
            "first": round(first_s, 3),
            "after_one_more_day": round(again_s, 3),
            "ratio": ratio(again_s, first_s),
        }
    return {**figures, "limits": list(limits(figures))}


def days(rows: int) -> Iterator[Any]:
    """Yield the events of each day, in order of time."""
    for day in range(DAYS):
        yield make_table(rows // DAYS, file_index=day, day=day).sort_by("__time")


def append(store: Store, table: Any) -> None:
    """Append events, and the same rolled up by the hour."""
    store.append(RAW, table, time="__time")
    sums = [("long", "m_i1"), ("long", "m_i2"), ("double", "m_d1"), ("double", "m_d2")]
    spec = {
        "dataSource": ROLLUP,
        "timestampSpec": {"column": "__time"},
        "dimensionsSpec": {"dimensions": list(ROLLUP_DIMENSIONS)},
        "metricsSpec": [
            {"type": "count", "name": "events"},
            *({"type": f"{kind}Sum", "name": name, "fieldName": name} for kind, name in sums),
        ],
        "granularitySpec": {
            "segmentGranularity": "day",
            "queryGranularity": "hour",
            "rollup": True,
        },
    }
    store.append(ROLLUP, table, spec=spec)


@contextmanager
def peers(folder: Path, store: Store, rows: int) -> Iterator[dict[str, Side]]:
    """Load the events into the store; give DuckDB over its files, DuckDB's own tables, and chDB's if it is there."""
    started = time.perf_counter()
    for table in days(rows):
        append(store, table)
    print(f"loaded in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    listed = {
        name: "read_parquet([" + ", ".join(map(repr, files_of(store, name))) + "])"
        for name in (RAW, ROLLUP)
    }
    with ExitStack() as steps:
        files = steps.enter_context(duckdb.connect(config={"threads": 2}))
        native = steps.enter_context(duckdb.connect(str(folder / "native.duckdb")))
        for one in (files, native):
            one.execute("SET TimeZone = 'UTC'; SET threads = 2; SET parquet_metadata_cache = true")
        for name, source in listed.items():
            native.execute(f"CREATE TABLE {name} AS SELECT * FROM {source} ORDER BY __time")
        native.execute("CHECKPOINT")
        found = {
            "duckdb_files": Side(
                lambda sql: files.sql(sql).to_arrow_table(), (listed[RAW], listed[ROLLUP])
            ),
            "duckdb_native": Side(lambda sql: native.sql(sql).to_arrow_table()),
        }
        try:
            from chdb.session import Session
        except ImportError:
            print(
                "chdb is not installed (requirements/bench.txt), so it is left out", file=sys.stderr
            )
            yield found
            return
        session = Session(str(folder / "chdb"))
        steps.callback(session.close)
        for name in (RAW, ROLLUP):
            first, *more = files_of(store, name)
            engine = "ENGINE MergeTree ORDER BY __time SETTINGS allow_nullable_key = 1"
            session.query(f"CREATE TABLE {name} {engine} AS SELECT * FROM file('{first}', Parquet)")
            for file in more:
                session.query(f"INSERT INTO {name} SELECT * FROM file('{file}', Parquet)")
            session.query(f"OPTIMIZE TABLE {name} FINAL")
        yield {**found, "chdb": Side(lambda sql: session.query(sql, "Arrow").bytes(), is_chdb=True)}


def files_of(store: Store, datasource: str) -> list[str]:
    """Return the places of a datasource's segment files, in order of time."""
    segments = sorted(store.segments(datasource), key=lambda one: one.segment.min_time_ms)
    return [str(store.deep_storage.local_path(one.segment.path)) for one in segments]


def count_of(store: Store, datasource: str) -> int:
    return sum(one.segment.rows for one in store.segments(datasource))


def asked(client: httpx.Client, sql: str, context: Mapping[str, object]) -> bytes:
    """Ask over HTTP; return the body."""
    body = {"query": sql, "resultFormat": "array", "context": dict(context)}
    answer = client.post("/druid/v2/sql", json=body)
    if answer.status_code != httpx.codes.OK:
        raise SystemExit(f"{client.base_url} says {answer.status_code}: {answer.text}\n{sql}")
    return answer.content


def ask_dashboard(client: httpx.Client, context: Mapping[str, object]) -> None:
    """Ask the nine statements once each."""
    for one in STATEMENTS.values():
        if one.is_nine:
            asked(client, over(one.text, RAW, is_rollup=False), context)


def heat(stores: Sequence[Store], broker: Side) -> None:
    """Read everything so often that segments are hot, in these stores and in the historicals.

    Each statement is another one, since a store that keeps results reads no segment for the same one twice. A store
    that loads hot segments later, while others are measured, takes half of the processor from them.
    """
    for name in (RAW, ROLLUP):
        for number in range(READS + 1):
            sql = f"SELECT count(*), sum(m_i1 + {number}) FROM {name}"
            for store in stores:
                store.sql(sql).arrow()
            broker.ask(sql)
        until = time.monotonic() + HEAT_S
        look = f"EXPLAIN SELECT count(*), sum(m_i1 - 1) FROM {name}"
        while any("READ_PARQUET" in str(store.sql(look).rows()).upper() for store in stores):
            if time.monotonic() > until:
                print(f"not all of {name} is hot", file=sys.stderr)
                break
            time.sleep(0.5)


def in_turns(
    name: str,
    statement: Statement,
    sides: Mapping[str, Side],
    *,
    is_rollup: bool,
    runs: int = RUNS,
) -> dict[str, Any]:
    """Ask every side in turn, and once more for nothing before; return medians, and percentiles of light ones.

    A percentile is the limit of what a client of the broker waits, so it is taken again with nobody beside it.

    A side that always came after the same one would find the remains of that one, in caches and in threads that tidy up
    behind it. So each comes after each other one equally often (`balanced_orders`), and is asked at least `runs` times.
    """
    took: dict[str, list[float]] = {side: [] for side in sides}
    orders = balanced_orders(list(sides))
    for run in range(-1, -(-runs // len(orders)) * len(orders)):
        for side in orders[run % len(orders)]:
            one = sides[side]
            sql = one.text(statement, is_rollup=is_rollup)
            elapsed, _ = seconds(lambda one=one, sql=sql: one.ask(sql))  # type: ignore[misc]
            if run >= 0:
                took[side].append(elapsed)
    found: dict[str, Any] = {
        f"{side}_ms": round(statistics.median(times) * 1000, 2) for side, times in took.items()
    }
    for side in {"broker", "broker_with_kept"} & took.keys() if statement.is_light else ():
        one, sql = sides[side], sides[side].text(statement, is_rollup=is_rollup)
        alone = [seconds(lambda one=one, sql=sql: one.ask(sql))[0] for _ in range(runs)]  # type: ignore[misc]
        found[f"{side}_p95_ms"] = p95_ms(alone)
        found[f"{side}_p95_in_turns_ms"] = p95_ms(took[side])
    print("rollup" if is_rollup else "raw", name, found, file=sys.stderr)
    return found


def balanced_orders(sides: Sequence[str]) -> list[list[str]]:
    """Return orders in which each side follows each other one equally often, and stands at each place equally often.

    They are a row-complete Latin square (E. J. Williams, "Experimental designs balanced for the estimation of residual
    effects of treatments", 1949): as many orders as sides for an even number of them, twice as many for an odd one.
    """
    count = len(sides)
    zigzag = [(step + 1) // 2 if step % 2 else -step // 2 for step in range(count)]
    orders = [[sides[(place + shift) % count] for place in zigzag] for shift in range(count)]
    return orders + [order[::-1] for order in orders] if count % 2 else orders


def p95_ms(times_s: Sequence[float]) -> float:
    return round(sorted(times_s)[int(len(times_s) * 0.95)] * 1000, 2)


def means(
    figures: Mapping[str, Mapping[str, float]], sides: Mapping[str, Side]
) -> dict[str, float]:
    """Return the geometric mean of the nine statements for each side."""
    nine = [name for name in figures if STATEMENTS[name].is_nine]
    return {
        side: round(statistics.geometric_mean(figures[name][f"{side}_ms"] for name in nine), 2)
        for side in sides
    }


def limits(figures: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Yield each limit, what was found, and whether it is met.

    They are of a store as it comes, which keeps hot segments; what one takes without is a figure beside them.
    """

    def held(what: str, found: float, limit: float, **more: object) -> dict[str, object]:
        return {
            "what": what,
            "found": round(found, 2),
            "limit": round(limit, 2),
            "is_met": found <= limit,
            **more,
        }

    for part in ("raw", "rollup"):
        for name, one in figures[part].items():
            if STATEMENTS[name].is_nine:
                allowed = one["duckdb_files_ms"] + EMBEDDED_OVER_DUCKDB_MS
                yield held(f"{part}, {name}: embedded, ms", one["embedded_ms"], allowed)
            allowed = BROKER_RATIO * one["embedded_ms"] + BROKER_MS
            yield held(f"{part}, {name}: broker, ms", one["broker_ms"], allowed)
            for side in ("broker", "broker_with_kept"):
                if f"{side}_p95_ms" in one:
                    found = one[f"{side}_p95_ms"]
                    yield held(f"{part}, {name}: {side}, p95, ms", found, LIGHT_P95_MS)
    series, geometric = figures["raw"]["hourly series"], figures["geometric_means_ms"]
    for side in ("embedded", "embedded_without_hot"):
        hourly = series[f"{side}_ms"] / series["duckdb_files_ms"]
        yield held(f"hourly series, {side}, over date_trunc of DuckDB", hourly, HOURLY_RATIO)
    for part, one in geometric.items():
        for side in ("embedded", "embedded_with_kept"):
            native = one[side] / one["duckdb_native"]
            yield held(
                f"{part}: geometric mean of {side} over DuckDB's table", native, NATIVE_RATIO
            )
    if "chdb" in geometric["raw"]:
        fewer = figures["rows"][ROLLUP] / figures["rows"][RAW]
        share = geometric["rollup"]["embedded"] / geometric["raw"]["chdb"]
        yield held("embedded on the rollup over chDB on raw rows", share, fewer)
    yield held("dashboard after one more day", figures["dashboard_s"]["ratio"], APPENDED_RATIO)
    yield held("errors of 50 clients", figures["clients"]["errors"], 0)


def warm(ask: Callable[[], object]) -> None:
    """Ask for a while: Java compiles what it does often, and only then is as fast as it gets."""
    end_s = time.perf_counter() + WARM_S
    while time.perf_counter() < end_s:
        ask()


def compare_with_druid(url: str, rows: int) -> dict[str, object]:
    """Ask Druid's ten statements of Druid and of one `carnac serve`, in turns, over HTTP, caches off."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as steps:
        place = Path(folder) / "store"
        with open_store(place, create=True) as store:
            for table in days(rows):
                store.append(RAW, table, time="__time")
        served = steps.enter_context(serving(place))
        own = steps.enter_context(httpx.Client(base_url=served.url, timeout=60))
        druid = steps.enter_context(httpx.Client(base_url=url, timeout=60))
        found: dict[str, Any] = {}
        for name, one in STATEMENTS.items():
            if not one.is_of_druids:
                continue
            sql = over(one.druid or one.text, RAW, is_rollup=False)
            asks = {
                "carnac": Side(lambda _, sql=sql: asked(own, sql, UNKEPT)),  # type: ignore[misc]
                "druid": Side(lambda _, sql=sql: asked(druid, sql, UNKEPT)),  # type: ignore[misc]
            }
            for side in asks.values():
                warm(lambda side=side, sql=sql: side.ask(sql))  # type: ignore[misc]
            found[name] = in_turns(name, one, asks, is_rollup=False, runs=DRUID_RUNS)
            found[name]["ratio"] = ratio(found[name]["carnac_ms"], found[name]["druid_ms"])
        return {
            "rows": rows,
            "warm_s": WARM_S,
            "druid": druid.get("/status").json()["version"],
            "statements": found,
            "ahead_on": sum(one["ratio"] < 1 for one in found.values()),
            "of": len(found),
        }


if __name__ == "__main__":
    main()
