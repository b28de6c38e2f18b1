"""The spec of a load: the spec that somebody gives, that the datasource declares, or that the data shows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid
from carnac.specs.base import NO_INPUT
from carnac.store.writing import declarations

if TYPE_CHECKING:
    from carnac.core.log.positions import OffsetRange
    from carnac.metadata.store import MetadataStore
    from carnac.rows.infer.sampling import Inferred
    from carnac.specs.ingest.inference import TimeHints
    from carnac.specs.ingest.spec import IngestSpec

SPARK_ROWS = 10_000
"""Number of rows sampled of a Spark DataFrame that no spec describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A load, ready to run.

    Attributes:
        rows: Rows in memory; None where the spec names files.
        inferred: Spec that was inferred from the data; None: the spec was given or declared.
        is_remembered: Whether the spec is that of an earlier load.
        offsets: Part of a source that the rows are; None: unknown.
    """

    spec: IngestSpec
    rows: object | None
    inferred: Inferred | None = None
    is_remembered: bool = False
    offsets: OffsetRange | None = None


def plan_load(
    metadata: MetadataStore,
    datasource: str,
    rows: object,
    *,
    spec: IngestSpec | Mapping[str, object] | str | None = None,
    time: str | Mapping[str, object] | None = None,
    writer: str | None = None,
    batch: str | None = None,
) -> LoadPlan:
    """Return the plan of a load.

    Args:
        rows: Rows in memory, or the path of a file, or a list of paths; or the `pyarrow.Schema` of rows that are
            elsewhere.
        spec: Spec of the load; None: the one that the datasource declares, else one inferred from the data.
        time: Hint for the inference: the column of the time, or a `timestampSpec` of which fields may be left out.

    Raises:
        Ambiguous: The data shows too little: a person must choose.
        Invalid: Spec, time and rows do not go together.
    """
    from carnac.specs.load import load_again, with_input

    paths, inferred = _paths(rows), None
    if spec is not None:
        found = load_again(spec, has_rows=True, datasource=datasource)
        kept: object = None if paths is None else found.input.to_json_dict()
    else:
        block = declarations.find(metadata, datasource)
        if block is None:
            inferred, rows = _infer(datasource, rows, paths, _hints(time))
            block = inferred.block
        found, kept = load_again({**block, "input": NO_INPUT}), block.get("input")
    if inferred is None and time is not None:
        _require_same(time, found, datasource if spec is None else "the spec")
    if found.datasource != datasource:
        raise Invalid(
            f"the spec is for datasource {found.datasource}, and the rows are for {datasource}",
            datasource=datasource,
        )
    source: object = NO_INPUT
    if paths is not None:
        source = {"paths": paths, **_format_of(kept, paths)}
    return LoadPlan(
        spec=with_input(found, source, writer=writer, batch=batch),
        rows=None if paths is not None else _tabular(rows, found),
        inferred=inferred,
        is_remembered=spec is None and inferred is None,
    )


def _tabular(rows: object, spec: IngestSpec) -> object:
    """Return rows, of which a list without any is a table with the column of the time: a loop may have none."""
    if not isinstance(rows, list | tuple) or rows:
        return rows
    import pyarrow as pa

    return pa.table({spec.timestamp.column: pa.array([], pa.string())})


def plan_append(metadata: MetadataStore, datasource: str, rows: object, **more: Any) -> LoadPlan:
    """Return what an append is to do; see `plan_load`."""
    plan = plan_load(metadata, datasource, rows, **more)
    if plan.spec.mode != "append":
        raise Invalid("append adds rows; to replace what is there, use ingest")
    return plan


def plan_ingest(
    metadata: MetadataStore,
    spec: IngestSpec | Mapping[str, object] | str,
    rows: object | None,
    *,
    time: str | Mapping[str, object] | None,
) -> LoadPlan:
    """Return what an ingestion is to do; beside rows, a text that is no spec is the name of a datasource."""
    from carnac.specs.load import is_spec_text, load_spec

    if isinstance(spec, str) and rows is not None and not is_spec_text(spec):
        return plan_load(metadata, spec, rows, time=time)
    if time is not None:
        raise Invalid("the spec says the time; leave time out")
    found = load_spec(spec, has_rows=rows is not None)
    return LoadPlan(spec=found, rows=_tabular(rows, found))


def _infer(
    datasource: str, rows: object, paths: list[str] | None, hints: TimeHints
) -> tuple[Inferred, object]:
    import pyarrow as pa

    from carnac.ports.temporary import own_folder
    from carnac.rows.infer.sampling import infer_from_files, infer_from_table
    from carnac.rows.infer.schema import infer_from_schema
    from carnac.rows.read.tables import arrow_table

    with TemporaryDirectory(dir=own_folder("samples")) as folder:
        scratch_dir = f"{folder}/scratch"
        if paths is not None:
            return infer_from_files(datasource, paths, hints, scratch_dir), rows
        if isinstance(rows, pa.Schema):
            return infer_from_schema(datasource, rows, hints, scratch_dir), rows
        if type(rows).__module__.startswith("pyspark."):
            sample = _sample(rows)
            return infer_from_table(datasource, arrow_table(sample), hints, scratch_dir), rows
        table = arrow_table(rows)
        return infer_from_table(datasource, table, hints, scratch_dir), table


def _sample(frame: Any) -> object:
    from carnac.spark.schemas import arrow_schema

    arrow_schema(frame.schema)
    return _nullable(frame).limit(SPARK_ROWS).toArrow()


def _nullable(frame: Any) -> Any:
    """Return a DataFrame of which every part may be null: Arrow refuses a null whose own parts may not be."""
    names = frame.columns
    parts = frame.toDF(
        *(f"c{place}" for place in range(len(names)))
    )  # names may hold dots, or repeat
    schema = parts.schema.toNullable()
    return frame if schema == parts.schema else parts.to(schema).toDF(*names)


def infer_files(
    datasource: str, paths: list[str], time: str | Mapping[str, object] | None
) -> Inferred:
    """Return the spec that files show; see `plan_load`."""
    return _infer(datasource, None, paths, _hints(time))[0]


def _require_same(time: str | Mapping[str, object], spec: IngestSpec, what: str) -> None:
    """Refuse what a caller says of the time where it is decided; a loop may say what is decided each time."""
    given = {"column": time} if isinstance(time, str) else time
    kept = spec.timestamp.to_json_dict()
    if not all(kept.get(key) == value for key, value in given.items()):
        decided = ", ".join(f"{key} {value}" for key, value in kept.items())
        raise Invalid(
            f"{what} has its time decided: {decided}; leave time out, or give a spec with another timestampSpec",
            datasource=spec.datasource,
        )


def _hints(time: str | Mapping[str, object] | None) -> TimeHints:
    from carnac.specs.ingest.inference import TimeHints, as_hints

    return TimeHints() if time is None else as_hints(time)


def _format_of(kept: object, paths: list[str]) -> dict[str, object]:
    """Return the `inputFormat` of files: the one that is known, unless they are of another kind."""
    from carnac.ports.temporary import own_folder
    from carnac.rows.infer.sampling import format_of_files
    from carnac.specs.ingest.inputs import infer_format

    named = {None if (one := infer_format(path)) is None else one.type for path in paths}
    block = kept.get("inputFormat") if isinstance(kept, Mapping) else None
    if isinstance(block, Mapping) and (named <= {block.get("type")} or None in named):
        return {"inputFormat": block}
    if named & {"csv", "tsv", None}:
        with TemporaryDirectory(dir=own_folder("samples")) as folder:
            return {"inputFormat": format_of_files(paths, f"{folder}/scratch")}
    return {}


def _paths(rows: object) -> list[str] | None:
    if isinstance(rows, str | os.PathLike):
        return [os.fspath(rows)]
    if isinstance(rows, list | tuple):
        paths = [os.fspath(one) for one in rows if isinstance(one, str | os.PathLike)]
        return paths if paths and len(paths) == len(rows) else None
    return None
