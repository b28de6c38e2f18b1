"""Paths inside deep storage."""

from __future__ import annotations

from carnac.errors import Invalid


def checked_path(path: str) -> str:
    """Return the path of a file as it is.

    Raises:
        Invalid: It is absolute, empty, or could leave the root.
    """
    parts = path.split("/")
    if "\\" in path or "\0" in path or any(part in {"", ".", ".."} for part in parts):
        raise Invalid(
            f"'{path}' is not a path inside deep storage; write it like folder/file.parquet",
            path=path,
        )
    return path


def checked_prefix(prefix: str) -> str:
    """Return the path of a folder without its trailing slash; empty means the root.

    Raises:
        Invalid: It is absolute or could leave the root.
    """
    trimmed = prefix.removesuffix("/")
    return checked_path(trimmed) if trimmed else ""
