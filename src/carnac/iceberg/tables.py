"""The tables of a store: metadata from the log, and the files that they name, put where deep storage is.

Every file is a function of a revision: all processes write the same bytes, and a file that is there is not written
again. A file that garbage collection took too early is put back at the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from carnac.core.iceberg import groups as g
from carnac.core.iceberg.avro import to_text
from carnac.core.iceberg.manifests import (
    Manifest,
    Positions,
    deletes_bytes,
    list_bytes,
    location_of,
    manifest_bytes,
)
from carnac.core.iceberg.metadata import Snapshot, table_metadata, table_uuid
from carnac.core.iceberg.schema import table_schema
from carnac.errors import Invalid, NotFound
from carnac.iceberg.positions import WRITER, count_positions, positions_bytes
from carnac.ports.memo import Memo

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.ports import DeepStorage, Head

SNAPSHOTS_MAX = 20
"""Newest changes of a datasource that are snapshots of its table."""
TAGS_MAX = 20
"""Newest tags that are; older ones are read by SQL."""
COMMITS_MAX = 1_000
"""Newest commits of the store that are looked at to see whether some were trimmed between two snapshots."""
KEPT_SNAPSHOTS = 1_000
KEPT_NAMES = 500_000
"""Names of files in the snapshots that a process remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A table.

    Attributes:
        location: Location of the file that holds `metadata`, too.
        metadata: As Iceberg's specification has it.
    """

    location: str
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A snapshot whose files were there when they were last looked for.

    Attributes:
        state: Text that is the same for two revisions at which the datasource is the same.
        paths: Paths of its files.
    """

    snapshot: Snapshot
    state: str
    paths: frozenset[str]


@dataclass(slots=True)
class _Folder:
    """The files of one table that are there, and those that are put there.

    Attributes:
        sizes: Sizes of files by path.
    """

    storage: DeepStorage
    path: str
    root: str
    sizes: dict[str, int] = field(default_factory=dict)

    def put(self, path: str, make: Callable[[], bytes]) -> None:
        """Write a file that is not there."""
        if path not in self.sizes:
            data = make()
            self.storage.write(path, data)
            self.sizes[path] = len(data)

    def location(self, path: str) -> str:
        """Return where clients find a file."""
        return location_of(self.root, path)


