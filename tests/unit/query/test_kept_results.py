"""Kept results take the memory that they are counted with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from carnac.query.keeping.store import PACKED_BYTES_MAX, KeptResults, kept_result

RESIDENT = """
import duckdb
from pathlib import Path
from carnac.query.keeping.store import KeptResults, kept_result

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

kept, con = KeptResults(), duckdb.connect(config={"threads": 1})
for number in range(-100, 3_000):
    if number == 0:
        before, counted = resident_bytes(), kept.counts.size_bytes
    rows = con.sql("SELECT COLUMNS(*) + 1 FROM (SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d, 5 AS e, 6 AS f, 7 AS g, 8 AS h)")
    kept.keep(str(number), kept_result(frozenset(), rows.to_arrow_table(), 1))
print((resident_bytes() - before) / (kept.counts.size_bytes - counted))
"""


@pytest.mark.slow
def test_many_small_results_take_little_more_than_is_counted() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RESIDENT], check=True, capture_output=True, text=True
    )
    assert float(ran.stdout) < 2


def _rows(count: int) -> pa.Table:
    return duckdb.sql(
        f"SELECT range AS n, 'w' || range AS w, [range] AS l FROM range({count})"
    ).to_arrow_table()


@pytest.mark.parametrize("count", [0, 1, 100, 100_000])
def test_what_is_kept_is_what_is_taken(count: int) -> None:
    kept, rows = KeptResults(), _rows(count)
    kept.keep("key", kept_result(frozenset({("s", None)}), rows, count))
    [found] = kept.find("key", [("s", None)]).results
    assert found.table.equals(rows, check_metadata=True)
    assert found.size_bytes == kept.counts.size_bytes >= rows.nbytes


def test_a_small_result_is_kept_in_little_memory() -> None:
    small, large = kept_result(frozenset(), _rows(1), 1), kept_result(frozenset(), _rows(9_999), 1)
    assert small.size_bytes < 2_000, "as tables, its columns would take more"
    assert large.size_bytes > PACKED_BYTES_MAX


LONG = """
import sys
from datetime import datetime
from pathlib import Path
import pyarrow as pa
import carnac

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

with carnac.open(sys.argv[1], create=True) as store:
    store.append("e", pa.table({"t": [datetime(2024, 1, 1)], "w": ["a"]}), time="t")
    def ask(number):
        words = ", ".join(f"'{number} {word}'" for word in range(2_000))
        store.sql(f"SELECT count(*) AS n FROM e WHERE w IN ({words})").rows()
    ask(-1)
    before = resident_bytes()
    for number in range(300):
        ask(number)
    print(resident_bytes() - before)
"""


@pytest.mark.nightly("asks three hundred statements of two thousand values")
def test_long_statements_are_not_kept_without_end(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LONG, str(tmp_path / "store")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(ran.stdout) < 400 << 20, "as plans, all of them would take twice as much"
