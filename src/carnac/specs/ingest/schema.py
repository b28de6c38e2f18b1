"""The schema of rows: the timestamp, the dimensions and the metrics.

Names and defaults are Druid's. A column's type is one of `COLUMN_TYPES`; a metric's Druid type
(`longSum`) says both its kind (`sum`) and the type of its value (`long`), which the pipeline reads
as `metric.kind` and `metric.value_type`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic.alias_generators import to_camel

from carnac.core.druid.joda import to_strptime
from carnac.core.segments import segment as segments
from carnac.core.time.zones import canonical_zone
from carnac.specs.base import TIME_COLUMN, InstantText, SpecModel, as_problem, named, problem

ColumnType = Literal[
    "string",
    "long",
    "float",
    "double",
    "boolean",
    "json",
    "array<string>",
    "array<long>",
    "array<double>",
    "auto",
]
"""Types of dimensions. `auto`: the type that the data shows (integers are long, booleans long 0/1)."""

TYPE_SYNONYMS: dict[str, str] = {
    "complex<json>": "json",
    "array<float>": "array<double>",
    "bigint": "long",
    "integer": "long",
    "int": "long",
    "varchar": "string",
    "bool": "boolean",
}
"""Other spellings of the types, lower case."""

TIMESTAMP_FORMATS = ("auto", "iso", "posix", "millis", "micro", "nano", "ruby")
"""The named formats of `timestampSpec`; any other text is a pattern of letters."""

TIMESTAMP_FORMAT_SYNONYMS = {
    "micros": "micro",
    "microseconds": "micro",
    "nanos": "nano",
    "nanoseconds": "nano",
    "milliseconds": "millis",
    "seconds": "posix",
    "unix": "posix",
}


def _time_zone(value: object) -> str:
    return as_problem(canonical_zone, str(value))


def _timestamp_format(value: object) -> object:
    if not isinstance(value, str):
        return value
    lower = value.strip().lower()
    named = TIMESTAMP_FORMAT_SYNONYMS.get(lower, lower)
    return named if named in TIMESTAMP_FORMATS else value


class TimestampSpec(SpecModel):
    """The column that holds a row's time, and how to read it."""

    column: str = Field(
        default="timestamp",
        min_length=1,
        description="Input field to read the time from; it is stored as `__time`.",
    )
    format: Annotated[str, BeforeValidator(_timestamp_format)] = Field(
        default="auto",
        min_length=1,
        description=(
            "`auto` (ISO 8601 with `T` or a space, or milliseconds), `iso`, `posix` (seconds), "
            "`millis`, `micro`, `nano`, `ruby` (seconds with a fraction), or a pattern of "
            "letters such as `yyyy-MM-dd HH:mm:ss` (Joda's letters)."
        ),
    )
    time_zone: Annotated[str, BeforeValidator(_time_zone)] = named(
        "timeZone timezone time_zone",
        "Zone of times that name none (`Europe/Paris`, `+02:00`). Carnac only.",
        default="UTC",
    )
    missing_value: InstantText | None = Field(
        default=None,
        description="ISO 8601 time of rows that have none. Default: such a row is a bad row.",
    )

    @model_validator(mode="after")
    def _check_pattern(self) -> Self:
        if self.format not in TIMESTAMP_FORMATS:
            as_problem(to_strptime, self.format)
        return self


def normalise_type(value: object) -> object:
    """Return the word of `ColumnType` that a spelling means (`STRING`, `ARRAY<LONG>`, `BIGINT`)."""
    if not isinstance(value, str):
        return value
    lower = value.strip().lower().replace(" ", "")
    return TYPE_SYNONYMS.get(lower, lower)


