"""Where the rows come from (source) and how their bytes are to be read (format).

One of four sources: files (paths, globs, directories, URLs), inline text, a SELECT statement over datasources,
files and inline text, or a frame that the caller hands over in memory. Compression is read off the file name, never
declared.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from carnac.core.redaction import hide_passwords, show_url
from carnac.specs.base import SpecModel, Texts, named, problem
from carnac.specs.ingest.json_paths import parse_path

COMPRESSION_BY_SUFFIX: dict[str, str] = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
}
"""The compressions that are undone while reading; anything else is read as it is."""

FORMAT_BY_SUFFIX: dict[str, str] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".orc": "orc",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""The format that a file name says, under its compression suffix."""

UNSUPPORTED_COMPRESSIONS = (".bz2", ".xz", ".zip", ".sz", ".snappy", ".lz4")


class FlattenField(SpecModel):
    """One column taken from somewhere in a nested record."""

    type: Literal["root", "path"] = Field(
        default="path",
        description="`root` takes a field of the top level as it is; `path` follows a JSONPath.",
    )
    name: str = Field(min_length=1, description="Name of the column this makes.")
    expr: str | None = Field(
        default=None,
        description=(
            "JSONPath of the value (`$.user.id`, `$.tags[0]`, `$.tags[-1]`, `$['a b']`), or of several: "
            "`$.items[*].id` is an array of what every item has there, without nulls; null if there is none. For "
            "`root`, the name of the field when it is not `name`."
        ),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type == "path":
            parse_path(self.expr or "", self.name)
        return self


def _flatten_field(value: object) -> object:
    return {"type": "root", "name": value} if isinstance(value, str) else value


class FlattenSpec(SpecModel):
    """How nested records become flat rows."""

    use_field_discovery: bool = Field(
        default=True,
        description=(
            "Keep the fields of the top level beside those listed; false keeps only those listed."
        ),
    )
    fields: tuple[Annotated[FlattenField, BeforeValidator(_flatten_field)], ...] = Field(
        default=(),
        description="Columns to take from nested values; a plain name means the root field.",
    )


class JsonFormat(SpecModel):
    """JSON lines: one object a line. Of a field that a line names twice, the first counts (in Druid, the last)."""

    type: Literal["json"] = Field(default="json", description="`json`; also read as `jsonl`.")
    flatten: FlattenSpec | None = named(
        "flattenSpec flatten",
        "How nested records become flat rows. Without it, nested values stay whole.",
        default=None,
    )


class DelimitedFormat(SpecModel):
    """The common fields of CSV and TSV."""

    columns: tuple[str, ...] = Field(
        default=(),
        description="Names of the columns in order, when the file has no header line.",
    )
    header: bool = named(
        "findColumnsFromHeader header",
        "Whether the first line (after `skipHeaderRows`) names the columns; `columns` is then "
        "ignored. Default: true if `columns` is not given, else false.",
        default=False,
    )
    skip_header_rows: int = Field(
        default=0, ge=0, description="Lines to skip at the start of every file."
    )
    list_delimiter: str = Field(
        default="\x01",
        min_length=1,
        description="Character between the values of a multi-value column. Default: Ctrl-A.",
    )
    null_values: tuple[str, ...] = Field(
        default=(),
        description=(
            "Texts that stand for null, besides the empty unquoted field, which always does "
            "(a quoted empty field is the empty string). Carnac only."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _default_header(cls, value: object) -> object:
        if not isinstance(value, dict) or value.get("columns"):
            return value
        if value.get("findColumnsFromHeader") is None and value.get("header") is None:
            rest = {k: v for k, v in value.items() if k not in ("findColumnsFromHeader", "header")}
            return {**rest, "header": True}
        return value

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if not self.header and not self.columns:
            raise problem("give columns, or set findColumnsFromHeader to true")
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise problem(f"columns names {', '.join(repeated)} more than once")
        return self


class CsvFormat(DelimitedFormat):
    """Comma-separated values, quoted as RFC 4180 says."""

    type: Literal["csv"] = Field(default="csv", description="`csv`.")
    delimiter: str = Field(
        default=",", min_length=1, max_length=1, description="Character between two fields."
    )


class TsvFormat(DelimitedFormat):
    """Tab-separated values, or another delimiter."""

    type: Literal["tsv"] = Field(default="tsv", description="`tsv`; also read as `delimited`.")
    delimiter: str = Field(
        default="\t", min_length=1, max_length=1, description="Character between two fields."
    )


class ColumnarFormat(SpecModel):
    """Files of typed columns."""

    flatten: FlattenSpec | None = named(
        "flattenSpec flatten", "How nested columns become flat ones.", default=None
    )
    binary_as_string: bool = Field(
        default=False, description="Read byte columns without a text annotation as UTF-8 text."
    )


class ParquetFormat(ColumnarFormat):
    """Parquet files."""

    type: Literal["parquet"] = Field(default="parquet", description="`parquet`.")


class OrcFormat(ColumnarFormat):
    """ORC files."""

    type: Literal["orc"] = Field(default="orc", description="`orc`.")


class ArrowFormat(ColumnarFormat):
    """Files and streams of Arrow (IPC), and Feather of version 2; their buffers may be compressed."""

    type: Literal["arrow"] = Field(
        default="arrow", description="`arrow`; also read as `feather` or `ipc`. Carnac only."
    )


FORMAT_SYNONYMS = {
    "jsonl": "json",
    "ndjson": "json",
    "delimited": "tsv",
    "feather": "arrow",
    "ipc": "arrow",
}


def _format_block(value: object) -> object:
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        kind = value["type"].lower()
        return {**value, "type": FORMAT_SYNONYMS.get(kind, kind)}
    return value


InputFormat = Annotated[
    JsonFormat | CsvFormat | TsvFormat | ParquetFormat | OrcFormat | ArrowFormat,
    Field(discriminator="type"),
]
"""How the bytes are to be read."""

InputFormatField = Annotated[InputFormat | None, BeforeValidator(_format_block)]


class FilesInput(SpecModel):
    """Rows in files."""

    type: Literal["files"] = Field(default="files", description="`files`; may be left out.")
    paths: Texts = Field(
        min_length=1,
        description=(
            "Files, globs, directories (read recursively) or URLs (`file://`, `s3://`); relative "
            "paths start at the working directory. Globs and directories pass over what starts "
            "with `.` or `_`, unless the path names it. One text or a list."
        ),
    )
    filter: str | None = Field(
        default=None,
        description=(
            "Glob that the name of a file found in a directory must match, such as `*.json.gz`. "
            "Default: every file whose name does not start with `.` or `_`."
        ),
    )
    within: Texts | None = Field(
        default=None,
        description="Folders and URLs (`s3://bucket/folder`) outside of which nothing is read, wherever globs, `..` "
        "and links lead. Default: no limit. An overlord sets it for tasks that come over HTTP.",
    )
    format: InputFormatField = named(
        "inputFormat format",
        "How to read the files. Default: as their names say (`.jsonl`, `.csv.gz`).",
        default=None,
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for path in self.paths:
            if hide_passwords(path) != path:
                raise problem(
                    f"'{show_url(path)}' holds a password, which would be kept with the spec; set keys where the "
                    "library of the object store looks for them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                )
        return self


class InlineInput(SpecModel):
    """Rows written into the spec."""

    type: Literal["inline"] = Field(default="inline", description="`inline`; may be left out.")
    data: str = Field(description="The text of the rows, as a file of that format would hold it.")
    format: Annotated[InputFormat, BeforeValidator(_format_block)] = named(
        "inputFormat format",
        "How to read the text: `json`, `csv` or `tsv`. Default: `json`.",
        default_factory=JsonFormat,
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.format, ColumnarFormat):
            raise problem(f"inline data cannot be {self.format.type}; use json, csv or tsv")
        return self


class FrameInput(SpecModel):
    """Rows that the caller hands over in memory, next to the spec."""

    type: Literal["frame"] = Field(default="frame", description="`frame`; may be left out.")
    frame: Literal["dataframe", "arrow", "pandas", "polars"] = Field(
        description="Kind of the rows that are handed over: a Spark `dataframe`, `arrow` table, `pandas`, `polars`."
    )


class QueryInput(SpecModel):
    """Rows that a SELECT statement gives, which Spark runs over one revision."""

    type: Literal["query"] = Field(default="query", description="`query`; may be left out.")
    query: str = Field(
        min_length=1,
        description=(
            "The statement. It may name datasources, lookups, and files or inline text by Druid's "
            "`TABLE(EXTERN('source', 'format')) EXTEND (name TYPE, …)`. Its columns become those of the datasource."
        ),
    )
    within: Texts | None = Field(
        default=None,
        description="Folders and URLs outside of which no file of the statement is read, as of files.",
    )


def _source_tag(value: object) -> str | None:
    """Name the kind of source a block is, from `type` or from the field that only one kind has."""
    if isinstance(value, FilesInput | InlineInput | QueryInput | FrameInput):
        return value.type
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if isinstance(kind, str):
        return kind
    keys = {"inline": "data", "frame": "frame", "query": "query"}
    return next((tag for tag, key in keys.items() if key in value), "files")


def _source_block(value: object) -> object:
    if isinstance(value, str | list | tuple):
        return {"type": "files", "paths": value}
    return value


InputSource = Annotated[
    Annotated[FilesInput, Tag("files")]
    | Annotated[InlineInput, Tag("inline")]
    | Annotated[QueryInput, Tag("query")]
    | Annotated[FrameInput, Tag("frame")],
    Discriminator(_source_tag),
    BeforeValidator(_source_block),
]
"""Where the rows come from. A text or a list of texts means the paths of files."""


def infer_compression(name: str) -> Literal["gzip", "zstd"] | None:
    """Return the compression that the file name says; None means plain bytes."""
    lower = name.lower()
    for suffix, compression in COMPRESSION_BY_SUFFIX.items():
        if lower.endswith(suffix):
            return "gzip" if compression == "gzip" else "zstd"
    return None


def infer_format(name: str) -> InputFormat | None:
    """Return the format that the file name says, with its defaults; None if it says none."""
    lower = name.lower()
    for suffix in COMPRESSION_BY_SUFFIX:
        lower = lower.removesuffix(suffix)
    kind = next((f for suffix, f in FORMAT_BY_SUFFIX.items() if lower.endswith(suffix)), None)
    if kind is None:
        return None
    formats: dict[str, type[InputFormat]] = {
        "json": JsonFormat,
        "csv": CsvFormat,
        "tsv": TsvFormat,
        "parquet": ParquetFormat,
        "orc": OrcFormat,
        "arrow": ArrowFormat,
    }
    return formats[kind].model_validate({"type": kind})
