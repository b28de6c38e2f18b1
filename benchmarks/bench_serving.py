"""Serving: from a publish until a query through a historical has it, and what a query costs over the network.

A coordinator, a broker and historicals are processes of `carnac serve`. Small appends are published one after the
other; each is queryable when an answer of the broker names its revision. The same is measured while all segments of a
server that is emptied are moved. Light and heavier statements are asked of the broker and of the embedded engine in
turns, over the same revision; the first time of each stands alone. Then many clients ask the light ones at once, and a
broker alone plans over many live segments after each of some commits (EXPLAIN: there are records, and no files).

    python -m benchmarks.bench_serving [--appends 100] [--rows 2000000] [--historicals 2] [--clients 50] [--seconds 60]
        [--segments 1000000]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

from benchmarks.bench_million_segments import append, publish_segments, segment
from benchmarks.support.harness import percentiles_ms, ratio, seconds, write_results
from carnac.bootstrap.store import open_records, open_store
from carnac.cli.demo.cluster.processes import Servers, wait_until
from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.metadata.store import MetadataStore
from carnac.ports.serving import Role
from carnac.store import Store

DAY_MS = 86_400_000
START_MS = 1_704_067_200_000
DAYS = 30
SMALL_ROWS = 100
REPEATS = 100
PLANS = 20
LOOK_AGAIN_S = 0.002
SETTLE_MS = 120_000
STATEMENTS = {
    "light: a day, one group": "SELECT page, count(*) AS n FROM events WHERE __time >= TIMESTAMP '2024-01-10' "
    "AND __time < TIMESTAMP '2024-01-11' AND page = 'p7' GROUP BY page",
    "light: the newest 100 rows": "SELECT __time, page, added FROM events ORDER BY __time DESC LIMIT 100",
    "everything by page, top 10": "SELECT page, count(*) AS n, sum(added) AS added FROM events GROUP BY page "
    "ORDER BY n DESC, page LIMIT 10",
    "everything by hour": "SELECT date_trunc('hour', __time) AS hour, count(*) AS n FROM events GROUP BY 1 ORDER BY 1",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--appends", type=int, default=100)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--historicals", type=int, default=2)
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--seconds", type=int, default=60, help="how long clients ask")
    options.add_argument(
        "--segments", type=int, default=1_000_000, help="live ones to plan over; 0: not measured"
    )
    chosen = options.parse_args()
    figures: dict[str, object] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder), chosen.historicals) as (
            store,
            metadata,
            client,
        ),
    ):
        fill(store, chosen.rows)
        settle(metadata, store)
        figures |= {
            "rows": chosen.rows,
            "historicals": chosen.historicals,
            "statements": ask_both(store, client),
            "many_clients": ask_at_once(str(client.base_url), chosen.clients, chosen.seconds),
            "publish_to_queryable_ms": publish_and_ask(store, client, chosen.appends),
        }
        busiest = metadata.servers(Role.HISTORICAL)[0].server_id
        metadata.decommission(busiest, wanted=True)
        figures["publish_to_queryable_while_a_server_is_emptied_ms"] = publish_and_ask(
            store, client, chosen.appends
        )
    if chosen.segments:
        with tempfile.TemporaryDirectory() as folder:
            figures["plans_after_commits"] = plan_over(Path(folder), chosen.segments)
    write_results("serving", figures, packages=("duckdb", "pyarrow"))


@contextmanager
def cluster(folder: Path, historicals: int) -> Iterator[tuple[Store, MetadataStore, httpx.Client]]:
    clock = SystemClock()
    settings = Settings().model_copy(update={"store": str(folder / "store")})
    with ExitStack() as steps:
        store = steps.enter_context(open_store(folder / "store", create=True, settings=settings))
        metadata = open_records(settings=settings, clock=clock)
        steps.callback(metadata.close)
        servers = Servers(settings=settings, metadata=metadata, clock=clock, folder=folder)
        steps.callback(servers.close)
        servers.start("coordinator", Role.COORDINATOR)
        for number in range(historicals):
            name = f"historical-{number}"
            servers.start(name, Role.HISTORICAL, options=["--folder", str(folder / name)])
        broker = servers.start("broker", Role.BROKER)
        client = steps.enter_context(httpx.Client(base_url=broker.url, timeout=60))
        yield store, metadata, client


def fill(store: Store, rows: int) -> None:
    """Append rows of thirty days, as many each day, by the million."""
    rng = np.random.default_rng(7)
    left = rows
    while left > 0:
        some = min(left, 500_000)
        store.append("events", made(rng, some, START_MS, DAYS * DAY_MS), time="time")
        left -= some


def made(rng: np.random.Generator, rows: int, start_ms: int, length_ms: int) -> pa.Table:
    times = np.sort(start_ms + rng.integers(0, length_ms, rows))
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ms", "UTC")),
            "page": [f"p{number}" for number in rng.zipf(1.5, rows).clip(max=5000)],
            "user": [f"u{number}" for number in rng.integers(0, 1000, rows)],
            "added": rng.integers(0, 500, rows),
        }
    )


def settle(metadata: MetadataStore, store: Store) -> None:
    head = store.head().revision

    def is_told() -> bool | None:
        brokers = metadata.servers(Role.BROKER)
        return True if all((one.planning_revision or 0) >= head for one in brokers) else None

    wait_until(SystemClock(), is_told, SETTLE_MS, f"the brokers to plan on revision {head}")


def ask(client: httpx.Client, sql: str) -> httpx.Response:
    answer = client.post("/druid/v2/sql", json={"query": sql, "resultFormat": "array"})
    if answer.status_code != httpx.codes.OK:
        raise SystemExit(f"the broker says {answer.status_code}: {answer.text}")
    return answer


def ask_both(store: Store, client: httpx.Client) -> dict[str, object]:
    """Ask each statement of the broker and of the embedded engine, in turns."""
    found: dict[str, object] = {}
    for name, sql in STATEMENTS.items():
        found[name] = ask_in_turns(store, client, sql)
        print(name, found[name], file=sys.stderr)
    return found


def ask_in_turns(store: Store, client: httpx.Client, sql: str) -> dict[str, object]:
    def of_broker() -> str:
        return str(ask(client, sql).headers["X-Carnac-Engine"])

    def of_embedded() -> None:
        store.sql(sql).rows()

    broker_first_s, engine = seconds(of_broker)
    embedded_first_s, _ = seconds(of_embedded)
    pairs = [(seconds(of_broker)[0], seconds(of_embedded)[0]) for _ in range(REPEATS)]
    broker, embedded = ([pair[side] for pair in pairs] for side in (0, 1))
    return {
        "engine": engine,
        "broker_first_ms": round(broker_first_s * 1000, 3),
        "embedded_first_ms": round(embedded_first_s * 1000, 3),
        "broker_ms": with_p95(broker),
        "embedded_ms": with_p95(embedded),
        "broker_over_embedded": ratio(statistics.median(broker), statistics.median(embedded)),
    }


def with_p95(latencies_s: list[float]) -> dict[str, float]:
    p95_s = sorted(latencies_s)[int(len(latencies_s) * 0.95)]
    return {**percentiles_ms(latencies_s), "p95_ms": round(p95_s * 1000, 3)}


def ask_at_once(url: str, clients: int, length_s: int) -> dict[str, object]:
    """Have clients ask the light statements, each its next one as soon as it has an answer."""
    statements = [sql for name, sql in STATEMENTS.items() if name.startswith("light")]
    took: list[float] = []
    errors: list[str] = []
    end = time.perf_counter() + length_s

    def go_on(number: int) -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            for sql in itertools.cycle(statements[number % 2 :] + statements[: number % 2]):
                started = time.perf_counter()
                if started > end:
                    return
                answer = client.post("/druid/v2/sql", json={"query": sql, "resultFormat": "array"})
                took.append(time.perf_counter() - started)
                if answer.status_code != httpx.codes.OK:
                    errors.append(answer.text)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(go_on, range(clients)))
    found: dict[str, object] = {
        "clients": clients,
        "seconds": length_s,
        "answers_per_s": round(len(took) / length_s, 1),
        **with_p95(took),
        "errors": len(errors),
        "first_errors": errors[:3],
    }
    print("many clients", found, file=sys.stderr)
    return found


def plan_over(folder: Path, segments: int) -> dict[str, object]:
    """Return how long a broker takes to plan a day of many live segments, the first time after each commit."""
    day = "TIMESTAMP '1975-03-01'"
    sql = (
        f"EXPLAIN SELECT page, sum(added) AS added FROM events WHERE __time >= {day} "
        f"AND __time < {day} + INTERVAL 1 DAY GROUP BY page"
    )
    plans: list[float] = []
    waits: list[float] = []
    with cluster(folder, 0) as (_, metadata, client):
        publish_segments(metadata, segments)
        ask(client, sql)
        for number in range(PLANS):
            revision = metadata.publish(append([segment(RandomIds(), 100, number)])).revision
            published = time.perf_counter()
            while True:
                took, answer = seconds(lambda: ask(client, sql))
                if int(answer.headers["X-Carnac-Revision"]) >= revision:
                    break
                time.sleep(LOOK_AGAIN_S)
            plans.append(took)
            waits.append(time.perf_counter() - published)
    found: dict[str, object] = {
        "live_segments": segments,
        "plan_ms": percentiles_ms(plans),
        "commit_to_plan_ms": percentiles_ms(waits),
        "aims": {"plan_ms": 100},
    }
    print(found, file=sys.stderr)
    return found


def publish_and_ask(store: Store, client: httpx.Client, appends: int) -> dict[str, float]:
    """Append small tables, one after the other; return how long each took from its commit to its first answer."""
    rng = np.random.default_rng(8)
    took: list[float] = []
    for number in range(appends):
        rows = made(rng, SMALL_ROWS, START_MS + number % DAYS * DAY_MS, DAY_MS)
        revision = store.append("events", rows, time="time").revision or 0
        published = time.perf_counter()
        while (
            int(ask(client, STATEMENTS["light: a day, one group"]).headers["X-Carnac-Revision"])
            < revision
        ):
            time.sleep(LOOK_AGAIN_S)
        took.append(time.perf_counter() - published)
    found = percentiles_ms(took)
    print(found, file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