class DimensionSpec(SpecModel):
    """One dimension: a column that is kept as it is."""

    name: str = Field(
        min_length=1, description="Name of the input field (or transform), and of the column."
    )
    type: Annotated[ColumnType, BeforeValidator(normalise_type)] = Field(
        default="string",
        description=(
            "`string` (one value or several), `long`, `float`, `double`, `boolean`, `json`, "
            "`array<string>`, `array<long>`, `array<double>`, or `auto` (what the data shows; "
            "booleans are then long 0 and 1, as in Druid)."
        ),
    )
    multi_value_handling: Literal["sorted_array", "sorted_set", "array"] = Field(
        default="sorted_array",
        description=(
            "Handling of several values of a `string` dimension: sort them, sort them and drop repeats, or keep "
            "their order."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _plain_forms(cls, value: object) -> object:
        """Take a plain name, any case of `multiValueHandling`, and `auto` with `castToType`."""
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping):
            return value
        block = dict(value)
        for key in ("multiValueHandling", "multi_value_handling"):
            if isinstance(block.get(key), str):
                block[key] = block[key].lower()
        cast = block.pop("castToType", None)
        if cast is not None and str(block.get("type", "")).lower() == "auto":
            block["type"] = cast
        elif cast is not None:
            raise problem("castToType goes with type auto; write the type itself instead")
        return block

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.name == TIME_COLUMN:
            raise problem(f"'{TIME_COLUMN}' is the timestamp; set it with timestampSpec")
        return self


class DimensionsSpec(SpecModel):
    """Fields that become dimensions."""

    dimensions: tuple[DimensionSpec, ...] = Field(
        default=(),
        description=(
            "Names or objects, in the order in which rows are sorted after `__time`. When empty, "
            "every field that is not the timestamp or a metric's input becomes a dimension."
        ),
    )
    exclusions: tuple[str, ...] = named(
        "dimensionExclusions exclusions", "Fields that discovery leaves out.", default=()
    )
    use_schema_discovery: bool = Field(
        default=False,
        description="Give discovered dimensions the type that the data shows, not `string`.",
    )
    include_all_dimensions: bool = Field(
        default=False,
        description="Discover further dimensions beside those listed; they come after them.",
    )
    keep_booleans: bool = Field(
        default=False,
        description="Give discovered dimensions that hold booleans alone the type `boolean`, not `long` as in Druid. "
        "A spec that is made of the rows of a load has it.",
    )

    @model_validator(mode="before")
    @classmethod
    def _plain_list(cls, value: object) -> object:
        return {"dimensions": value} if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [dimension.name for dimension in self.dimensions]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise problem(f"dimension {', '.join(repeated)} is listed more than once")
        both = sorted(set(names) & set(self.exclusions))
        if both:
            raise problem(f"{', '.join(both)} is both in dimensions and in dimensionExclusions")
        return self

    @property
    def discovers(self) -> bool:
        """Whether fields that are not listed become dimensions too."""
        return not self.dimensions or self.include_all_dimensions or self.use_schema_discovery

    @property
    def needs_data(self) -> bool:
        """Whether names or types of dimensions depend on the data."""
        return self.discovers or any(one.type == "auto" for one in self.dimensions)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the listed dimensions, in order."""
        return tuple(dimension.name for dimension in self.dimensions)


MetricKind = Literal["count", "sum", "min", "max", "first", "last", "hll", "theta", "quantiles"]
"""How states of a metric merge."""

ValueType = Literal["long", "float", "double", "string", "hll", "theta", "quantiles"]
"""The type of a metric's column; the last three are Apache DataSketches bytes."""


class MetricMeaning(NamedTuple):
    """The meaning of a Druid aggregator type."""

    kind: MetricKind
    value_type: ValueType
    parameters: tuple[str, ...] = ()


def _numeric_meanings() -> dict[str, MetricMeaning]:
    kinds: tuple[tuple[str, MetricKind], ...] = (
        ("Sum", "sum"),
        ("Min", "min"),
        ("Max", "max"),
        ("First", "first"),
        ("Last", "last"),
    )
    types: tuple[ValueType, ...] = ("long", "double", "float")
    return {
        f"{value_type}{suffix}": MetricMeaning(
            kind, value_type, ("time_column",) if kind in ("first", "last") else ()
        )
        for suffix, kind in kinds
        for value_type in types
    }


MEANING_BY_TYPE: dict[str, MetricMeaning] = {
    "count": MetricMeaning("count", "long"),
    **_numeric_meanings(),
    "stringFirst": MetricMeaning("first", "string", ("time_column", "max_string_bytes")),
    "stringLast": MetricMeaning("last", "string", ("time_column", "max_string_bytes")),
    "HLLSketchBuild": MetricMeaning("hll", "hll", ("lg_k",)),
    "HLLSketchMerge": MetricMeaning("hll", "hll", ("lg_k",)),
    "thetaSketch": MetricMeaning("theta", "theta", ("size", "is_input_theta_sketch")),
    "quantilesDoublesSketch": MetricMeaning("quantiles", "quantiles", ("k",)),
    "quantilesDoublesSketchMerge": MetricMeaning("quantiles", "quantiles", ("k",)),
}
"""Kind, value type and parameters of every aggregator that can be used while ingesting."""

if TYPE_CHECKING:
    MetricType = str
else:
    MetricType = Literal[tuple(MEANING_BY_TYPE)]


class MetricSpec(SpecModel):
    """One metric: a column that rollup aggregates.

    Without rollup each row holds the metric of itself alone (`count` is 1, a sum is the value).
    """

    name: str = Field(min_length=1, description="Name of the column.")
    type: MetricType = Field(
        description=(
            "`count`; `longSum`, `doubleSum`, `floatSum` and the same with `Min`, `Max`, `First`, "
            "`Last`; `stringFirst`, `stringLast`; `HLLSketchBuild` (of values), `HLLSketchMerge` "
            "(of sketches); `thetaSketch`; `quantilesDoublesSketch`, `quantilesDoublesSketchMerge`."
        )
    )
    input: str | None = named(
        "fieldName input",
        "Input field (or transform) to aggregate; `count` has none. Default: `name`.",
        default=None,
    )
    filter: str | dict[str, Any] | None = Field(
        default=None,
        description=(
            "Rows that the metric is for; the others give it nothing (a count of none is 0, all else null). A Spark "
            "SQL condition as text, or one of Druid's filters as an object; it sees the transforms. It is applied "
            "when rows are ingested: compaction merges what is there."
        ),
    )
    lg_k: int = Field(
        default=12, ge=4, le=21, description="HLL: base-2 logarithm of the number of buckets."
    )
    size: int = Field(
        default=16384,
        ge=16,
        le=67108864,
        description="Theta: most entries kept, a power of two; larger is more exact.",
    )
    is_input_theta_sketch: bool = Field(
        default=False, description="Theta: the input holds sketches, not values."
    )
    k: int = Field(
        default=128,
        ge=2,
        le=32768,
        description="Quantiles: size of the sketch, a power of two; larger is more exact.",
    )
    time_column: str | None = Field(
        default=None,
        description="First and last: field that orders the rows. Default: `__time`.",
    )
    max_string_bytes: int = Field(
        default=1024, ge=1, description="stringFirst, stringLast: longer texts are cut to this."
    )

    @model_validator(mode="before")
    @classmethod
    def _default_input(cls, value: object) -> object:
        if not isinstance(value, Mapping) or value.get("type") == "count":
            return value
        if value.get("fieldName") is None and value.get("input") is None and "name" in value:
            rest = {k: v for k, v in value.items() if k not in ("fieldName", "input")}
            return {**rest, "fieldName": value["name"]}
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.name == TIME_COLUMN:
            raise problem(f"a metric cannot be named '{TIME_COLUMN}'; that is the timestamp")
        if self.type == "count" and self.input is not None:
            raise problem(f"metric '{self.name}' of type count takes no fieldName; it counts rows")
        meaning = MEANING_BY_TYPE[self.type]
        given = (
            self.model_fields_set - {"name", "type", "input", "filter"} - set(meaning.parameters)
        )
        if given:
            raise problem(
                f"metric '{self.name}' of type {self.type} takes no {to_camel(min(given))}"
            )
        for field, value in (("size", self.size), ("k", self.k)):
            if field in meaning.parameters and value & (value - 1):
                raise problem(
                    f"{field} of metric '{self.name}' must be a power of two, not {value}"
                )
        return self

    @property
    def kind(self) -> MetricKind:
        """How states of this metric merge."""
        return MEANING_BY_TYPE[self.type].kind

    @property
    def value_type(self) -> ValueType:
        """The type of the column's values."""
        return MEANING_BY_TYPE[self.type].value_type

    @property
    def input_is_state(self) -> bool:
        """Whether the input field holds sketches already, which are merged and not built."""
        return self.type.endswith("SketchMerge") or (
            self.type == "thetaSketch" and self.is_input_theta_sketch
        )

    def to_metric(self) -> segments.Metric:
        """Return the metric as segments record it."""
        params: dict[str, int] = {}
        match self.kind:
            case "hll":
                params = {"lg_k": self.lg_k}
            case "theta":
                params = {"lg_k": self.size.bit_length() - 1}
            case "quantiles":
                params = {"k": self.k}
            case "first" | "last" if self.value_type == "string":
                params = {"max_bytes": self.max_string_bytes}
            case _:
                pass
        return segments.Metric(
            name=self.name,
            kind=segments.MetricKind(self.kind),
            input=self.input,
            type=segments.ColumnType(self.value_type),
            params=tuple(sorted(params.items())),
            is_state=self.input_is_state,
        )
