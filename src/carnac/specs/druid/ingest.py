"""Druid's batch specs (`index_parallel`, `index`) turned into the native form.

Every field of Druid is one of three: it has a meaning here; it is harmless (how Druid does its work,
not what comes out), and goes to `ignored` with the reason; or it would change the result and is not
supported, which is a problem that says what to do. A field that Druid does not have is a typo.

Append or replace is decided as Druid does: `appendToExisting` appends; without it the time chunks
that get rows are replaced, and with `dropExisting` the whole of `granularitySpec.intervals`.

Source: Druid's documentation of native batch ingestion, ingestion specs, input sources and source
input formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from carnac.core.time.granularity import DAY, Granularity, parse_granularity
from carnac.core.time.intervals import interval_set, parse_interval
from carnac.errors import Invalid
from carnac.specs.base import NO_INPUT
from carnac.specs.druid.fields import (
    IGNORED_IN_DIMENSION,
    IGNORED_IN_METRIC,
    IGNORED_IN_TASK,
    IGNORED_IN_TUNING,
    INSTEAD,
    METRIC_HINTS,
    Block,
)
from carnac.specs.druid.input import convert_format, convert_source, modernise
from carnac.specs.problems import Findings, Problem, raise_problems

BATCH_TYPES = ("index_parallel", "index")
_NAMES = ("dataSchema", "ioConfig", "tuningConfig")
_TIME = "__time"


def is_druid_spec(value: Mapping[str, Any]) -> bool:
    """Whether a spec is one of Druid's: it has a task type or Druid's three parts."""
    return "spec" in value or any(name in value for name in _NAMES[:2]) or "type" in value


def convert(
    value: Mapping[str, Any], *, has_rows: bool = False
) -> tuple[dict[str, Any], Findings, Callable[[str], str]]:
    """Return the native form, what was found, and a map from native places to Druid's places.

    Args:
        has_rows: Whether the rows come from elsewhere, so that the spec need not say where they are.

    Raises:
        Invalid: It is a task, but not one that ingests a batch.
    """
    findings = Findings()
    task = Block(value, "", findings)
    _check_type(task.take("type"))
    context = task.take("context")
    task.ignore(IGNORED_IN_TASK)
    inner = task.block("spec") if task.has("spec") else None
    spec = inner if inner is not None else task
    if inner is not None:
        inner.take("type")
        context = context or inner.take("context")
    schema, io = modernise(spec.block("dataSchema"), spec.block("ioConfig"))
    native = _convert_schema(schema)
    native.update(_convert_io(io, native, has_rows=has_rows))
    native.update(_convert_tuning(spec.block("tuningConfig"), native))
    if context:
        native["context"] = context
    for block in (schema, io, *((inner,) if inner is not None else ()), task):
        block.finish()
    native["ignored"] = [{"path": path, "reason": reason} for path, reason in findings.ignored]
    return native, findings, _placer("spec." if inner is not None else "")


def _check_type(kind: object) -> None:
    if kind is None or kind in BATCH_TYPES:
        return
    message = f"task type '{kind}' is not a batch ingestion; use index_parallel"
    if str(kind) in INSTEAD:
        message = f"there are no {kind} tasks here: {INSTEAD[str(kind)]}"
    elif str(kind) in {"compact", "kill"}:
        message = f"a {kind} task is no ingestion: an overlord takes it (carnac task submit)"
    raise_problems([Problem("type", message)])


def _placer(prefix: str) -> Callable[[str], str]:
    """Return the function that says where in Druid's spec a native field stands."""
    places = (
        ("input.inputFormat", "ioConfig.inputFormat"),
        ("input", "ioConfig.inputSource"),
        ("partitionsSpec", "tuningConfig.partitionsSpec"),
        ("tuningConfig", "tuningConfig"),
        ("mode", "ioConfig.appendToExisting"),
        ("replaceScope", "ioConfig.dropExisting"),
    )

    def place(path: str) -> str:
        if not path or path.startswith(("context", "ignored")):
            return path
        for native, druid in places:
            if path == native or path.startswith((native + ".", native + "[")):
                return prefix + druid + path[len(native) :]
        return f"{prefix}dataSchema.{path}"

    return place


def _convert_schema(schema: Block) -> dict[str, Any]:
    native: dict[str, Any] = {"dataSource": schema.take("dataSource")}
    timestamp = schema.take_map("timestampSpec")
    native["timestampSpec"] = {k: v for k, v in timestamp.items() if v is not None}
    native["dimensionsSpec"], sort_by = convert_dimensions(schema)
    native["metricsSpec"] = convert_metrics(schema)
    native["granularitySpec"] = _convert_granularity(schema.block("granularitySpec"))
    native["transformSpec"] = _convert_transforms(schema)
    schema.ignore({"projections": "Carnac keeps no precomputed projections"})
    if sort_by:
        native["tuningConfig"] = {"sortBy": sort_by}
    return {k: v for k, v in native.items() if v is not None}


