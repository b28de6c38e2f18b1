"""Garbage among the files of Iceberg's tables: those that belong to no revision any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from carnac.core.iceberg.groups import FOLDER, LISTS, revision_of
from carnac.core.iceberg.manifests import paths_in
from carnac.errors import NotFound
from carnac.ports import StoredFile

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.ports import DeepStorage


def table_garbage(
    metadata: MetadataStore, storage: DeepStorage, *, old_ms: int
) -> Iterator[StoredFile]:
    """Yield the files of tables that no kept revision needs, and that were written before `old_ms`.

    If a file is deleted while a client comes to need it, the next load of the table writes it again.
    """
    files = list(storage.list_files(FOLDER))
    kept: dict[int, bool] = {}
    needed: set[str] = set()
    doubtful: list[StoredFile] = []
    for file in files:
        revision = revision_of(file.path)
        if revision is None:
            doubtful.append(file)
            continue
        if revision not in kept:
            kept[revision] = _is_kept(metadata, revision)
        if not kept[revision]:
            doubtful.append(file)
        elif f"/{LISTS}/" in file.path:
            needed.update(_named_in(storage, file.path))
    yield from (
        file for file in doubtful if file.path not in needed and file.modified_at_ms < old_ms
    )


def _is_kept(metadata: MetadataStore, revision: int) -> bool:
    try:
        metadata.resolve(revision)
    except NotFound:
        return False
    return True


def _named_in(storage: DeepStorage, path: str) -> list[str]:
    """Return the paths that a list names; one that is damaged names none, and is written again."""
    try:
        with storage.open_read(path) as stream:
            return paths_in(stream.read())
    except (NotFound, ValueError):
        return []
