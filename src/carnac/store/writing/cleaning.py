"""Folding the overshadow history of a datasource: the clean task of the segment locking proposal, as metadata only.

An entry names the entries one hop below it that it overshadows. So chains grow with every minor compaction, and servers
that follow announced segments carry them. The same segments, entered anew under a new major version, name nothing any
more. No file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.core.log.commits import Change, CommitKind, ConservationProof, Publication
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.ports import WriteGuard
from carnac.store.writing import guarding
from carnac.store.writing.outcome import WriteOutcome

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

CHUNKS_MAX = 1_000
"""Most chunks that one commit folds."""


def clean(
    metadata: MetadataStore,
    datasource: str,
    interval: Interval | None,
    *,
    segment_granularity: str,
    guard: WriteGuard | None = None,
) -> WriteOutcome:
    """Enter the segments of chunks with minor versions anew; appends go on meanwhile, and none is lost.

    Returns:
        The last of its commits, one for each thousand chunks; `segments_dropped` counts folded entries.

    Raises:
        NotFound: There is no such datasource.
        Conflict, Unavailable, Revoked: As locks and publish say.
    """
    metadata.require_datasource(datasource)
    chunks = [
        chunk.interval
        for chunk in metadata.chunks(datasource, interval=interval)
        if chunk.version.minor > 0
    ]
    revision: int | None = None
    folded = 0
    for first in range(0, len(chunks), CHUNKS_MAX):
        page = tuple(chunks[first : first + CHUNKS_MAX])
        where = IntervalSet(page)
        if guard is not None:
            guard.lock_inputs(datasource, where, changes_granularity=True)
        entries = metadata.visible(datasource, intervals=where)
        rows = sum(item.segment.rows for item in entries)
        with guarding.publishing(guard, datasource, where, is_append=False) as requirements:
            published = metadata.publish(
                Publication(
                    kind=CommitKind.REWRITE,
                    changes=(
                        Change(
                            datasource=datasource,
                            refolds=page,
                            takes_over=True,
                            segment_granularity=segment_granularity,
                        ),
                    ),
                    requirements=requirements,
                    proof=ConservationProof(
                        rows_in=rows, rows_out=rows, row_hash_in=None, row_hash_out=None
                    ),
                    message=f"clean {datasource}",
                )
            )
        revision = published.revision
        folded += len(entries)
    return WriteOutcome(revision=revision, segments_dropped=folded)