def convert_dimensions(schema: Block) -> tuple[dict[str, Any], list[str]]:
    """Return the native dimensions, and the sort order if it is not Druid's default."""
    block = schema.block("dimensionsSpec")
    native: dict[str, Any] = {"dimensions": []}
    order: list[str] = []
    for index, item in enumerate(block.take_list("dimensions")):
        if not isinstance(item, Mapping):
            order.append(str(item))
            if item != _TIME:
                native["dimensions"].append(item)
            continue
        dimension = Block(item, f"{block.path}.dimensions[{index}]", block.findings)
        dimension.ignore(IGNORED_IN_DIMENSION)
        order.append(str(item.get("name")))
        if item.get("name") == _TIME:
            continue
        if item.get("type") in ("spatial", "newSpatial"):
            dimension.problem("type", "spatial dimensions are not supported; keep two doubles")
            native["dimensions"].append(f"dimension {index}")  # keeps the others' places
            continue
        native["dimensions"].append(dimension.rest())
    if block.take("spatialDimensions"):
        block.problem("spatialDimensions", "is not supported; keep the coordinates as doubles")
    time_first = block.take_flag("forceSegmentSortByTime")
    for name in ("dimensionExclusions", "useSchemaDiscovery", "includeAllDimensions"):
        if block.has(name) and block.peek(name) is not None:
            native[name] = block.take(name)
        else:
            block.take(name)
    block.finish()
    custom = time_first is False and bool(order)
    return native, (order if _TIME in order else [*order, _TIME]) if custom else []


def convert_metrics(schema: Block) -> list[Any]:
    """Return the native metrics; problems of Druid's are noted."""
    native: list[Any] = []
    for index, item in enumerate(schema.take_list("metricsSpec")):
        if not isinstance(item, Mapping):
            native.append(item)
            continue
        path = schema.at(f"metricsSpec[{index}]")
        metric = Block(_without_wrapper(item, path, schema.findings), path, schema.findings)
        kind = str(metric.peek("type"))
        metric.ignore(IGNORED_IN_METRIC)
        if metric.take("expression"):
            metric.problem("expression", "is not supported; compute the column in transformSpec")
        hint = METRIC_HINTS.get(kind)
        if hint is not None:
            metric.problem("type", f"metric type '{kind}' is not supported; {hint}")
            native.append({"type": "count", "name": f"metric {index}"})  # keeps the others' places
            continue
        native.append({k: v for k, v in metric.rest().items() if v is not None})
    return native


def _without_wrapper(item: Mapping[str, Any], path: str, findings: Findings) -> Mapping[str, Any]:
    """Return an aggregator with the filter of the `filtered` one around it, which may be in another one."""
    if item.get("type") != "filtered":
        return item
    unknown = sorted(item.keys() - {"type", "name", "filter", "aggregator"})
    inner, condition = item.get("aggregator"), item.get("filter")
    if unknown:
        findings.problem(f"{path}.{unknown[0]}", "is no field of a filtered metric")
    if not isinstance(inner, Mapping) or not isinstance(condition, Mapping):
        name = "filter" if isinstance(inner, Mapping) else "aggregator"
        findings.problem(f"{path}.{name}", "is required, as an object")
        return {"type": "count", "name": str(item.get("name") or path)}  # keeps the others' places
    inner = _without_wrapper(inner, f"{path}.aggregator", findings)
    if inner.get("filter") is not None:
        condition = {"type": "and", "fields": [condition, inner["filter"]]}
    given = {"name": item["name"]} if item.get("name") else {}
    return {**_with_field_name(inner), **given, "filter": condition}


