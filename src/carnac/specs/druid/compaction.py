"""Druid's automatic compaction configuration turned into the native form (`carnac.specs.compaction.spec`).

As with ingestion, a field has a meaning here, is harmless and noted as ignored, or is a problem that says what to do.
Null means that a field is left out, everywhere: Druid's API writes all fields of a configuration.

Source: Druid's documentation of automatic compaction, compaction supervisors and cascading reindexing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carnac.specs.druid.fields import IGNORED_IN_TUNING, Block
from carnac.specs.druid.ingest import convert_dimensions, convert_metrics, convert_partitions
from carnac.specs.problems import Findings, Problem, raise_problems

_WRITTEN = {
    "granularity": "granularitySpec",
    "dimensions": "dimensionsSpec",
    "metrics": "metricsSpec",
    "transform": "transformSpec",
    "tuning": "tuningConfig",
    "age_rules": "ageRules",
}
"""Names in Python, and in JSON."""
_TYPES = {
    "catalog": "there is no catalog of tables; write its settings out",
    "reindexCascade": "write its rules as ageRules, youngest first",
}
"""Configurations of Druid that are no list of fields, and what to do instead."""
_ENGINES = ("native", "msq")
_AS_THEY_ARE = {
    "type": "columns keep the types that the segments have",
    "multiValueHandling": "values stay as the segments have them",
}
_SAYS_NOTHING = (None, "string", "auto")
_NOT_HERE = {
    "projections": "Carnac keeps no precomputed projections",
    "policy": "the planner chooses by benefit per cost",
}


def convert_compaction(value: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Return the native form of a configuration of Druid; a native one comes back as it is.

    Raises:
        Invalid: It is of a type that Carnac has not.
    """
    block = Block(_without_nulls(_without_supervisor(value)), "", findings)
    kind = block.take("type")
    if kind is not None and kind != "inline":
        hint = _TYPES.get(str(kind), "a compaction spec needs no type; remove it")
        raise_problems([Problem("type", f"'{kind}' is not supported: {hint}")])
    engine = block.take("engine")
    if engine is not None and str(engine).lower() not in _ENGINES:
        block.problem("engine", f"'{engine}' is not known; Spark does the work: remove it")
    elif engine is not None:
        block.note("engine", "Spark does the work")
    io = _open(block, "ioConfig")
    io.ignore({"dropExisting": "a compaction drops exactly what it read"})
    io.finish()
    block.ignore(_NOT_HERE)
    rows = block.take("maxRowsPerSegment")
    native = convert_shape(block, rows)
    rules = native.get("ageRules")
    if isinstance(rules, list | tuple):
        native["ageRules"] = [
            convert_shape(Block(_without_nulls(rule), f"ageRules[{index}]", findings), None)
            if isinstance(rule, Mapping)
            else rule
            for index, rule in enumerate(rules)
        ]
    found = [{"path": path, "reason": reason} for path, reason in findings.ignored]
    kept = native.get("ignored") or []  # of a spec that was written down
    if isinstance(kept, list | tuple) and found:
        native["ignored"] = [*kept, *(one for one in found if one not in kept)]
    return native


