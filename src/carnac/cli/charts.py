"""The chart of a datasource, as commands draw it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from carnac.core.texts import cut

if TYPE_CHECKING:
    from carnac.console.looks import Chart
    from carnac.core.log.commits import CommitSummary
    from carnac.store import Store

LABEL_CHARS = 60
LOG_LIMIT = 1_000


def make_chart(
    store: Store,
    datasource: str,
    *,
    at: int | str | None = None,
    interval: str | None = None,
    title: str | None = None,
) -> Chart:
    """Return the chart of a datasource at a revision."""
    from carnac.console.picture import draw_segments

    items = store.segments(datasource, at=at, interval=interval)
    head = store.resolve(at)
    labels = _labels(store.log(datasource=datasource, limit=LOG_LIMIT))
    return draw_segments(
        items, datasource=datasource, revision=head.revision, labels=labels, title=title
    )


def _labels(commits: Sequence[CommitSummary]) -> dict[int, str]:
    """Return what the legend says of each revision; compaction makes many commits, which are one entry."""
    from carnac.core.log.commits import CommitKind

    labels = {}
    for one in commits:
        text = f"{one.revision}  {one.kind.value}" + (f": {one.message}" if one.message else "")
        labels[one.revision] = cut(text, LABEL_CHARS)
    rewrites = sorted(one.revision for one in commits if one.kind is CommitKind.REWRITE)
    if len(rewrites) > 1:
        words = f"{rewrites[0]} to {rewrites[-1]}  {CommitKind.REWRITE}: compaction"
        labels.update(dict.fromkeys(rewrites, words))
    return labels
