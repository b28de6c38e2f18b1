"""The columns of a datasource as the schema of an Iceberg table: names, field ids of the files, types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from carnac.core.segments.schema import unite_types
from carnac.core.segments.segment import ELEMENT_TYPES, TIME_COLUMN, Column, ColumnType
from carnac.core.segments.sql_columns import HIDDEN_PREFIX, element_of, field_ids
from carnac.errors import Invalid

PRIMITIVE: Mapping[ColumnType, str] = {
    ColumnType.STRING: "string",
    ColumnType.LONG: "long",
    ColumnType.DOUBLE: "double",
    ColumnType.FLOAT: "float",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.JSON: "string",
    ColumnType.HLL: "binary",
    ColumnType.THETA: "binary",
    ColumnType.QUANTILES: "binary",
}
"""Iceberg's names for the types of columns that hold one value."""
TIME_TYPE = "timestamptz"
"""Microseconds, UTC: as the files have it."""
_PROMOTED = {("float", "double")}
"""Changes of a type for which Iceberg reads older files."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The schema of a table at a revision.

    Attributes:
        fields: As Iceberg writes them, `__time` first.
        ids: The field id of each column, by name.
        last_id: The greatest of all ids.
    """

    fields: tuple[Mapping[str, object], ...]
    ids: Mapping[str, int]
    last_id: int

    def to_json(self, schema_id: int = 0) -> dict[str, object]:
        """Return it as Iceberg writes it."""
        return {"type": "struct", "schema-id": schema_id, "fields": list(self.fields)}


def table_schema(files: Iterable[Iterable[Column]]) -> TableSchema:
    """Return the schema in which the files can be read as one table.

    Args:
        files: The columns of each, in the order in which a column that comes first stands first.

    Raises:
        Invalid: They cannot be: says why, and what to do.
    """
    united: dict[str, ColumnType] = {}
    seen: dict[str, set[ColumnType]] = {}
    for columns in dict.fromkeys(tuple((one.name, one.type) for one in file) for file in files):
        for name, kind in columns:
            known = united.get(name)
            united[name] = kind if known is None else unite_types(name, known, kind)
            seen.setdefault(name, set()).add(kind)
    _require_names(united)
    ids = _ids_of(united)
    fields: list[Mapping[str, object]] = [
        {"id": ids[TIME_COLUMN], "name": TIME_COLUMN, "required": True, "type": TIME_TYPE}
    ]
    for name, kind in united.items():
        if name.startswith(HIDDEN_PREFIX):
            continue
        _require_promoted(name, seen[name], kind)
        fields.append(
            {"id": ids[name], "name": name, "required": False, "type": _type_of(name, kind, ids)}
        )
    return TableSchema(tuple(fields), ids, max(ids.values()))


def _require_names(columns: Mapping[str, ColumnType]) -> None:
    for name, kind in columns.items():
        if kind in ELEMENT_TYPES and f"{name}.element" in columns:
            raise Invalid(
                f"column '{name}.element' is called as Iceberg's clients call the elements of column '{name}'; load it "
                "under another name, or query the datasource by SQL",
                column=f"{name}.element",
            )


def _ids_of(columns: Mapping[str, ColumnType]) -> Mapping[str, int]:
    names = [TIME_COLUMN, *columns]
    names += [element_of(name) for name, kind in columns.items() if kind in ELEMENT_TYPES]
    ids = field_ids(names)
    without = [name.partition("\0")[0] for name in names if name not in ids]
    if without:
        raise Invalid(
            f"columns {' and '.join(without)} have one field id in their files, by which Iceberg's clients find "
            "columns; load one of them under another name, or query the datasource by SQL"
        )
    return ids


def _require_promoted(name: str, stored: Iterable[ColumnType], kind: ColumnType) -> None:
    wanted = _shape(kind)
    for one in sorted(stored):
        if _shape(one) != wanted and (_shape(one), wanted) not in _PROMOTED:
            raise Invalid(
                f"column '{name}' is {one} in some segments and {kind} as a whole, which Iceberg's clients do not read "
                f"as one; replace the older rows with {kind} in that column, or query the datasource by SQL",
                column=name,
            )


def _shape(kind: ColumnType) -> str:
    return PRIMITIVE.get(kind) or f"list of {PRIMITIVE[ELEMENT_TYPES[kind]]}"


def _type_of(name: str, kind: ColumnType, ids: Mapping[str, int]) -> object:
    if kind in PRIMITIVE:
        return PRIMITIVE[kind]
    return {
        "type": "list",
        "element-id": ids[element_of(name)],
        "element": PRIMITIVE[ELEMENT_TYPES[kind]],
        "element-required": False,
    }
