"""Druid's `compact` and `kill` tasks turned into the native form (`carnac.specs.tasks.spec`).

As with ingestion, a field has a meaning here, is harmless and noted as ignored, or is a problem that says what to do.

Source: Druid's documentation of manual compaction, automatic compaction and data deletion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from carnac.core.time.granularity import parse_granularity
from carnac.errors import Invalid
from carnac.specs.compaction.spec import CompactionTransform
from carnac.specs.druid.fields import IGNORED_IN_TUNING, Block
from carnac.specs.druid.ingest import convert_metrics, convert_partitions
from carnac.specs.ingest.layout import target_of
from carnac.specs.ingest.schema import MetricSpec
from carnac.specs.problems import Findings, explain

_HEAD = ("type", "id", "groupId", "dependencies", "context", "dataSource", "groups")
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
    target = dict(block.take_map("target"))
    target.update(_granularity(block))
    target.update(_columns(block))
    target.update(_tuning(block.block("tuningConfig")))
    target.update(_filter(block.block("transformSpec")))
    lossy = {"queryGranularity", "metrics", "dimensions", "filter"} & target.keys()
    if lossy and "allowLossy" not in target:
        target["allowLossy"] = True  # who writes it down wants it, as in Druid
    block.finish()
    return {**native, "target": target}


def _filter(transforms: Block) -> dict[str, Any]:
    """Return which rows are kept: a condition in Spark SQL, or one of Druid's filters."""
    if transforms.take("transforms"):
        transforms.problem("transforms", "are for ingestion: a compaction computes no columns")
    given = transforms.take("filter")
    transforms.finish()
    if given is None:
        return {}
    try:
        return {"filter": CompactionTransform(filter=given).to_condition()}
    except ValidationError as error:
        for details in error.errors():
            transforms.problem("filter", explain(details, CompactionTransform).message)
        return {}


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


def _granularity(block: Block) -> dict[str, Any]:
    target: dict[str, Any] = {}
    spec = block.block("granularitySpec")
    spec.take("type")
    old = block.take("segmentGranularity")
    if old is not None:
        target["segmentGranularity"] = _canonical(block, "segmentGranularity", old)
    for name in ("segmentGranularity", "queryGranularity"):
        value = spec.take(name)
        if value is not None:
            target[name] = _canonical(spec, name, value)
    if spec.take("rollup") is True and not block.peek("metricsSpec"):
        spec.note("rollup", "rolled-up rows are rolled up further; raw rows need metricsSpec")
    spec.finish()
    return target


def _canonical(block: Block, name: str, value: object) -> str:
    try:
        return str(parse_granularity(value))  # type: ignore[arg-type]
    except Invalid as error:
        block.problem(name, error.message)
        return "day"


def _columns(block: Block) -> dict[str, Any]:
    target: dict[str, Any] = {}
    spec = block.block("dimensionsSpec")
    names = [
        str(one.get("name") if isinstance(one, Mapping) else one)
        for one in spec.take_list("dimensions")
    ]
    spec.ignore({"dimensionExclusions": "name the dimensions to keep", "useSchemaDiscovery": "n/a"})
    spec.finish()
    if names:
        target["dimensions"] = [name for name in names if name != "__time"]
    metrics = []
    for index, item in enumerate(convert_metrics(block)):
        try:
            metric_spec = MetricSpec.model_validate(item)
        except ValidationError as error:
            for details in error.errors():
                wrong = explain(details, MetricSpec)
                block.problem(f"metricsSpec[{index}].{wrong.path}", wrong.message)
            continue
        if metric_spec.filter is not None:
            block.problem(f"metricsSpec[{index}].filter", "is for ingestion; compaction merges")
            continue
        metric = metric_spec.to_metric()
        metrics.append(
            {
                "name": metric.name,
                "kind": metric.kind.value,
                "input": metric.input,
                "type": metric.type.value,
                "params": dict(metric.params),
                "isState": metric.is_state,
            }
        )
    if metrics:
        target["metrics"] = metrics
    return target


def _tuning(tuning: Block) -> dict[str, Any]:
    tuning.take("type")
    tuning.ignore({**IGNORED_IN_TUNING, "forceGuaranteedRollup": "a compaction always does"})
    spec = convert_partitions(tuning, perfect=False)
    tuning.finish()
    kind = str(spec.get("type", "dynamic"))
    kind = {"single_dim": "range"}.get(kind, kind)
    rows = spec.get("targetRowsPerSegment", spec.get("maxRowsPerSegment"))
    if kind == "range" and "targetRowsPerSegment" not in spec and isinstance(rows, int):
        rows = target_of(rows)
    target: dict[str, Any] = {} if rows is None else {"targetRows": rows}
    if kind == "dynamic":
        return target
    dimensions = spec.get("partitionDimensions") or spec.get("partitionDimension") or []
    partitioning = {
        "type": kind,
        "dimensions": [dimensions] if isinstance(dimensions, str) else list(dimensions),
        "buckets": spec.get("numShards"),
    }
    target["partitioning"] = {key: one for key, one in partitioning.items() if one is not None}
    if kind not in {"hashed", "range"}:
        tuning.problem("partitionsSpec", f"'{kind}' is not known; use dynamic, hashed or range")
        del target["partitioning"]
    return target
