"""Values of an Arrow column as Python has them, or one sentence about those that it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.errors import Invalid

if TYPE_CHECKING:
    import pyarrow as pa


def to_python(name: str, column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Return the values of a column.

    Raises:
        Invalid: A time is outside of the years that Python has.
    """
    try:
        values: list[object] = column.to_pylist()
    except (OverflowError, ValueError):
        raise Invalid(
            f"column '{name}' holds a time outside of the years 1 to 9999; select it as text, CAST(… AS VARCHAR)",
            column=name,
        ) from None
    return values
