"""Doors: the same rows by each way that clients ask a broker, in turns, in one run.

    python -m benchmarks.bench_doors [--rows 1000000]

One `carnac serve` is asked for many rows and for a single number: as JSON over HTTP, which Python then parses; as a
stream of Arrow over HTTP; by Flight SQL, with ADBC's driver. Each asks a statement of its own each time, then the same
one again and again; no partial results are kept. Then the number is asked of the same store with users, as one who
sends a password each time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import httpx
import pyarrow as pa

from benchmarks.support.events import make_table
from benchmarks.support.harness import RUNS, ratio, seconds, write_results
from carnac.bootstrap.store import open_records, open_store
from carnac.clock import SystemClock, new_secret
from carnac.config import SecretUrl, Settings
from carnac.store.upkeep.users import Users
from tests.support.serve_process import Served, serving
from tests.waiting import until

MANY = (
    "SELECT __time, d5, d50, d500, m_i1, m_i2, m_d1 FROM clicks WHERE d5 <> '{turn}' LIMIT {rows}"
)
FEW = "SELECT count(*) AS n FROM clicks WHERE d5 <> '{turn}'"
"""Another statement each time, which nobody has planned before."""
AGAIN = "SELECT count(*) AS n FROM clicks WHERE d5 <> 'again'"
"""The same each time, as dashboards ask."""
TURNS = 100
"""Of the single number."""
PASSWORD = "for a benchmark"  # noqa: S105 - of a store that goes with it
ARROW = "application/vnd.apache.arrow.stream"
TOLD = "Flight SQL is answered at "

Ask = Callable[[str], int]
"""Returns how many rows came."""


def main() -> None:
    """Measure and write `results/doors.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are asked for")
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder) / "store", rows)
    write_results("doors", figures, packages=("adbc-driver-flightsql", "pyarrow"))


def measure(place: Path, rows: int) -> dict[str, Any]:
    """Load, ask by all doors in turns, then with users."""
    with open_store(place, create=True) as store:
        store.append("clicks", make_table(rows, file_index=0), time="__time")
    with (
        ExitStack() as steps,
        serving(place, CARNAC_FLIGHT_SQL_PORT="0", CARNAC_QUERY_KEPT_BYTES="0") as served,
    ):
        doors = doors_of(served, steps)
        many = in_turns(doors, MANY, RUNS, rows)
        few = in_turns(doors, FEW, TURNS, 1)
        again = in_turns(doors, AGAIN, TURNS, 1)
        slowest_s = many["JSON over HTTP, parsed"]
        open_ms = 1000 * few["JSON over HTTP, parsed"]
        asked_ms = 1000 * with_users(place, served)
        return {
            "rows": rows,
            "many": {
                name: {"s": round(took, 3), "of_json": ratio(took, slowest_s)}
                for name, took in many.items()
            },
            "few_ms": {name: round(1000 * took, 2) for name, took in few.items()},
            "again_ms": {name: round(1000 * took, 2) for name, took in again.items()},
            "users": {
                "without_ms": round(open_ms, 2),
                "with_password_ms": round(asked_ms, 2),
                "ratio": ratio(asked_ms, open_ms),
            },
        }


def doors_of(served: Served, steps: ExitStack) -> Mapping[str, Ask]:
    """Return what asks by each door, over a connection of its own."""
    line = until(lambda: next((one for one in served.lines if TOLD in one), None), "Flight SQL")
    client = steps.enter_context(httpx.Client(base_url=served.url, timeout=300))
    link = flight_sql.connect(line.partition(TOLD)[2].strip(), autocommit=True)
    steps.callback(link.close)

    def by_json(sql: str) -> int:
        return len(_post(client, sql).json())

    def by_arrow(sql: str) -> int:
        body = _post(client, sql, accept=ARROW).content
        return int(pa.ipc.open_stream(body).read_all().num_rows)

    def by_flight_sql(sql: str) -> int:
        with link.cursor() as cursor:
            cursor.execute(sql)
            return int(cursor.fetch_arrow_table().num_rows)

    return {
        "JSON over HTTP, parsed": by_json,
        "Arrow over HTTP": by_arrow,
        "Flight SQL by ADBC": by_flight_sql,
    }


def in_turns(doors: Mapping[str, Ask], text: str, turns: int, rows: int) -> dict[str, float]:
    """Return the median of each door, in seconds."""
    took: dict[str, list[float]] = {name: [] for name in doors}
    for turn in range(turns + 1):
        for name, ask in doors.items():
            sql = text.format(turn=f"{name} {turn}", rows=rows)
            elapsed, found = seconds(lambda ask=ask, sql=sql: ask(sql))  # type: ignore[misc]
            if found != rows:
                raise SystemExit(f"{name} gave {found} rows, and not {rows}")
            if turn:
                took[name].append(elapsed)
    return {name: statistics.median(times) for name, times in took.items()}


def with_users(place: Path, served: Served) -> float:
    """Return the median time of the number for a client that sends a password, in seconds."""
    records = open_records(settings=Settings(store=SecretUrl(str(place))), clock=SystemClock())
    Users(records, SystemClock(), new_secret).put("bench", password=PASSWORD)
    records.close()
    with httpx.Client(base_url=served.url, timeout=300) as stranger:
        until(lambda: stranger.get("/status").status_code == 401 or None, "that it asks for a name")
    with httpx.Client(base_url=served.url, timeout=300, auth=("bench", PASSWORD)) as client:
        took = [
            seconds(lambda turn=turn: _post(client, FEW.format(turn=turn)))[0]  # type: ignore[misc]
            for turn in range(TURNS + 1)
        ]
    return statistics.median(took[1:])


def _post(client: httpx.Client, sql: str, accept: str = "application/json") -> httpx.Response:
    body = {"query": sql, "resultFormat": "array"}
    answer = client.post("/druid/v2/sql", json=body, headers={"accept": accept})
    return answer.raise_for_status()


if __name__ == "__main__":
    main()
