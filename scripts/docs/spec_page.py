"""The reference page of the spec, made of the models: `docs/reference/spec.md`.

A test fails where a field has no description or the page is not what this makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from carnac.core.time.granularity import Granularity
from carnac.specs.base import SpecModel
from carnac.specs.druid.fields import (
    IGNORED_IN_DIMENSION,
    IGNORED_IN_JSON,
    IGNORED_IN_METRIC,
    IGNORED_IN_TASK,
    IGNORED_IN_TUNING,
    METRIC_HINTS,
)
from carnac.specs.druid.rows import QUERY_ONLY
from carnac.specs.druid.terms import documents, instants, lists, numbers, texts
from carnac.specs.druid.terms.filters import FILTER_TYPES
from carnac.specs.ingest.inputs import (
    ArrowFormat,
    CsvFormat,
    FilesInput,
    FlattenField,
    FlattenSpec,
    FrameInput,
    InlineInput,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
    QueryInput,
    TsvFormat,
)
from carnac.specs.ingest.layout import (
    DynamicPartitions,
    GranularitySpec,
    HashedPartitions,
    RangePartitions,
    TuningSpec,
)
from carnac.specs.ingest.schema import DimensionSpec, DimensionsSpec, MetricSpec, TimestampSpec
from carnac.specs.ingest.spec import IgnoredField, IngestSpec, Transform, TransformSpec

BLOCKS: tuple[tuple[type[SpecModel], str, str], ...] = (
    (IngestSpec, "The spec", ""),
    (FilesInput, "Input: files", "ioConfig.inputSource"),
    (InlineInput, "Input: inline", "ioConfig.inputSource"),
    (QueryInput, "Input: query", ""),
    (FrameInput, "Input: frame", ""),
    (JsonFormat, "Format: json", "ioConfig.inputFormat"),
    (CsvFormat, "Format: csv", "ioConfig.inputFormat"),
    (TsvFormat, "Format: tsv", "ioConfig.inputFormat"),
    (ParquetFormat, "Format: parquet", "ioConfig.inputFormat"),
    (OrcFormat, "Format: orc", "ioConfig.inputFormat"),
    (ArrowFormat, "Format: arrow", "ioConfig.inputFormat"),
    (FlattenSpec, "Flatten spec", "inputFormat.flattenSpec"),
    (FlattenField, "Flatten field", "flattenSpec.fields[]"),
    (TimestampSpec, "Timestamp", "dataSchema.timestampSpec"),
    (DimensionsSpec, "Dimensions", "dataSchema.dimensionsSpec"),
    (DimensionSpec, "Dimension", "dimensionsSpec.dimensions[]"),
    (MetricSpec, "Metric", "dataSchema.metricsSpec[]"),
    (GranularitySpec, "Granularity", "dataSchema.granularitySpec"),
    (TransformSpec, "Transforms", "dataSchema.transformSpec"),
    (Transform, "Transform", "transformSpec.transforms[]"),
    (DynamicPartitions, "Partitions: dynamic", "tuningConfig.partitionsSpec"),
    (HashedPartitions, "Partitions: hashed", "tuningConfig.partitionsSpec"),
    (RangePartitions, "Partitions: range", "tuningConfig.partitionsSpec"),
    (TuningSpec, "Tuning", "tuningConfig"),
    (IgnoredField, "Ignored field", ""),
)
"""Every block: its model, its heading, and where Druid keeps it (empty: nowhere as such)."""

DRUID_NAMES: Mapping[tuple[str, str], str] = {
    ("IngestSpec", "datasource"): "dataSchema.dataSource",
    ("IngestSpec", "mode"): "ioConfig.appendToExisting",
    ("IngestSpec", "replace_scope"): "ioConfig.dropExisting",
    ("IngestSpec", "input"): "ioConfig.inputSource",
    ("IngestSpec", "timestamp"): "dataSchema.timestampSpec",
    ("IngestSpec", "dimensions"): "dataSchema.dimensionsSpec",
    ("IngestSpec", "metrics"): "dataSchema.metricsSpec",
    ("IngestSpec", "granularity"): "dataSchema.granularitySpec",
    ("IngestSpec", "transforms"): "dataSchema.transformSpec",
    ("IngestSpec", "partitions"): "tuningConfig.partitionsSpec",
    ("IngestSpec", "tuning"): "tuningConfig",
    ("IngestSpec", "context"): "context",
    ("FilesInput", "paths"): "inputSource.baseDir, files, uris, prefixes",
    ("FilesInput", "filter"): "inputSource.filter, objectGlob",
    ("FilesInput", "format"): "ioConfig.inputFormat",
    ("InlineInput", "format"): "ioConfig.inputFormat",
    ("TuningSpec", "sort_by"): "dimensionsSpec.forceSegmentSortByTime",
    ("TuningSpec", "target_segment_size_bytes"): "",
    ("TimestampSpec", "time_zone"): "",
    ("CsvFormat", "null_values"): "",
    ("TsvFormat", "null_values"): "",
    ("CsvFormat", "delimiter"): "",
}
"""Druid's name of a field where it is not the block's place and the field's own name."""

