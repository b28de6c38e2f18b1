"""How DuckDB is set: it may open files in some folders only, can load nothing, and cannot be set otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from carnac.query.distributed.partials import macros
from carnac.query.scans import escape_glob, literal


def settings_of(
    folders: Sequence[Path],
    spill_folder: Path | None,
    *,
    threads: int | None,
    memory_limit_bytes: int | None,
) -> str:
    """Return the statements that set a new connection.

    Args:
        folders: What it may read.
        spill_folder: None: nothing is spilt.
        threads, memory_limit_bytes: None: as DuckDB has them.
    """
    ways = [f"{one}/" for one in folders]
    allowed = dict.fromkeys([*ways, *map(escape_glob, ways)])
    told = [
        f"SET GLOBAL allowed_directories = [{', '.join(map(literal, allowed))}]",
        f"SET GLOBAL temp_directory = {literal(str(spill_folder or ''))}",
        "SET GLOBAL TimeZone = 'UTC'",
        "SET GLOBAL parquet_metadata_cache = true",
    ]
    if threads is not None:
        told.append(f"SET GLOBAL threads = {threads}")
    if memory_limit_bytes is not None:
        told.append(f"SET GLOBAL memory_limit = '{memory_limit_bytes}B'")
    extensions = ("autoinstall_known", "autoload_known", "allow_community")
    told += [f"SET GLOBAL {which}_extensions = false" for which in extensions]
    told += macros()
    told += ["SET GLOBAL enable_external_access = false", "SET GLOBAL lock_configuration = true"]
    return "; ".join(told)