def _without_supervisor(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration inside of a compaction supervisor; it has an envelope."""
    if "compactionConfigs" in value:
        message = "is a list of configurations; set them one by one"
        raise_problems([Problem("compactionConfigs", message)])
    if value.get("type") != "autocompact":
        return value
    if value.get("suspended"):
        message = "is true: such a datasource has no compaction spec here; remove the one it has"
        raise_problems([Problem("suspended", message)])
    spec = value.get("spec")
    if not isinstance(spec, Mapping):
        raise_problems([Problem("spec", "is required, as an object")])
    return spec or {}


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): one for name, one in value.items() if one is not None}


def _open(block: Block, name: str) -> Block:
    """Read a field that is an object; an empty one if it is not there."""
    value = block.take(name)
    is_object = isinstance(value, Mapping)
    return Block(_without_nulls(value) if is_object else value, block.at(name), block.findings)


def convert_shape(block: Block, rows: object) -> dict[str, Any]:
    """Return what time chunks become; `rows` is the old limit of rows in a segment beside it."""
    for name, written in _WRITTEN.items():
        if block.has(name) and not block.has(written):
            block.put(written, block.take(name))
    if isinstance(block.peek("dimensionsSpec"), list | tuple):
        block.put("dimensionsSpec", {"dimensions": block.take("dimensionsSpec")})
    native: dict[str, Any] = {
        "granularitySpec": _convert_granularity(block),
        "dimensionsSpec": None,
        "metricsSpec": convert_metrics(block),
        "transformSpec": _convert_transforms(block),
    }
    native["dimensionsSpec"], order = _convert_columns(block)
    native["tuningConfig"] = _convert_tuning(block, rows, order)
    return {**{k: v for k, v in native.items() if v not in (None, [], {})}, **block.rest()}


def _convert_granularity(block: Block) -> dict[str, Any]:
    spec = _open(block, "granularitySpec")
    if spec.take("type") not in (None, "uniform"):
        spec.problem("type", "is not needed; remove it")
    if spec.take("intervals"):
        spec.problem("intervals", "is for ingestion: all time chunks there are are looked at")
    if spec.peek("rollup") is True and not block.peek("metricsSpec"):
        spec.note("rollup", "rolled-up rows are rolled up further; raw rows need metricsSpec")
    return spec.rest()


def _convert_columns(block: Block) -> tuple[dict[str, Any] | None, list[str]]:
    """Return which dimensions are kept, and the sort order if it is not Druid's default."""
    spec = block.peek("dimensionsSpec")
    if not isinstance(spec, Mapping):
        block.block("dimensionsSpec")  # notes that it is none
        return None, []
    path = block.at("dimensionsSpec")
    for name in ("dimensionExclusions", "useSchemaDiscovery", "includeAllDimensions"):
        if spec.get(name):
            block.findings.problem(
                f"{path}.{name}", "is for ingestion; list the dimensions that are kept"
            )
    listed = spec.get("dimensions")
    for index, one in enumerate(listed if isinstance(listed, list | tuple) else ()):
        for name, why in _AS_THEY_ARE.items():
            if isinstance(one, Mapping) and one.get(name) not in _SAYS_NOTHING:
                block.findings.ignore(f"{path}.dimensions[{index}].{name}", why)
    native, order = convert_dimensions(block)
    return {"dimensions": native["dimensions"]} if native["dimensions"] else None, order


def _convert_transforms(block: Block) -> dict[str, Any]:
    spec = _open(block, "transformSpec")
    if spec.take("transforms"):
        spec.problem("transforms", "are for ingestion: a compaction computes no columns")
    if spec.take("virtualColumns"):
        spec.problem(
            "virtualColumns", "are not supported; write the filter as a condition in Spark SQL"
        )
    return spec.rest()


def _convert_tuning(block: Block, rows: object, order: list[str]) -> dict[str, Any]:
    tuning = _open(block, "tuningConfig")
    tuning.take("type")
    tuning.ignore({**IGNORED_IN_TUNING, "forceGuaranteedRollup": "a compaction always does"})
    if tuning.has("partitions") and not tuning.has("partitionsSpec"):
        tuning.put("partitionsSpec", tuning.take("partitions"))
    is_given = tuning.peek("partitionsSpec") is not None
    if rows is not None and is_given:
        block.note("maxRowsPerSegment", "tuningConfig.partitionsSpec says it")
    elif rows is not None:
        tuning.put("maxRowsPerSegment", rows)
    is_hashed = tuning.peek("numShards") not in (None, -1)
    spec = convert_partitions(tuning, perfect=is_hashed)
    native = tuning.rest()
    if order and not {"sortBy", "sort_by"} & native.keys():
        native["sortBy"] = order
    if is_given or len(spec) > 1:
        native["partitionsSpec"] = spec
    return native
