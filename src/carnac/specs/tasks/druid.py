"""Druid's `compact` and `kill` tasks turned into the native form (`carnac.specs.tasks.spec`).

As with ingestion, a field has a meaning here, is harmless and noted as ignored, or is a problem that says what to do.

Source: Druid's documentation of manual compaction, automatic compaction and data deletion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from carnac.core.compaction.plan.group_records import target_to_json
from carnac.specs.compaction.spec import CompactionShape
from carnac.specs.druid.compaction import convert_shape
from carnac.specs.druid.fields import Block
from carnac.specs.problems import Findings, explain

_HEAD = ("type", "id", "groupId", "dependencies", "context", "dataSource", "groups")
_LOSSY = frozenset({"queryGranularity", "metrics", "dimensions", "filter"})
_RESOURCE = {"resource": "Spark gives out resources"}
_KILL = {
    **_RESOURCE,
    "batchSize": "files are deleted one by one",
    "limit": "all that is unused is deleted",
    "versions": "a file that history retains is never deleted",
    "maxUsedStatusLastUpdatedTime": "a file that history retains is never deleted",
    "markAsUnused": "use a delete task first",
}


def ignore_in_kill(value: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Return a kill task without the fields that have no effect."""
    block = Block(value, "", findings)
    block.ignore(_KILL)
    return block.rest()


def convert_compact(value: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Return the native form of a compact task; a native one comes back as it is."""
    block = Block(value, "", findings)
    block.ignore({**_RESOURCE, "projections": "Carnac keeps no precomputed projections"})
    native = {name: block.take(name) for name in _HEAD if block.has(name)}
    native.update(_inputs(block))
    target = block.take_map("target")
    old = block.take("segmentGranularity")
    if old is not None:
        spec = block.take_map("granularitySpec")
        block.put("granularitySpec", {"segmentGranularity": old, **spec})
    target.update(_target_of(convert_shape(block, None), findings))
    if _LOSSY & target.keys():
        target.setdefault("allowLossy", True)  # a spec that says so wants it, as in Druid
    return {**native, "target": target}


def _target_of(shape: Mapping[str, Any], findings: Findings) -> dict[str, object]:
    """Return the form that time chunks get, as `target` says it; parts that are left out stay as they are."""
    try:
        found = CompactionShape.model_validate({"allowLossy": True, **shape})
    except ValidationError as error:
        for details in error.errors():
            wrong = explain(details, CompactionShape)
            findings.problem(wrong.path, wrong.message)
        return {}
    target = replace(found.to_target(), allow_lossy=False)
    if "target_segment_size_bytes" not in found.tuning.model_fields_set:
        target = replace(target, target_bytes=None)
    return target_to_json(target)


def _inputs(block: Block) -> dict[str, Any]:
    """Return interval or segments: the newer `ioConfig.inputSpec`, or the older fields at the top."""
    found = {name: block.take(name) for name in ("interval", "segments") if block.has(name)}
    io = block.block("ioConfig")
    io.take("type")
    io.ignore(
        {
            "dropExisting": "a compaction drops exactly what it read",
            "allowNonAlignedInterval": "intervals need not be aligned",
        }
    )
    spec = io.block("inputSpec")
    kind = spec.take("type")
    if kind not in (None, "interval", "segments"):
        spec.problem("type", f"'{kind}' is not known; use interval or segments")
    spec.ignore({"sha256OfSortedSegmentIds": "publish checks that every input is still there"})
    for name in ("interval", "segments"):
        if spec.has(name):
            found[name] = spec.take(name)
    spec.finish()
    io.finish()
    return {name: one for name, one in found.items() if one is not None}
