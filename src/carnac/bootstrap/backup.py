"""The file of a store's metadata: copying it, and the checksums of its pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from carnac.bootstrap.store import find_obstacle, locate_store, no_store
from carnac.errors import Invalid
from carnac.named_files import is_stream, named_file

if TYPE_CHECKING:
    from carnac.metadata.upkeep.checksums import Mended, Pages
    from carnac.metadata.upkeep.log_pages import LogPages


def back_up(store: str, target: Path) -> None:
    """Write the metadata of a store into a new file.

    Raises:
        CarnacError: As `metadata.back_up`; or the file cannot be written, see `named_file`.
    """
    from carnac import metadata

    place = locate_store(store)
    if place.file is not None and not place.file.is_file():
        raise no_store(place.name)
    if is_stream(target):
        raise Invalid(f"{target} is no file; name a new file in a folder that is there")
    with named_file(target, overwrite=False) as file:
        metadata.back_up(place.metadata_url.get_secret_value(), Path(file.name))


def examine_pages(store: str) -> Pages | None:
    """Verify the pages of the metadata: see `checksums.examine`; None if they are not in a file that is there."""
    from carnac.metadata.upkeep import checksums

    file = locate_store(store).file
    return checksums.examine(file) if file is not None and file.is_file() else None


def examine_log(store: str) -> LogPages | None:
    """Verify what is in the metadata's log alone: see `log_pages.examine_log`; None also without a file to write."""
    from carnac.metadata.upkeep import log_pages

    file = locate_store(store).file
    if file is None or not file.is_file() or find_obstacle(store) is not None:
        return None
    return log_pages.examine_log(file)


def mend_checksums(store: str) -> Mended:
    """Give the pages of the metadata new checksums: see `checksums.mend`."""
    from carnac.metadata.upkeep import checksums

    place = locate_store(store)
    if place.file is None:
        raise Invalid(
            "the metadata of this store are not in a file, which alone has checksums here"
        )
    if not place.file.is_file():
        raise no_store(place.name)
    return checksums.mend(place.file)
