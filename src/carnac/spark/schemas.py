"""Schemas of Spark's rows as Arrow has them; types of which nobody but Spark reads the values are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.errors import Invalid
from carnac.rows.read.tables import require_single

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema in which rows of Spark come as Arrow.

    Raises:
        Invalid: A column is of a type that has no place here, or two have one name; names it, and what to do.
    """
    import pyarrow as pa

    require_single(schema.names)
    return pa.schema([_arrow_field(field) for field in schema.fields])


def _arrow_field(field: StructField) -> pa.Field:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    if _holds_variant(field.dataType.jsonValue()):
        raise Invalid(
            f"column '{field.name}' holds values of Spark's type variant, which have no column type here; "
            "make JSON of it first, with to_json, or leave the column out",
            column=field.name,
        )
    try:
        return to_arrow_schema(StructType([field]), timezone="UTC").field(0)
    except (PySparkException, ValueError) as error:
        raise Invalid(
            f"column '{field.name}' is of Spark's type {field.dataType.simpleString()}, which has no column type here; "
            "cast it to another one first, or leave the column out",
            column=field.name,
        ) from error


def _holds_variant(kind: object) -> bool:
    """Whether Spark's JSON of a type names variants, at whatever depth."""
    if not isinstance(kind, dict):
        return kind == "variant"
    if kind.get("type") == "struct":
        return any(_holds_variant(field["type"]) for field in kind["fields"])
    return any(_holds_variant(kind.get(part)) for part in ("elementType", "keyType", "valueType"))
