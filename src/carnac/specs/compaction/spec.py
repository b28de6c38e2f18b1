"""How a datasource is to be compacted, as data; fields and defaults as in Druid's automatic compaction.

    load_compaction({"dataSource": "edits", "granularitySpec": {"segmentGranularity": "day"}})

Where we depart from Druid: nothing is left alone for being new unless `skipOffsetFromLatest` says so, because here
compaction and ingestion are not in each other's way; and a step that cannot be undone needs `allowLossy`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from carnac.core.compaction.plan.groups import DEFAULT_TARGET_ROWS, CompactionTarget, Partitioning
from carnac.core.compaction.plan.settings import (
    DEFAULT_TARGET_BYTES,
    MIB,
    AgeRule,
    CompactionSettings,
)
from carnac.core.locks.choice import PRIORITY_LIMIT
from carnac.core.tasks.context import parse_task_context
from carnac.core.time.granularity import NONE, check_granularities
from carnac.core.time.periods import Period, parse_period
from carnac.errors import Invalid
from carnac.specs.base import (
    SpecModel,
    Texts,
    as_problem,
    check_datasource,
    check_texts,
    named,
    problem,
    read_as,
)
from carnac.specs.druid.compaction import convert_compaction
from carnac.specs.druid.rows import compile_filter, write_filter
from carnac.specs.ingest.layout import (
    DEFAULT_ROWS_PER_SEGMENT,
    GranularityField,
    HashedPartitions,
    PartitionsField,
    RangePartitions,
)
from carnac.specs.ingest.schema import DimensionsSpec, MetricSpec
from carnac.specs.ingest.spec import IgnoredField
from carnac.specs.ingest.transforms import find_mistake, words_of
from carnac.specs.lines import with_lines
from carnac.specs.load import kind_of, parse_text
from carnac.specs.problems import Findings, validated

_SQL_WORDS = frozenset(
    """
    all and any array as asc between bigint binary boolean both by case cast char char_length current_date
    current_timestamp date day days decimal desc dec distinct div double else end escape exists extract false float for
    from hour hours ilike in int integer interval is leading like long map minute minutes mod month months not null
    numeric on or real regexp rlike second seconds short smallint some string struct substring symmetric text then
    timestamp timestamp_ltz timestamp_ntz tinyint to trailing trim true try_cast unknown varchar week weeks when with
    year years zone
    """.split()
)
"""Words of Spark SQL that stand bare in a condition and are no columns of most people."""


def columns_of(condition: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that a condition names, sorted; nothing for one that binds names of its own (`x -> x > 1`)."""
    if not isinstance(condition, str):
        return tuple(sorted(compile_filter(condition).inputs))
    if "->" in condition:
        return ()
    return tuple(sorted(name for name in words_of(condition) if name.lower() not in _SQL_WORDS))


DEFAULT_TASK_PRIORITY = 25
"""Druid's default priority of compaction tasks: ingestion goes first."""
_NOTHING = re.compile(r"P(0[YMWD])*(T(0[HMS])+)?")
"""A period of no time at all."""


_to_period = read_as(Period, parse_period, "write a period as text, like P1D or PT6H")


def _to_offset(value: object) -> Period | None:
    if value is None or (isinstance(value, str) and _NOTHING.fullmatch(value) and "0" in value):
        return None
    return _to_period(value)


PeriodField = Annotated[
    Period,
    PlainValidator(_to_period),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]
OffsetField = Annotated[
    Period | None,
    PlainValidator(_to_offset),
    PlainSerializer(lambda value: None if value is None else str(value)),
    WithJsonSchema({"type": "string"}),
]


