"""The demo's checks of the store against its source, which is counted without Carnac and without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.cli.demo.flights import CORRECTED_MONTH, LATE_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports import JobReport
    from carnac.store import Store

MONTHS_SQL = """\
SELECT CAST(EXTRACT(MONTH FROM __time) AS INTEGER) AS month,
       count(*) AS flights, round(avg(distance)) AS miles
FROM flights GROUP BY 1 ORDER BY 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCheck:
    """One comparison."""

    name: str
    in_store: int
    in_source: int

    @property
    def is_equal(self) -> bool:
        """Whether the store says what the source says."""
        return self.in_store == self.in_source


def compare_counts(
    store: Store,
    flights: pa.Table,
    revisions: Mapping[str, int],
    *,
    deleted_days: tuple[int, ...],
    later: JobReport,
) -> list[DemoCheck]:
    """Return all comparisons at the newest revision, and those of what each step did."""
    return [
        *_totals(store, flights),
        *_groups(store, flights),
        *_steps(store, flights, revisions, deleted_days),
        DemoCheck(
            name="late rows that the report counted", in_store=later.rows_late, in_source=LATE_ROWS
        ),
        DemoCheck(
            name="late rows of the late ledger",
            in_store=store.late("flights").total.rows,
            in_source=LATE_ROWS,
        ),
        DemoCheck(
            name="files that verify finds wrong", in_store=len(list(store.verify())), in_source=0
        ),
    ]


def _totals(store: Store, flights: pa.Table) -> list[DemoCheck]:
    import pyarrow.compute as pc

    row = store.sql(
        "SELECT count(*) AS flights, sum(distance) AS distance, sum(dep_delay) AS dep_delay, "
        "count(arr_delay) AS arrived, count(DISTINCT tailnum) AS tailnums, "
        "count(DISTINCT carrier) AS carriers FROM flights"
    ).rows()[0]

    def check(name: str, column: str, in_source: object) -> DemoCheck:
        return DemoCheck(name=name, in_store=int(str(row[column])), in_source=int(str(in_source)))

    tailnums = pc.count_distinct(flights["tailnum"], mode="only_valid").as_py()
    return [
        check("flights", "flights", flights.num_rows),
        check("miles flown", "distance", pc.sum(flights["distance"]).as_py()),
        check("minutes of delay", "dep_delay", pc.sum(flights["dep_delay"]).as_py()),
        check("flights that arrived", "arrived", pc.count(flights["arr_delay"]).as_py()),
        check("aircraft", "tailnums", tailnums),
        check("carriers", "carriers", pc.count_distinct(flights["carrier"]).as_py()),
    ]


def _groups(store: Store, flights: pa.Table) -> list[DemoCheck]:
    """Compare group by group; the checks show how many groups agree."""
    days = _source_groups(flights, ["month", "day"])
    found_days: dict[tuple[object, ...], object] = {
        (row["month"], row["day"]): row["n"]
        for row in store.sql(
            "SELECT CAST(EXTRACT(MONTH FROM __time) AS INTEGER) AS month, "
            "CAST(EXTRACT(DAY FROM __time) AS INTEGER) AS day, count(*) AS n FROM flights GROUP BY 1, 2"
        ).rows()
    }
    routes = _source_groups(flights, ["origin", "dest", "carrier"])
    found_routes: dict[tuple[object, ...], object] = {
        (row["origin"], row["dest"], row["carrier"]): row["n"]
        for row in store.sql(
            "SELECT origin, dest, carrier, count(*) AS n FROM flights GROUP BY 1, 2, 3"
        ).rows()
    }
    return [
        DemoCheck(
            name="days with equal counts", in_store=_agreeing(found_days, days), in_source=len(days)
        ),
        DemoCheck(
            name="routes of a carrier with equal counts",
            in_store=_agreeing(found_routes, routes),
            in_source=len(routes),
        ),
    ]


def _steps(
    store: Store, flights: pa.Table, revisions: Mapping[str, int], deleted_days: tuple[int, ...]
) -> list[DemoCheck]:
    months = _source_groups(flights, ["month"])
    days = _source_groups(flights, ["month", "day"])
    total = flights.num_rows
    first = total - months[12,] - LATE_ROWS
    gone = sum(days[9, day] for day in deleted_days)
    return [
        DemoCheck(
            name="flights after the first load",
            in_store=_count(store, revisions["first"]),
            in_source=first,
        ),
        DemoCheck(
            name="flights after the late rows",
            in_store=_count(store, revisions["later"]),
            in_source=total,
        ),
        DemoCheck(
            name="flights of the corrected month",
            in_store=_count(
                store, revisions["corrected"], f"EXTRACT(MONTH FROM __time) = {CORRECTED_MONTH}"
            ),
            in_source=months[CORRECTED_MONTH,],
        ),
        DemoCheck(
            name="flights after the deletion",
            in_store=_count(store, revisions["deleted"]),
            in_source=total - gone,
        ),
        DemoCheck(
            name="flights after the revert",
            in_store=_count(store, revisions["reverted"]),
            in_source=total,
        ),
    ]


def _count(store: Store, revision: int, where: str = "true") -> int:
    rows = store.sql(f"SELECT count(*) AS n FROM flights WHERE {where}", at=revision).rows()
    return int(str(rows[0]["n"]))


def _source_groups(flights: pa.Table, keys: list[str]) -> dict[tuple[object, ...], int]:
    grouped = flights.group_by(keys).aggregate([([], "count_all")]).to_pylist()
    return {tuple(row[key] for key in keys): int(row["count_all"]) for row in grouped}


def _agreeing(
    found: dict[tuple[object, ...], object], source: dict[tuple[object, ...], int]
) -> int:
    extra = len(found.keys() - source.keys())
    return sum(1 for key, count in source.items() if found.get(key) == count) - extra
