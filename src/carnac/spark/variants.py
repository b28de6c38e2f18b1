"""Columns of Spark's type VARIANT, whose bytes nobody but Spark reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def refuse_variants(schema: StructType) -> None:
    """Refuse rows of which a column holds variants.

    Raises:
        Invalid: One does; names it, and how Spark makes JSON of it.
    """
    for field in schema.fields:
        if _holds_variant(field.dataType.jsonValue()):
            raise Invalid(
                f"column '{field.name}' holds values of Spark's type variant, which have no column type here; "
                "make JSON of it first, with to_json, or leave the column out",
                column=field.name,
            )


def _holds_variant(kind: object) -> bool:
    """Whether Spark's JSON of a type names variants, at whatever depth."""
    if not isinstance(kind, dict):
        return kind == "variant"
    if kind.get("type") == "struct":
        return any(_holds_variant(field["type"]) for field in kind["fields"])
    return any(_holds_variant(kind.get(part)) for part in ("elementType", "keyType", "valueType"))
