"""Copying the metadata of a store."""

from __future__ import annotations

from pathlib import Path

from carnac.bootstrap.store import locate_store, no_store


def back_up(store: str, target: Path) -> None:
    """Write the metadata of a store into a new file: see `metadata.back_up`."""
    from carnac import metadata

    place = locate_store(store)
    if place.file is not None and not place.file.is_file():
        raise no_store(place.name)
    metadata.back_up(place.metadata_url.get_secret_value(), target)
