"""What an append is to do: the spec of the datasource, and the rows or files that it is to read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.errors import Invalid
from carnac.ports import MetadataStore
from carnac.specs.base import NO_INPUT
from carnac.store.writing import declarations

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """An append, ready to run.

    Attributes:
        rows: None where the spec names files.
    """

    spec: IngestSpec
    rows: object | None


def plan_append(
    metadata: MetadataStore,
    datasource: str,
    rows: object,
    *,
    spec: IngestSpec | Mapping[str, object] | str | None,
    writer: str | None,
    batch: str | None,
) -> AppendPlan:
    """Return what an append is to do.

    Args:
        rows: Rows in memory, or the path of a file, or a list of paths.
        spec: None: what the datasource declares.

    Raises:
        Invalid: There is no spec and no declaration, or they do not go together.
    """
    paths = _paths(rows)
    source: object = NO_INPUT if paths is None else {"paths": paths}
    block = declarations.find(metadata, datasource) if spec is None else _block(spec)
    if block is None:
        raise Invalid(
            f"nothing was loaded into {datasource} before, so that it is not known how its rows are to be read;"
            " give a spec",
            datasource=datasource,
        )
    if block.get("dataSource", datasource) != datasource:
        raise Invalid(
            f"the spec is for datasource {block['dataSource']}, and the rows are for {datasource}",
            datasource=datasource,
        )
    kept = block.get("input")
    if paths is not None and isinstance(kept, Mapping) and "inputFormat" in kept:
        source = {"paths": paths, "inputFormat": kept["inputFormat"]}
    found = declarations.spec_of(
        {**block, "dataSource": datasource}, source=source, writer=writer, batch=batch
    )
    if found.mode != "append":
        raise Invalid("append adds rows; to replace what is there, use ingest")
    return AppendPlan(spec=found, rows=None if paths is not None else rows)


def _paths(rows: object) -> list[str] | None:
    if isinstance(rows, str | os.PathLike):
        return [os.fspath(rows)]
    if isinstance(rows, list | tuple):
        paths = [os.fspath(one) for one in rows if isinstance(one, str | os.PathLike)]
        return paths if paths and len(paths) == len(rows) else None
    return None


def _block(spec: IngestSpec | Mapping[str, object] | str) -> dict[str, object]:
    from carnac.specs.load import load_spec

    return load_spec(spec, has_rows=True).to_json_dict()