_INTRO = """# Ingestion spec

<!-- Made by `make docs`; do not edit. -->

This page lists the fields of an ingestion spec, in JSON, YAML or Python. Every block below is a table:
field, type, default, meaning, and where [Druid](#druids-specs) keeps the same thing. JSON and YAML
use these names; Python uses the same in snake_case, with the short names of the blocks
(`timestampSpec` is `timestamp`); both are read everywhere.

```yaml
dataSource: edits
mode: append
input: edits/*.json.gz
timestampSpec: {column: time, format: iso}
dimensions: [channel, page, {name: added, type: long}]
metrics:
  - {name: count, type: count}
  - {name: deleted, type: longSum}
granularitySpec: {segmentGranularity: day, queryGranularity: minute}
```

A row goes through: read (format, `flattenSpec`) → time (`timestampSpec`) → transforms, which see the
input and `__time` but not each other → filter → intervals → dimensions and metrics → truncation to
`queryGranularity` → rollup → partitions → sort.

A wrong spec is refused with one message that names every problem with its place. An unknown field is
a problem, too.
"""

_DRUID = """## Druid's specs

A task of type `index_parallel` or `index` is read as it is, with its envelope
(`{"type": …, "spec": {…}, "context": …}`) or without it; the old `parser` and `firehose` too.

- `appendToExisting: true` is mode `append` (only with dynamic partitions). Otherwise the mode is
  `replace`: of the time chunks that get rows, or with `dropExisting: true` of all of
  `granularitySpec.intervals`, which grow to whole time chunks.
- `rollup` is true unless it is set.
- Input sources: `local`, `inline`, `s3`, and `combining` of one kind. Formats: `json`, `csv`, `tsv`,
  `parquet`, `orc`. `jq` in a `flattenSpec` is not supported; `tree` is.
- A field that would change the result and is not supported is refused; the message says what to do.

These fields are read and have no effect; the report names them:
"""


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the native form."""
    return IngestSpec.model_json_schema(by_alias=True, mode="validation")


def render() -> str:
    """Return the page, as Markdown."""
    parts = [_INTRO]
    definitions: Mapping[str, Any] = json_schema()["$defs"]
    for model, heading, place in BLOCKS:
        schema = definitions.get(model.__name__) or json_schema()
        parts.append(block_table(model, heading, place, schema))
    parts.append(_DRUID)
    parts.append(_ignored())
    parts.append(_metrics())
    parts.append(_expressions())
    return "\n".join(parts).rstrip() + "\n"


def block_table(model: type[SpecModel], heading: str, place: str, schema: Mapping[str, Any]) -> str:
    """Return a block as a section with a table of its fields; `place` is where Druid keeps it."""
    doc = (model.__doc__ or "").strip().replace("\n    ", "\n")
    lines = [f"## {heading}", "", doc, ""]
    lines += ["| field | type | default | meaning | in Druid |", "|---|---|---|---|---|"]
    required = set(schema.get("required", ()))
    for name, info in model.model_fields.items():
        written = info.serialization_alias or name
        shown = schema["properties"][written]
        default = "required" if written in required else _default(shown, info.default)
        druid = DRUID_NAMES.get((model.__name__, name), f"{place}.{written}" if place else "")
        cells = (f"`{written}`", _type(shown), default, info.description or "", _code(druid))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def _code(text: str) -> str:
    return f"`{text}`" if text else "–"


def _default(schema: Mapping[str, Any], given: object) -> str:
    value = str(given).lower() if isinstance(given, Granularity) else schema.get("default")
    if value is None or value in ([], "") or isinstance(value, dict):  # a block has its own table
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return {"\t": "tab", "\x01": "Ctrl-A"}.get(str(value), f"`{value}`")


_TYPE_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "",
}
_FORMAT_WORDS = {
    "interval": "interval",
    "granularity": "granularity",
    "date-time": "ISO 8601 time",
}


def _type(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema's type in words, with links to the blocks that it names."""
    if "$ref" in schema:
        return _link(str(schema["$ref"]).rsplit("/", 1)[-1])
    if schema.get("format") in _FORMAT_WORDS:
        return _FORMAT_WORDS[str(schema["format"])]
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return "text" if len(values) > 12 else ", ".join(f"`{value}`" for value in values)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(word for one in schema[key] if (word := _type(one))))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {})) or 'values'}"
    return _TYPE_WORDS.get(str(schema.get("type")), "")