class Tables:
    """The datasources of a store as tables. Safe for threads.

    Args:
        reading: Keeps the newest revision readable until its block ends, and returns it.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        storage: DeepStorage,
        reading: Callable[[], AbstractContextManager[Head]],
    ) -> None:
        self._metadata = metadata
        self._storage = storage
        self._reading = reading
        self._written: Memo[tuple[str, int], _Written] = Memo(
            values_max=KEPT_SNAPSHOTS, weight_max=KEPT_NAMES, weigh=lambda _, one: len(one.paths)
        )

    def names(self) -> list[str]:
        """Return the names of the tables: of the datasources that have rows now."""
        return [one.name for one in self._metadata.datasources()]

    def require(self, name: str) -> None:
        """Refuse a table that is not there.

        Raises:
            NotFound: There is no such datasource, or it has no rows now.
        """
        self._metadata.require_datasource(name)

    def load(self, name: str) -> LoadedTable:
        """Return a table; its files are there afterwards.

        Raises:
            NotFound: There is no such datasource, or it has no rows now.
            Invalid: Iceberg's clients cannot read it; says why.
            Unavailable, ReadOnly: Deep storage cannot be reached, or not be written to.
        """
        with self._reading() as head:
            self._metadata.require_datasource(name, head.revision)
            root = _root_of(self._storage.url)
            folder = _Folder(self._storage, g.folder_of(name), root)
            folder.sizes = {
                one.path: one.size_bytes for one in self._storage.list_files(folder.path)
            }
            changes = self._changes(name, head)
            whole = self._whole_since(head, min(changes, default=head.revision))
            known = _Known(changes, whole)
            tags = {tag: known.stands_for(one) for tag, one in self._tagged(head).items()}
            wanted = {known.stands_for(head.revision), *changes, *tags.values()}
            written = self._write_all(name, wanted, folder)
        kept, ids = _without_repeats(written, changes)
        metadata = table_metadata(
            kept,
            uuid=table_uuid(self._metadata.store_id, name),
            location=folder.location(folder.path),
            tags={tag: ids[one] for tag, one in tags.items() if one in ids},
            is_whole_since=max(whole, min(changes.keys() & ids.keys(), default=head.revision)),
        )
        return self._put_metadata(folder, metadata)

    def _changes(self, name: str, head: Head) -> dict[int, int]:
        """Return when the newest kept changes of a datasource were made, by revision."""
        commits = self._metadata.log(datasource=name, before=head.revision + 1, limit=SNAPSHOTS_MAX)
        return {one.revision: one.at_ms for one in commits}

    def _whole_since(self, head: Head, first: int) -> int:
        """Return a revision, not before `first`, from which on all commits are kept."""
        whole = head.revision + 1
        limit = min(COMMITS_MAX, whole - first)
        for commit in self._metadata.log(before=whole, limit=limit):
            if commit.revision != whole - 1:
                break
            whole = commit.revision
        return whole

    def _tagged(self, head: Head) -> dict[str, int]:
        """Return the revisions of the newest tags, by their names."""
        tags = sorted(self._metadata.tags(), key=lambda one: (one.created_at_ms, one.name))
        return {one.name: one.revision for one in tags[-TAGS_MAX:] if one.revision <= head.revision}

    def _write_all(self, name: str, wanted: Iterable[int], folder: _Folder) -> dict[int, _Written]:
        """Write the files of snapshots, the newest first, up to one that cannot be read any more or by Iceberg."""
        found: dict[int, _Written] = {}
        for revision in sorted(wanted, reverse=True):
            try:
                found[revision] = self._write(name, revision, folder)
            except (NotFound, Invalid):
                if not found:
                    raise
                break
        return found

    def _write(self, name: str, revision: int, folder: _Folder) -> _Written:
        known = self._written.find((name, revision))
        if known is not None and known.paths <= folder.sizes.keys():
            return known
        files = g.files_of(self._metadata.visible(name, revision=revision))
        schema = table_schema(self._metadata.schemas(name, revision=revision))
        groups = g.plan_groups(files, root=folder.root, writer=WRITER)
        manifests, paths = [], set[str]()
        for group in groups:
            manifests += _put_group(group, folder, paths)
        state = g.state_of(groups)
        path = f"{folder.path}/{g.LISTS}/{revision}-{state}.avro"
        folder.put(path, lambda: list_bytes(manifests, sorted(paths)))
        snapshot = Snapshot(
            revision=revision,
            at_ms=self._metadata.resolve(revision).at_ms,
            list_location=folder.location(path),
            schema=schema,
            files=len(files),
            rows=sum(one.segment.rows for one, _ in files),
        )
        written = _Written(snapshot=snapshot, state=state, paths=frozenset({path, *paths}))
        self._written.keep((name, revision), written)
        return written

    def _put_metadata(self, folder: _Folder, metadata: Mapping[str, object]) -> LoadedTable:
        text = to_text(metadata)
        name = f"{metadata['current-snapshot-id']}-{g.digest([text])}.metadata.json"
        path = f"{folder.path}/{g.METADATA}/{name}"
        folder.put(path, text.encode)
        return LoadedTable(location=folder.location(path), metadata=metadata)


@dataclass(frozen=True, slots=True)
class _Known:
    """The facts of the log about a datasource.

    Attributes:
        changes: The newest revisions that changed it, each with its time.
        whole: Revision from which on no commit is missing.
    """

    changes: Mapping[int, int]
    whole: int

    def stands_for(self, revision: int) -> int:
        """Return the change since which the datasource was as at a revision; itself, if that is not known."""
        before = [one for one in self.changes if self.whole <= one <= revision]
        return max(before, default=revision)


def _put_group(group: g.Group, folder: _Folder, paths: set[str]) -> list[Manifest]:
    """Write the manifests of a group, and the files of positions that they name.

    Args:
        paths: Those of all these files are added.
    """
    root, base = folder.root, f"{folder.path}/{g.MANIFESTS}/{group.name}"
    path = f"{base}-m0.avro"
    folder.put(path, lambda: manifest_bytes(group, root=root))
    paths.add(path)
    size = folder.sizes[path]
    found = [Manifest(location=folder.location(path), size_bytes=size, group=group)]
    if not group.clipped:
        return found
    positions = _put_positions(group, folder, paths)
    if positions:
        path = f"{base}-m1.avro"
        folder.put(path, lambda: deletes_bytes(group, positions, root=root))
        paths.add(path)
        size, place = folder.sizes[path], folder.location(path)
        found.append(Manifest(location=place, size_bytes=size, group=group, positions=positions))
    return found


def _put_positions(group: g.Group, folder: _Folder, paths: set[str]) -> dict[str, Positions]:
    """Write files of positions; return those that hold any, by the id of the segment."""
    found = {}
    for file in group.clipped:
        path = g.positions_path(folder.path, file, WRITER)
        target = folder.location(file.segment.path)
        folder.put(path, partial(positions_bytes, folder.storage, file, target))
        paths.add(path)
        rows = count_positions(folder.storage, path)
        if rows:
            found[file.segment.segment_id] = Positions(
                location=folder.location(path), size_bytes=folder.sizes[path], rows=rows
            )
    return found


def _without_repeats(
    written: Mapping[int, _Written], changes: Mapping[int, int]
) -> tuple[list[Snapshot], dict[int, int]]:
    """Return the snapshots, each state once where no change lies between, and the snapshot of each revision."""
    kept: list[Snapshot] = []
    ids: dict[int, int] = {}
    before = ""
    for revision in sorted(written):
        one = written[revision]
        if revision in changes or (one.state != before and one.snapshot.files):
            kept.append(one.snapshot)
        if revision in changes or one.snapshot.files:
            ids[revision] = kept[-1].revision
        before = one.state
    return kept, ids


def _root_of(url: str) -> str:
    """Return where deep storage is, as Iceberg writes locations: without escapes."""
    return f"file://{unquote(urlsplit(url).path)}" if url.startswith("file:") else url
