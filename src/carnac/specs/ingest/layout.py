"""How rows are laid out: time chunks, rollup, partitions inside a chunk, and the job's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from carnac.core.time.granularity import (
    DAY,
    NONE,
    Granularity,
    check_granularities,
    parse_granularity,
)
from carnac.specs.base import IntervalField, SpecModel, Texts, as_problem, named, problem

DEFAULT_ROWS_PER_SEGMENT = 5_000_000
"""Druid's default target of rows in a segment."""


def _to_granularity(value: object) -> Granularity:
    if isinstance(value, Granularity):
        return value
    if not isinstance(value, str | Mapping):
        raise problem("write a granularity as a name (day), a period (P1D) or an object")
    return as_problem(parse_granularity, value)


GranularityField = Annotated[
    Granularity,
    PlainValidator(_to_granularity),
    PlainSerializer(lambda value: value.to_json(), return_type=str | dict[str, str]),
    WithJsonSchema({"type": ["string", "object"], "format": "granularity"}),
]
"""A simple name, an ISO 8601 period as text, or an object of type `period` or `duration`."""


class GranularitySpec(SpecModel):
    """Time chunks, truncation of time, and rollup."""

    segment_granularity: GranularityField = Field(
        default=DAY,
        description=(
            "Length of a time chunk: a name (`hour`, `day`, `month`), a period (`P1D`), or "
            '`{"type": "period", "period": "P1D", "timeZone": "Europe/Paris"}`.'
        ),
    )
    query_granularity: GranularityField = Field(
        default=NONE,
        description=(
            "Granularity to which `__time` is truncated (never before its time chunk); `none` keeps it whole. Not "
            "coarser than the time chunks; `all` means as coarse as they are."
        ),
    )
    rollup: bool | None = Field(
        default=None,
        description=(
            "Whether rows with equal time and dimensions become one. Default: true if there are "
            "metrics, else false; in Druid's own specs true, as Druid has it."
        ),
    )
    intervals: tuple[IntervalField, ...] = Field(
        default=(),
        description=(
            "Only rows in these intervals are taken; the others are counted as thrown away. In "
            "mode `replace` also what is replaced, see `replaceScope`."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _nulls_are_defaults(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        block = {k: v for k, v in value.items() if v is not None}
        if isinstance(block.get("intervals"), str):
            block["intervals"] = [block["intervals"]]
        return block

    @model_validator(mode="after")
    def _check(self) -> Self:
        as_problem(check_granularities, self.segment_granularity, self.query_granularity)
        return self


class DynamicPartitions(SpecModel):
    """Segments are cut by number of rows, in the order in which rows come."""

    type: Literal["dynamic"] = Field(default="dynamic", description="`dynamic`.")
    max_rows_per_segment: int = Field(
        default=DEFAULT_ROWS_PER_SEGMENT, ge=1, description="Maximum number of rows in a segment."
    )
    max_total_rows: int | None = Field(
        default=None,
        ge=1,
        description="Druid's limit of rows held back before publishing; carried, without effect.",
    )

    @property
    def rows_per_segment(self) -> int:
        """Rows that a segment aims at."""
        return self.max_rows_per_segment


class HashedPartitions(SpecModel):
    """Rows of a chunk are spread by a hash of dimensions."""

    type: Literal["hashed"] = Field(default="hashed", description="`hashed`.")
    num_shards: int | None = Field(
        default=None, ge=1, description="Segments per chunk; not together with a target of rows."
    )
    target_rows_per_segment: int | None = Field(
        default=None,
        ge=1,
        description=f"Rows a segment aims at. Default: {DEFAULT_ROWS_PER_SEGMENT}.",
    )
    dimensions: Texts = named(
        "partitionDimensions dimensions", "Dimensions to hash. Default: all of them.", default=()
    )
    partition_function: Literal["murmur3_32_abs"] = Field(
        default="murmur3_32_abs", description="The hash; there is only this one."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.num_shards is not None and self.target_rows_per_segment is not None:
            raise problem("give numShards or targetRowsPerSegment, not both")
        return self

    @property
    def rows_per_segment(self) -> int:
        """Rows that a segment aims at, when `num_shards` is None."""
        return self.target_rows_per_segment or DEFAULT_ROWS_PER_SEGMENT


def target_of(most_rows: int) -> int:
    """Return how many rows a range aims at that may have so many: two thirds (Druid: the most is 1.5 targets)."""
    return max(1, most_rows * 2 // 3)


class RangePartitions(SpecModel):
    """Rows of a chunk are cut into ranges of dimension values."""

    type: Literal["range"] = Field(
        default="range", description="`range`; Druid's `single_dim` is read as this."
    )
    dimensions: Texts = named(
        "partitionDimensions partitionDimension dimensions",
        "Dimensions whose values order the rows, most important first.",
        min_length=1,
    )
    target_rows_per_segment: int | None = Field(
        default=None,
        ge=1,
        description=f"Rows a segment aims at. Default: {DEFAULT_ROWS_PER_SEGMENT}.",
    )
    max_rows_per_segment: int | None = Field(
        default=None,
        ge=1,
        description=(
            "Maximum number of rows in a segment, unless they all have one value. Given instead of the target, "
            "which is then two thirds of it. With a target, it is one and a half times the target."
        ),
    )
    assume_grouped: bool = Field(
        default=False,
        description="Druid's promise that the input is grouped already; carried, without effect.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.target_rows_per_segment is not None and self.max_rows_per_segment is not None:
            raise problem("give targetRowsPerSegment or maxRowsPerSegment, not both")
        return self

    @property
    def rows_per_segment(self) -> int:
        """Rows that a segment aims at."""
        if self.max_rows_per_segment is not None:
            return target_of(self.max_rows_per_segment)
        return self.target_rows_per_segment or DEFAULT_ROWS_PER_SEGMENT

    @property
    def most_rows_per_segment(self) -> int:
        """Rows that a segment has at most, if they have more than one value."""
        return self.max_rows_per_segment or self.rows_per_segment * 3 // 2


def _partitions_block(value: object) -> object:
    if isinstance(value, str):
        return {"type": value}
    if not isinstance(value, dict):
        return value
    block = {k: v for k, v in value.items() if v is not None}
    if block.get("type") == "single_dim":
        block["type"] = "range"
    return block


PartitionsSpec = Annotated[
    DynamicPartitions | HashedPartitions | RangePartitions,
    Field(discriminator="type"),
]
"""How the rows of a time chunk are divided into segments."""

PartitionsField = Annotated[PartitionsSpec, BeforeValidator(_partitions_block)]


class TuningSpec(SpecModel):
    """Limits of the job, and the size of what it writes."""

    force_guaranteed_rollup: bool = Field(
        default=False,
        description=(
            "Perfect rollup: all rows of the job with equal time and dimensions become one. "
            "Else best effort. Hashed and range partitions always roll up perfectly."
        ),
    )
    max_parse_exceptions: int | None = Field(
        default=None,
        ge=0,
        description=(
            "Bad rows that are put up with (they go to quarantine); one more fails the job, and "
            "nothing is published. Default: any number."
        ),
    )
    log_parse_exceptions: bool = Field(default=False, description="Log every bad row.")
    max_saved_parse_exceptions: int = Field(
        default=10, ge=0, description="Bad rows that the report shows as examples."
    )
    target_segment_size_bytes: int | None = Field(
        default=None,
        ge=1,
        description=(
            "Bytes that a segment file aims at; with a limit of rows, what is reached first "
            "counts. Default: rows alone decide. Carnac only."
        ),
    )
    sort_by: Texts = Field(
        default=(),
        description=(
            "Columns that order the rows in a segment. Default: `__time`, then the dimensions."
        ),
    )

    allow_type_change: bool = Field(
        default=False,
        description=(
            "A column may change its type so that queries which compute with it break (a long "
            "that becomes a string). Else such a load is refused. Carnac only."
        ),
    )
    allow_missing: bool = Field(
        default=False,
        description=(
            "A declared dimension or input of a metric that no row has is null in all of them; the "
            "report names it. Else such a load is refused. `context.allowMissing` does the same. "
            "Carnac only."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _unlimited(cls, value: object) -> object:
        """Read Druid's -1 and 2^31 - 1 as "any number"."""
        if not isinstance(value, dict):
            return value
        keys = ("maxParseExceptions", "max_parse_exceptions")
        return {k: v for k, v in value.items() if not (k in keys and v in (-1, 2_147_483_647))}
