"""The ingestion spec: the description of one batch ingestion, as data.

`IngestSpec` is the one internal form; the pipeline executes it and knows no other. Make it with
`carnac.specs.load_spec` (JSON or YAML text, a mapping, or one of Druid's `index_parallel` specs),
or in Python:

    IngestSpec(
        datasource="flights",
        input=FilesInput(paths=("flights.csv",)),
        timestamp=TimestampSpec(column="time_hour"),
        dimensions=DimensionsSpec(dimensions=(DimensionSpec(name="carrier"),)),
        metrics=(MetricSpec(name="flights", type="count"),),
        granularity=GranularitySpec(segment_granularity="month", query_granularity="hour"),
    )

The steps of a row, in this order: read (format, flattenSpec) → time (timestampSpec) → transforms, which see the input
and `__time` but not each other → filter → intervals (rows outside are thrown away) → dimensions and metrics →
truncation to the query granularity → rollup → partitions → sort.

All values are frozen. JSON and YAML use Druid's names in camelCase; Python uses the short names in
snake_case (`timestampSpec` is `spec.timestamp`); both are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from carnac.core.time.granularity import ALL
from carnac.core.time.intervals import IntervalSet, interval_set, interval_text
from carnac.specs.base import TIME_COLUMN, SpecModel, check_datasource, named, problem
from carnac.specs.ingest.inputs import (
    InputSource,
    QueryInput,
)
from carnac.specs.ingest.layout import (
    DynamicPartitions,
    GranularitySpec,
    HashedPartitions,
    PartitionsField,
    RangePartitions,
    TuningSpec,
)
from carnac.specs.ingest.schema import DimensionsSpec, MetricSpec, TimestampSpec


class Transform(SpecModel):
    """One computed column."""

    name: str = Field(
        min_length=1,
        description=(
            "Name of the column this makes; hides an input field of that name. `__time` replaces "
            "the timestamp."
        ),
    )
    expression: str = Field(
        min_length=1, description="The expression, over input fields and `__time`."
    )
    type: Literal["spark", "druid"] = Field(
        default="spark",
        description=(
            "Language of the expression: `spark` (Spark SQL, `__time` is a timestamp) or `druid` "
            "(Druid's expressions, `__time` is a number of milliseconds; in Druid's own specs "
            "`expression` means this)."
        ),
    )


class TransformSpec(SpecModel):
    """Computed columns, and which rows are kept."""

    transforms: tuple[Transform, ...] = Field(
        default=(), description="Computed columns. They see the input, not each other."
    )
    filter: str | dict[str, Any] | None = Field(
        default=None,
        description=(
            "Rows to keep: a Spark SQL condition as text, or one of Druid's filters as an object. "
            "It sees the transforms."
        ),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [transform.name for transform in self.transforms]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise problem(f"transform {', '.join(repeated)} is defined more than once")
        return self


class IgnoredField(SpecModel):
    """A field of Druid that was read and has no effect here."""

    path: str = Field(description="Where it stands in the spec.")
    reason: str = Field(description="Why it has no effect.")


class IngestSpec(SpecModel):
    """The description of one batch ingestion."""

    datasource: str = named(
        "dataSource datasource",
        "Datasource to write to; made if there is none. No `/`, no line breaks.",
        min_length=1,
        max_length=255,
    )
    mode: Literal["append", "replace"] = Field(
        default="append",
        description="Add the rows to what is there, or replace what is there by them.",
    )
    replace_scope: Literal["intervals", "chunks"] | None = Field(
        default=None,
        description=(
            "Scope of mode `replace`: all of `granularitySpec.intervals`, also where there are no rows (an empty "
            "input deletes them), or only the time chunks that rows fall into. Default: `intervals` if there are "
            "any, else `chunks`."
        ),
    )
    input: InputSource = named(
        "input inputSource",
        "Where the rows come from; a text or a list of texts means paths of files.",
    )
    timestamp: TimestampSpec = named(
        "timestampSpec timestamp",
        "The column that holds the time, and how to read it.",
        default=TimestampSpec(),
    )
    dimensions: DimensionsSpec = named(
        "dimensionsSpec dimensions",
        "Which fields become dimensions; a list means the dimensions themselves.",
        default=DimensionsSpec(),
    )
    metrics: tuple[MetricSpec, ...] = named(
        "metricsSpec metrics", "Columns that rollup aggregates.", default=()
    )
    granularity: GranularitySpec = named(
        "granularitySpec granularity",
        "Time chunks, truncation of time, rollup, intervals.",
        default=GranularitySpec(),
    )
    transforms: TransformSpec = named(
        "transformSpec transforms",
        "Computed columns and the filter; a list means the computed columns.",
        default=TransformSpec(),
    )
    partitions: PartitionsField = named(
        "partitionsSpec partitions",
        "How the rows of a time chunk are divided into segments.",
        default=DynamicPartitions(),
    )
    tuning: TuningSpec = named(
        "tuningConfig tuning",
        "Limits of the job, and the size of what it writes.",
        default=TuningSpec(),
    )
    writer: str | None = Field(
        default=None,
        min_length=1,
        description="Name of the writer; with `batch`, the key that makes a repeated job do nothing.",
    )
    batch: str | None = Field(
        default=None,
        min_length=1,
        description="Id of this batch of `writer`; a repeated one returns the first commit.",
    )
    context: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "Druid's task context (`priority`, `taskLockType`, `useConcurrentLocks`, …): carried "
            "along; the runner of the job reads it. `allowMissing` is that of `tuningConfig`."
        ),
    )
    ignored: tuple[IgnoredField, ...] = Field(
        default=(),
        description="Fields of a Druid spec that have no effect here; the report names them.",
    )

    @model_validator(mode="before")
    @classmethod
    def _plain_forms(cls, value: object) -> object:
        """Take `transforms` as a list and `intervals` at the top level."""
        if not isinstance(value, Mapping):
            return value
        block = dict(value)
        for key in ("transforms", "transformSpec"):
            if isinstance(block.get(key), list | tuple):
                block[key] = {"transforms": block[key]}
        if block.get("intervals") is not None:
            key = "granularity" if "granularity" in block else "granularitySpec"
            inner = block.get(key) or {}
            if isinstance(inner, Mapping) and inner.get("intervals") is None:
                block[key] = {**inner, "intervals": block.pop("intervals")}
        return block

    @model_validator(mode="after")
    def _resolve(self) -> Self:
        """Write down the defaults that depend on other fields: readers need not know them."""
        if self.granularity.rollup is None:
            resolved = self.granularity.model_copy(update={"rollup": bool(self.metrics)})
            object.__setattr__(self, "granularity", resolved)
        if self.mode == "replace" and self.replace_scope is None:
            scope = "intervals" if self.granularity.intervals else "chunks"
            object.__setattr__(self, "replace_scope", scope)
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        check_datasource(self.datasource)
        names = [metric.name for metric in self.metrics]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise problem(f"metric {', '.join(repeated)} is defined more than once")
        both = sorted(set(names) & set(self.dimensions.names))
        if both:
            raise problem(f"{', '.join(both)} is both a dimension and a metric; rename one")
        if (self.writer is None) != (self.batch is None):
            raise problem("writer and batch go together; give both or none")
        return self

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        if isinstance(self.input, QueryInput) and self.has_expressions:
            raise problem(
                "the statement of the input computes and filters; leave out transformSpec and filters"
            )
        return self

    @model_validator(mode="after")
    def _check_replace(self) -> Self:
        if self.mode == "append" and self.replace_scope is not None:
            raise problem("replaceScope goes with mode replace; remove it or set mode")
        if self.replace_scope == "intervals" and not self.granularity.intervals:
            raise problem("replacing intervals needs granularitySpec.intervals")
        query = self.granularity.query_granularity
        for interval in self.granularity.intervals if self.mode == "replace" else ():
            if query != ALL and not query.is_aligned(interval):
                raise problem(
                    f"interval {interval_text(interval)} is not aligned to queryGranularity {query}"
                )
        return self

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        """Columns that partitions and the sort order name must come to be."""
        if self.dimensions.discovers:
            return self
        dimensions = set(self.dimensions.names)
        if isinstance(self.partitions, HashedPartitions | RangePartitions):
            missing = [name for name in self.partitions.dimensions if name not in dimensions]
            if missing:
                raise problem(
                    f"partitionDimensions names {', '.join(missing)}, which is no dimension"
                )
        known = dimensions | {TIME_COLUMN} | {metric.name for metric in self.metrics}
        missing = [name for name in self.tuning.sort_by if name not in known]
        if missing:
            raise problem(f"sortBy names {', '.join(missing)}, which is no column")
        return self

    @property
    def intervals(self) -> IntervalSet:
        """The intervals whose rows are taken, in normal form; empty means all of time."""
        return interval_set(self.granularity.intervals)

    @property
    def has_expressions(self) -> bool:
        """Whether something is computed from a row: a transform, the filter, or the filter of a metric."""
        block = self.transforms
        return bool(block.transforms or block.filter is not None) or any(
            metric.filter is not None for metric in self.metrics
        )

    @property
    def is_druid(self) -> bool:
        """Whether all expressions are Druid's, for which a column that there is not is null."""
        filters = (self.transforms.filter, *(metric.filter for metric in self.metrics))
        is_text = any(isinstance(one, str) for one in filters)
        return not is_text and all(one.type == "druid" for one in self.transforms.transforms)

    @cached_property
    def declared_fields(self) -> dict[str, tuple[str, ...]]:
        """The fields of the input that each declared column is made of; columns of transforms are none of them."""
        made = {transform.name for transform in self.transforms.transforms} | {TIME_COLUMN}
        declared: dict[str, tuple[str | None, ...]] = {
            name: (name,) for name in self.dimensions.names
        }
        for metric in self.metrics:
            order = metric.time_column if self.granularity.rollup else None
            declared[metric.name] = (metric.input, order)
        found = {
            column: tuple(field for field in fields if field is not None and field not in made)
            for column, fields in declared.items()
        }
        return {column: fields for column, fields in found.items() if fields}

    @property
    def rollup(self) -> Literal["none", "best_effort", "perfect"]:
        """How far equal rows become one: not at all, within a task, or within the whole job."""
        if not self.granularity.rollup:
            return "none"
        perfect = self.tuning.force_guaranteed_rollup or self.partitions.type != "dynamic"
        return "perfect" if perfect else "best_effort"

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """Columns that order the rows of a segment; discovered dimensions follow them."""
        return self.tuning.sort_by or (TIME_COLUMN, *self.dimensions.names)

    def to_json(self) -> str:
        """Return the spec as one line of JSON; `load_spec` of it gives an equal spec."""
        return json.dumps(self.to_json_dict(), ensure_ascii=False, separators=(",", ":"))

    def fingerprint(self) -> str:
        """Return 64 hex digits that are equal for specs that do the same.

        Fields without effect (`ignored`) and those that name the load (`writer`, `batch`, `context`) are left out.
        """
        block = self.to_json_dict()
        for key in ("ignored", "writer", "batch", "context"):
            block.pop(key, None)
        text = json.dumps(block, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
