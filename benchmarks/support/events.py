"""Synthetic events for the benchmarks: a month of clicks with seasons, six skewed dimensions, four numbers.

    python -m benchmarks.support.events FOLDER [--rows 5000000] [--files 8] [--json]

The same arguments give the same rows. Rows come in random order of time within a file, and every file holds all of
the month: the worst case for a store that cuts by time.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import subprocess
import zlib
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_S = int(datetime(2026, 9, 1, tzinfo=UTC).timestamp())
DAYS = 30
DIMENSIONS = (
    ("d5", 5, 1.0),
    ("d50", 50, 1.1),
    ("d5k", 5_000, 1.2),
    ("d50k", 50_000, 1.4),
    ("d500k", 500_000, 1.6),
)
"""Name, number of values, exponent of the Zipf distribution. `d500` is a coarser view of `d5k`."""
COLUMNS = ("d5", "d50", "d500", "d5k", "d50k", "d500k", "m_i1", "m_i2", "m_d1", "m_d2")
SEED = 20_260_901


def _hour_weights() -> np.ndarray:
    hours = np.arange(DAYS * 24)
    weekend = ((hours // 24 + 1) % 7) >= 5  # the month begins on a Tuesday
    return (1.4 + np.sin((hours % 24 - 8) / 24 * 2 * np.pi)) * np.where(weekend, 0.6, 1.0)


def _zipf(rng: np.random.Generator, values: int, exponent: float, rows: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, values + 1) ** exponent
    edges = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(edges, rng.random(rows)), values - 1)


def _words(prefix: str, ranks: np.ndarray) -> pa.Array:
    """Return `prefix` and a scattered number for each rank, so that frequent values are not neighbours."""
    distinct, indices = np.unique(ranks, return_inverse=True)
    labels = pa.array([f"{prefix}_{zlib.crc32(str(rank).encode()):08x}" for rank in distinct])
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), labels).dictionary_decode()


def make_table(rows: int, *, file_index: int, day: int | None = None) -> pa.Table:
    """Return the rows of one file, in random order of time.

    Args:
        day: Day of all rows in the month, counted from 0; also one after the month. None: rows are of all days.
    """
    rng = np.random.default_rng([SEED, file_index])
    weights = _hour_weights()
    hours = rng.choice(len(weights), rows, p=weights / weights.sum())
    if day is not None:
        hours = hours % 24 + 24 * day
    times_ms = (START_S + hours * 3600) * 1000 + rng.integers(0, 3_600_000, rows)
    columns: dict[str, pa.Array] = {
        "__time": pa.array(times_ms * 1000, pa.timestamp("us", tz="UTC"))
    }
    for name, values, exponent in DIMENSIONS:
        ranks = _zipf(rng, values, exponent, rows)
        if name == "d5k":
            columns["d500"] = _words("d500", ranks // 10)
        columns[name] = _words(name, ranks)
    columns["m_i1"] = pa.array(rng.integers(0, 100, rows))
    columns["m_i2"] = pa.array(rng.geometric(0.001, rows))
    columns["m_d1"] = pa.array(rng.random(rows))
    columns["m_d2"] = pa.array(np.round(rng.lognormal(2, 1, rows), 2))
    return pa.table(columns)


def _write_json(table: pa.Table, path: Path) -> None:
    """Write gzipped JSON lines; DuckDB writes the text, gzip squeezes it."""
    import duckdb

    with duckdb.connect() as con:
        con.execute("SET TimeZone='UTC'; SET threads=1")
        con.register("events", table)
        plain = path.with_suffix("")
        names = ", ".join(COLUMNS)
        con.execute(
            f"COPY (SELECT strftime(__time, '%Y-%m-%dT%H:%M:%S.%gZ') AS __time, {names} FROM events)"
            f" TO '{plain}' (FORMAT json)"
        )
    subprocess.run(["gzip", "-4", "-f", str(plain)], check=True)


def _write_file(folder: Path, rows: int, index: int, as_json: bool) -> None:
    table = make_table(rows, file_index=index)
    if as_json:
        _write_json(table, folder / f"events-{index:02d}.json.gz")
        return
    pq.write_table(table, folder / f"events-{index:02d}.parquet", compression="snappy")


def write_files(folder: Path, *, rows: int, files: int, as_json: bool = False) -> list[Path]:
    """Write the events unless they are there already, and return the files."""
    pattern = "events-*.json.gz" if as_json else "events-*.parquet"
    if len(list(folder.glob(pattern))) != files:
        folder.mkdir(parents=True, exist_ok=True)
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            jobs = [
                pool.submit(_write_file, folder, rows // files, i, as_json) for i in range(files)
            ]
            for job in jobs:
                job.result()
    return sorted(folder.glob(pattern))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="gzipped JSON lines instead of Parquet")
    options = parser.parse_args()
    for path in write_files(
        options.folder, rows=options.rows, files=options.files, as_json=options.json
    ):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
