"""The declaration of a datasource: the spec of its last load, kept as its declaration for the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from carnac.errors import Corrupt, Unavailable

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.specs.ingest.spec import IngestSpec

NOT_DECLARED = (
    "input",
    "mode",
    "replaceScope",
    "writer",
    "batch",
    "context",
    "ignored",
)
"""Fields that belong to one load and say nothing of the datasource."""


class _Last:
    """The spec that was written down last in this process, and its settings: appends repeat one spec object."""

    pair: tuple[IngestSpec | None, Mapping[str, str]] = (None, {})


_last = _Last()


def remember(metadata: MetadataStore, spec: IngestSpec, kept: Mapping[str, str]) -> None:
    """Keep what the spec declares; where the database does not answer, the next load does it.

    Args:
        kept: The store's settings.
    """
    wanted = _texts_of(spec)
    changed = {key: value for key, value in wanted.items() if kept.get(key) != value}
    if changed:
        with suppress(Unavailable):  # the commit is there: the caller must not take it for failed
            metadata.put_settings(changed)


def _texts_of(spec: IngestSpec) -> Mapping[str, str]:
    """Return the settings that keep what the spec declares; those of the last one are at hand."""
    last_spec, texts = _last.pair
    if spec is last_spec:
        return texts
    block = spec.to_json_dict()
    source = block.get("input")
    for name in NOT_DECLARED:
        block.pop(name, None)
    if isinstance(source, dict) and "inputFormat" in source:
        block["input"] = {"inputFormat": source["inputFormat"]}
    if isinstance(granularity := block.get("granularitySpec"), dict):
        granularity.pop("intervals", None)
    if isinstance(tuning := block.get("tuningConfig"), dict):
        tuning.pop("allowTypeChange", None)
        tuning.pop("allowMissing", None)
    granularity_text = str(spec.granularity.segment_granularity)
    texts = {
        granularity_key(spec.datasource): granularity_text,
        _key(spec.datasource): json.dumps(block, ensure_ascii=False, separators=(",", ":")),
    }
    _last.pair = spec, texts
    return texts


def find(metadata: MetadataStore, datasource: str) -> dict[str, object] | None:
    """Return the declaration of a datasource as the block of a spec; None: nothing was loaded into it.

    Its input, if there is one, says the format alone.

    Raises:
        Corrupt: The declaration is there and cannot be read.
    """
    text = metadata.settings().get(_key(datasource))
    if text is None:
        return None
    try:
        block = json.loads(text)
    except ValueError:
        block = None
    if not isinstance(block, dict):
        raise Corrupt(
            f"the declaration of datasource {datasource} is damaged; load it once with a spec",
            datasource=datasource,
        )
    return block


def granularity_key(datasource: str) -> str:
    """Return the setting that holds the segment granularity of a datasource's last load."""
    return f"segment_granularity:{datasource}"


def _key(datasource: str) -> str:
    return f"declaration:{datasource}"