def _with_field_name(inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an aggregator that keeps its input when it gets another name."""
    if inner.get("type") == "count" or inner.get("fieldName") is not None:
        return inner
    return {**inner, "fieldName": inner.get("name")}


def _convert_granularity(block: Block) -> dict[str, Any]:
    if block.take("type") == "arbitrary":
        block.problem("type", "'arbitrary' is not supported; use 'uniform' and a granularity")
    native: dict[str, Any] = {"rollup": True}
    for name in ("segmentGranularity", "queryGranularity", "rollup"):
        value = block.take(name)
        if value is not None:
            native[name] = value
    if isinstance(block.peek("intervals"), str):
        block.put("intervals", [block.peek("intervals")])
    texts = block.take_list("intervals")
    native["intervals"] = _round_intervals(texts, native.get("segmentGranularity", DAY))
    block.finish()
    return native


def _round_intervals(texts: list[Any], chunk: object) -> list[Any]:
    """Return the intervals grown to whole time chunks, as Druid does; wrong ones as they are."""
    try:
        granularity = chunk if isinstance(chunk, Granularity) else parse_granularity(chunk)  # type: ignore[arg-type]
        whole = [granularity.buckets_over(parse_interval(str(text))) for text in texts]
    except Invalid:
        return texts
    return [str(interval) for interval in interval_set(whole)]


def _convert_transforms(schema: Block) -> dict[str, Any]:
    block = schema.block("transformSpec")
    transforms: list[Any] = []
    for index, item in enumerate(block.take_list("transforms")):
        transform = Block(item, f"{block.path}.transforms[{index}]", block.findings)
        kind = transform.take("type")
        if kind not in (None, "expression"):
            transform.problem("type", f"transform type '{kind}' is not supported; use expression")
        transforms.append({**transform.rest(), "type": "druid"})
    native = {"transforms": transforms, "filter": block.take("filter")}
    block.finish()
    return native


def _convert_io(io: Block, native: dict[str, Any], *, has_rows: bool) -> dict[str, Any]:
    io.take("type")
    source: dict[str, Any]
    if has_rows and not io.has("inputSource"):
        source = {"type": "files", "paths": ["-"]} if io.has("inputFormat") else dict(NO_INPUT)
    else:
        source = convert_source(io)
    if source.get("type") == "files" or "data" in source:
        source["inputFormat"] = convert_format(io)
    result: dict[str, Any] = {"input": source}
    append, drop = io.take_flag("appendToExisting"), io.take_flag("dropExisting")
    if append:
        result["mode"] = "append"
        if drop:
            io.note("dropExisting", "appendToExisting is true")
        return result
    intervals = native["granularitySpec"]["intervals"]
    if drop and not intervals:
        io.note("dropExisting", "granularitySpec has no intervals")
    scope = "intervals" if drop and intervals else "chunks"
    return {**result, "mode": "replace", "replaceScope": scope}


def _convert_tuning(tuning: Block, native: dict[str, Any]) -> dict[str, Any]:
    tuning.take("type")
    tuning.ignore(IGNORED_IN_TUNING)
    block: dict[str, Any] = dict(native.get("tuningConfig", {}))
    values = {name: tuning.take(name) for name in ("maxParseExceptions", "maxSavedParseExceptions")}
    flags = ("logParseExceptions", "forceGuaranteedRollup", "allowTypeChange", "allowMissing")
    values |= {name: tuning.take_flag(name) for name in flags}
    block |= {name: value for name, value in values.items() if value is not None}
    if tuning.take_flag("reportParseExceptions"):
        block["maxParseExceptions"] = 0
    perfect = bool(block.get("forceGuaranteedRollup"))
    partitions = convert_partitions(tuning, perfect=perfect)
    dynamic = partitions.get("type") == "dynamic"
    if perfect and dynamic:
        tuning.problem("partitionsSpec", "forceGuaranteedRollup needs hashed or range, not dynamic")
    if native.get("mode") == "append" and not dynamic:
        tuning.problem("partitionsSpec", "appendToExisting needs dynamic partitions")
    tuning.finish()
    return {"tuningConfig": block, "partitionsSpec": partitions}


_OLD_PARTITION_FIELDS = {
    "targetPartitionSize": "targetRowsPerSegment",
    "maxPartitionSize": "maxRowsPerSegment",
}


def convert_partitions(tuning: Block, *, perfect: bool) -> dict[str, Any]:
    """Return the partitions, from `partitionsSpec` or from the old fields beside it."""
    old = {
        name: value
        for name in ("maxRowsPerSegment", "maxTotalRows", "numShards", "partitionDimensions")
        if (value := tuning.take(name)) not in (None, -1, [])
    }
    spec = tuning.take("partitionsSpec")
    if spec is not None:
        if not isinstance(spec, Mapping):
            return {"type": spec}
        given = {str(k): v for k, v in spec.items() if v not in (None, -1)}
        old_names = _OLD_PARTITION_FIELDS | (
            {"maxRowsPerSegment": "targetRowsPerSegment"} if given.get("type") == "hashed" else {}
        )
        return {old_names.get(k, k): v for k, v in given.items()}
    if not perfect:
        return {"type": "dynamic", **{k: v for k, v in old.items() if k.startswith("max")}}
    rows = old.get("maxRowsPerSegment")
    hashed: dict[str, Any] = {k: old[k] for k in ("numShards", "partitionDimensions") if k in old}
    if rows is not None and "numShards" not in hashed:
        hashed["targetRowsPerSegment"] = rows
    return {"type": "hashed", **hashed}
