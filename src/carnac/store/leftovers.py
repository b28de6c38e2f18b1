"""What an attempt that died has left behind in deep storage, removed at once in place of after the safety period."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from carnac.core.ids import bears_mark
from carnac.core.segments.segment import safe_name
from carnac.ports import DeepStorage, MetadataStore, StoredFile
from carnac.store.maintenance import SEGMENTS_PREFIX, STAGING_PREFIX


def remove_leftovers(
    metadata: MetadataStore, deep_storage: DeepStorage, datasource: str, mark: str
) -> tuple[StoredFile, ...]:
    """Delete the files of an attempt that no commit has ever named; return them.

    The attempt must have lost its right to publish before: what it has not published by now it never will, and what it
    has published has a record. What it writes from now on, if it lives, is left to garbage collection.
    """
    removed: list[StoredFile] = []
    for file in _files_of(deep_storage, datasource, mark):
        segment = metadata.find_segment(PurePosixPath(file.path).stem)
        if segment is None or segment.path != file.path:
            deep_storage.delete(file.path)
            removed.append(file)
    return tuple(removed)


def _files_of(deep_storage: DeepStorage, datasource: str, mark: str) -> Iterator[StoredFile]:
    is_its = bears_mark(mark)
    for folder in (f"{SEGMENTS_PREFIX}/{safe_name(datasource)}", STAGING_PREFIX):
        yield from [file for file in deep_storage.list_files(folder) if is_its(file.path)]