def _link(name: str) -> str:
    for model, heading, _ in BLOCKS:
        if model.__name__ == name:
            anchor = heading.lower().replace(":", "").replace(" ", "-")
            return f"[{heading[0].lower()}{heading[1:]}](#{anchor})"
    return name


def _ignored() -> str:
    tables: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("the task", IGNORED_IN_TASK),
        ("`tuningConfig`", IGNORED_IN_TUNING),
        ("`inputFormat`", IGNORED_IN_JSON),
        ("a dimension", IGNORED_IN_DIMENSION),
        ("a metric", IGNORED_IN_METRIC),
    )
    lines = ["| field | of | why |", "|---|---|---|"]
    lines += [f"| `{name}` | {of} | {why} |" for of, table in tables for name, why in table.items()]
    return "\n".join([*lines, ""])


def _metrics() -> str:
    lines = ["Metric types that are refused:", "", "| type | instead |", "|---|---|"]
    lines += [f"| `{name}` | {hint} |" for name, hint in METRIC_HINTS.items()]
    return "\n".join([*lines, ""])


def _expressions() -> str:
    tables: tuple[tuple[str, Iterable[str]], ...] = (
        ("texts, conditions, nulls", texts.FUNCTIONS),
        ("numbers", numbers.FUNCTIONS),
        ("times", instants.FUNCTIONS),
        ("arrays", lists.FUNCTIONS),
        ("JSON", documents.FUNCTIONS),
    )
    lines = [
        "### Expressions and filters",
        "",
        "Transforms of Druid's specs (and transforms of type `druid`) give Druid's results, the same in",
        "appends, streams, loads and queries: long by long stays long, `+` joins two texts, conditions",
        "are 1 and 0, a text that is no number is null. DuckDB computes them, without Spark. Departures:",
        "a long that overflows and a long divided by zero are null; `parse_json` of wrong JSON is null.",
        "Patterns, periods and time zones must be literals. Lambdas and lookups are refused. Functions:",
        "",
    ]
    lines += [
        f"- {of}: {', '.join(f'`{name}`' for name in names if name not in QUERY_ONLY)}"
        for of, names in tables
    ]
    lines += ["", f"Filters: {', '.join(f'`{name}`' for name in FILTER_TYPES)}."]
    return "\n".join(lines)