class CompactionGranularity(SpecModel):
    """Time chunks and truncation of time. Parts that are left out stay as they are."""

    segment_granularity: GranularityField | None = Field(
        default=None,
        description="Length of a time chunk. Default: time chunks stay as they are.",
    )
    query_granularity: GranularityField | None = Field(
        default=None,
        description="Granularity to which finer `__time` is truncated; lossy. Times stay if their own granularity does "
        "not divide it, as weeks do not divide a month. Default: times stay.",
    )
    rollup: bool | None = Field(
        default=None,
        description="False: rows stay raw, whatever `metricsSpec` says. Else `metricsSpec` decides.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        as_problem(check_granularities, self.segment_granularity, self.query_granularity)
        return self


class CompactionTuning(SpecModel):
    """Sizes and order."""

    partitions: PartitionsField | None = named(
        "partitionsSpec partitions",
        f"How a time chunk is divided, and rows in a segment. Default: {DEFAULT_ROWS_PER_SEGMENT} rows.",
        default=None,
    )
    target_segment_size_bytes: int = Field(
        default=DEFAULT_TARGET_BYTES,
        ge=1,
        description="Bytes that a segment file aims at; with the rows, what is reached first counts. Carnac only.",
    )
    sort_by: Texts | None = Field(
        default=None,
        description="Columns that order the rows in a segment. Default: as most inputs are ordered. Carnac only.",
    )


def check_filter(value: object) -> None:
    """Check what of a filter shows before any column is seen.

    Raises:
        Invalid: It is neither a condition in Spark SQL nor one of Druid's filters.
    """
    if isinstance(value, str) and not value.strip():
        raise Invalid("a filter is a condition about a row, or left out")
    if value is not None and not isinstance(value, str | dict):
        raise Invalid(f"a filter is a condition in Spark SQL, or an object, not {value!r}")
    if isinstance(value, dict):
        compile_filter(value)
    mistake = find_mistake(value) if isinstance(value, str) else None
    if mistake is not None:
        raise Invalid(mistake)


class CompactionTransform(SpecModel):
    """Choice of the rows that are kept."""

    filter: str | dict[str, Any] | None = Field(
        default=None,
        description="Rows to keep: a Spark SQL condition as text, or one of Druid's filters as an object; lossy. It "
        "sees each row once, as it was before it was compacted so. Default: all rows stay.",
    )

    @field_validator("filter", mode="before")
    @classmethod
    def _check_filter(cls, value: object) -> object:
        as_problem(check_filter, value)
        return value

    def to_condition(self) -> str | None:
        """Return the condition as targets have it; None: all rows are kept."""
        return write_filter(self.filter) if isinstance(self.filter, dict) else self.filter


class CompactionShape(SpecModel):
    """The target of time chunks. A property that is left out stays as it is."""

    granularity: CompactionGranularity = named(
        "granularitySpec granularity",
        "Time chunks and truncation of time.",
        default_factory=CompactionGranularity,
    )
    dimensions: DimensionsSpec | None = named(
        "dimensionsSpec dimensions",
        "The dimensions that are kept, in order; lossy where one is left out. Default: all.",
        default=None,
    )
    metrics: tuple[MetricSpec, ...] = named(
        "metricsSpec metrics",
        "What raw rows are rolled up to; lossy. Default: raw rows stay raw.",
        default=(),
    )
    transform: CompactionTransform = named(
        "transformSpec transform", "Which rows are kept.", default_factory=CompactionTransform
    )
    tuning: CompactionTuning = named(
        "tuningConfig tuning", "Sizes and order.", default_factory=CompactionTuning
    )
    allow_lossy: bool = Field(
        default=False,
        description="Whether steps that cannot be undone are allowed. Carnac only.",
    )

    @property
    def rolls_up(self) -> bool:
        """Whether raw rows are rolled up."""
        return bool(self.metrics) and self.granularity.rollup is not False

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        query = self.granularity.query_granularity
        lossy = [
            name
            for name, there in (
                ("queryGranularity", query is not None and query != NONE),
                ("dimensionsSpec", self.dimensions is not None),
                ("metricsSpec", self.rolls_up),
                ("transformSpec.filter", self.transform.filter is not None),
            )
            if there
        ]
        if lossy and not self.allow_lossy:
            raise problem(f"{' and '.join(lossy)} may lose what cannot be had back; set allowLossy")
        filtered = [metric.name for metric in self.metrics if metric.filter is not None]
        if filtered:
            raise problem(
                f"metric {', '.join(filtered)} has a filter, which is for ingestion: compaction merges what is there"
            )
        as_problem(self.to_target)
        return self

    def to_target(self) -> CompactionTarget:
        """Return the target as the planner knows it."""
        granularity, tuning = self.granularity, self.tuning
        spec = tuning.partitions
        partitioning = Partitioning()
        if isinstance(spec, HashedPartitions):
            partitioning = Partitioning(
                kind="hashed", dimensions=spec.dimensions, buckets=spec.num_shards
            )
        elif isinstance(spec, RangePartitions):
            partitioning = Partitioning(kind="range", dimensions=spec.dimensions)
        segment, query = granularity.segment_granularity, granularity.query_granularity
        return CompactionTarget(
            target_rows=spec.rows_per_segment if spec else DEFAULT_TARGET_ROWS,
            target_bytes=tuning.target_segment_size_bytes,
            partitioning=partitioning,
            sort_by=tuning.sort_by,
            segment_granularity=None if segment is None else str(segment),
            query_granularity=None if query is None else str(query),
            dimensions=None if self.dimensions is None else self.dimensions.names,
            metrics=tuple(one.to_metric() for one in self.metrics) if self.rolls_up else None,
            filter=self.transform.to_condition(),
            allow_lossy=self.allow_lossy,
        )


class CompactionAgeRule(CompactionShape):
    """The target of time chunks that are older than a given age. It is complete: nothing is inherited."""

    older_than: PeriodField = Field(description="An ISO 8601 period, such as P7D.")


class CompactionSpec(CompactionShape):
    """How a datasource is to be compacted."""

    datasource: str = named(
        "dataSource datasource", "The datasource that it is about.", min_length=1, max_length=255
    )
    task_priority: int = Field(
        default=DEFAULT_TASK_PRIORITY,
        ge=-PRIORITY_LIMIT,
        description="Priority of its tasks' locks.",
    )
    input_segment_size_bytes: int = Field(
        default=100_000_000_000_000, ge=1, description="A time chunk with more bytes is left alone."
    )
    skip_offset_from_latest: OffsetField = Field(
        default=None,
        description="Time chunks that end later than this before the newest row are left alone, "
        "[or the parts of them](../concepts/compaction.md#what-is-too-new) that do. "
        "Default: none are (P1D in Druid).",
    )
    task_context: dict[str, Any] = Field(
        default_factory=dict, description="Context of its tasks: see tasks."
    )
    age_rules: tuple[CompactionAgeRule, ...] = Field(
        default=(),
        description="Youngest first: raw for a week, hourly for a month, daily after. Carnac only.",
    )
    priority: int = Field(
        default=0, description="Among datasources: the higher one goes first. Carnac only."
    )
    slack: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="Number of segments beyond what its size asks for that a stable time chunk may have. More means"
        " less writing. Carnac only.",
    )
    max_task_bytes: int = Field(
        default=4 * DEFAULT_TARGET_BYTES,
        ge=1,
        description="Tasks that cost more are split at borders of time chunks. Carnac only.",
    )
    small_task_bytes: int = Field(
        default=64 * MIB, ge=0, description="Tasks that cost less are put together. Carnac only."
    )
    max_write_amplification: float = Field(
        default=20.0,
        ge=1,
        allow_inf_nan=False,
        description="A time chunk is not folded while compaction has written so many times what arrived in it. "
        "Carnac only.",
    )
    ignored: tuple[IgnoredField, ...] = Field(
        default=(), description="Fields of Druid's configuration that have no effect here."
    )

    @field_validator("datasource")
    @classmethod
    def _check_name(cls, value: str) -> str:
        return check_datasource(value)

    @field_validator("task_context")
    @classmethod
    def _check_context(cls, value: dict[str, Any]) -> dict[str, Any]:
        as_problem(parse_task_context, "compact", value, is_append=False)
        return value

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        ages = [rule.older_than.nominal_ms for rule in self.age_rules]
        if ages != sorted(set(ages)):
            raise problem(
                "ageRules go from the youngest to the oldest, each older than the one before"
            )
        shapes: tuple[CompactionShape, ...] = (self, *self.age_rules)
        if len({one.granularity.segment_granularity is None for one in shapes}) > 1:
            raise problem("give all age rules and the rest a segmentGranularity, or none of them")
        return self

    def filter_columns(self) -> Mapping[str, tuple[str, ...]]:
        """Return the columns that conditions name, by condition, as far as that shows without Spark."""
        transforms = (self.transform, *(rule.transform for rule in self.age_rules))
        return {
            one.to_condition() or "": columns_of(one.filter)
            for one in transforms
            if one.filter is not None
        }

    def to_settings(self) -> CompactionSettings:
        """Return the settings as the planner knows them."""
        return CompactionSettings(
            target=self.to_target(),
            age_rules=tuple(
                AgeRule(older_than=rule.older_than, target=rule.to_target())
                for rule in self.age_rules
            ),
            skip_offset=self.skip_offset_from_latest,
            slack=self.slack,
            input_bytes_max=self.input_segment_size_bytes,
            task_cost_max=self.max_task_bytes,
            task_cost_small=self.small_task_bytes,
            write_amplification_max=self.max_write_amplification,
            priority=self.priority,
        )


def load_compaction(
    source: str | Mapping[str, object], *, name: str | None = None
) -> CompactionSpec:
    """Return how a datasource is to be compacted, from JSON or YAML text or a mapping.

    Args:
        name: Of the file that the text is from, for messages.

    Raises:
        Invalid: It is wrong; one sentence that names every problem with its place, in a text with its line.
    """
    if not isinstance(source, str):
        return _load(source)
    try:
        return _load(parse_text(source, what="compaction spec"), name)
    except Invalid as error:
        raise with_lines(error, source, name=name, root=CompactionSpec) from None


def _load(value: object, name: str | None = None) -> CompactionSpec:
    if not isinstance(value, Mapping):
        raise Invalid(f"a compaction spec is an object with fields, not {kind_of(value, name)}")
    check_texts(value, "the compaction spec")
    findings = Findings()
    return validated(CompactionSpec, convert_compaction(value, findings), findings)
