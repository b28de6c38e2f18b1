"""Whether there is a datasource, asked by everything that takes the name of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.ports.metadata import MetadataStore


def require_datasource(
    metadata: MetadataStore, datasource: str, revision: int | None = None
) -> None:
    """Refuse a datasource that has no rows at a revision (None: the newest). Costs no scan of segments.

    Raises:
        NotFound: It has none; says which there are.
    """
    if not metadata.count_visible(datasource, revision=revision):
        names = ", ".join(info.name for info in metadata.datasources(revision))
        where = "" if revision in {None, metadata.head().revision} else f" at revision {revision}"
        raise NotFound(
            f"there is no datasource '{datasource}'{where}; there are {names or 'none yet'}",
            datasource=datasource,
        )
