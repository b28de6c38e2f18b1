"""Facts of the server and of its types, in the form in which drivers ask for them.

Source: `FlightSql.proto` of Arrow, where numbers and columns are explained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import carnac
from carnac.query.schema.information import JDBC_ARRAY, JDBC_TYPE

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT, _FLAG, _LONG, _MASK, _TEXTS, _MAP = range(6)
"""Places of the union that holds a value."""
_YES = (3, 4, 9, 506, 515, 516, 518, 520, 521, 523, 524, 532, 539)
"""Reads only, by SQL, which can be cancelled; and the abilities of SELECT here."""
_NO = (5, 10, 500, 501, 502, 519, 527, 536, 537, 556, 563, 565, 566, 572, 573, 574, 575, 576)
"""Substrait, writing, definitions, transactions, batches, procedures, cursors."""
_LIMITS = range(541, 563)
"""Maxima, of which 0 says that nobody knows one, and the isolation of transactions, of which there are none."""
_CASE_INSENSITIVE = 1
_NULLS_LAST = 1
_SEARCHABLE = 3
_NULLABLE = 1
_FACTS: Mapping[int, tuple[int, object]] = {
    **dict.fromkeys(_LIMITS, (_LONG, 0)),
    **dict.fromkeys(_YES, (_FLAG, True)),
    **dict.fromkeys(_NO, (_FLAG, False)),
    0: (_TEXT, "Carnac"),
    1: (_TEXT, carnac.__version__),
    8: (_MASK, 0),  # transactions
    503: (_LONG, _CASE_INSENSITIVE),
    504: (_TEXT, '"'),
    505: (_LONG, _CASE_INSENSITIVE),
    507: (_LONG, _NULLS_LAST),
    **{number: (_TEXTS, []) for number in range(508, 513)},  # keywords and functions of its own
    513: (_TEXT, "\\"),
    514: (_TEXT, ""),
    517: (_MAP, {}),
    522: (_MASK, 0b11),  # GROUP BY what is not selected, and beyond it
    525: (_MASK, 0b11),  # grammar of ODBC: the minimum, the core
    526: (_MASK, 0b1),  # entry level of SQL-92
    528: (_MASK, 0b110),  # outer joins
    529: (_TEXT, "schema"),
    530: (_TEXT, "procedure"),
    531: (_TEXT, "catalog"),
    533: (_MASK, 0),
    534: (_MASK, 0),
    535: (_MASK, 0),
    538: (_MASK, 0b1111),  # subqueries: in comparisons, EXISTS, IN, quantified
    540: (_MASK, 0b11),  # UNION, UNION ALL
    564: (_MASK, 0),
    567: (_MASK, 0b10),  # rows come once, in order
    **dict.fromkeys(range(568, 572), (_MASK, 0)),
}


def sql_info(wanted: Collection[int]) -> pa.Table:
    """Return facts of the server by their numbers; of none: all."""
    import pyarrow as pa

    facts = {**_FACTS, 2: (_TEXT, pa.__version__)}
    chosen = {
        number: fact for number, fact in sorted(facts.items()) if not wanted or number in wanted
    }
    values: list[list[object]] = [[], [], [], [], [], []]
    places, offsets = [], []
    for place, value in chosen.values():
        places.append(place)
        offsets.append(len(values[place]))
        values[place].append(value)
    kinds = {
        "string_value": pa.string(),
        "bool_value": pa.bool_(),
        "bigint_value": pa.int64(),
        "int32_bitmask": pa.int32(),
        "string_list": pa.list_(pa.string()),
        "int32_to_int32_list_map": pa.map_(pa.int32(), pa.list_(pa.int32())),
    }
    union = pa.UnionArray.from_dense(
        pa.array(places, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(held, kind) for held, kind in zip(values, kinds.values(), strict=True)],
        field_names=list(kinds),
    )
    schema = pa.schema(
        [
            pa.field("info_name", pa.uint32(), nullable=False),
            pa.field("value", union.type, nullable=False),
        ]
    )
    return pa.Table.from_arrays([pa.array(list(chosen), pa.uint32()), union], schema=schema)


def type_info(wanted: int | None) -> pa.Table:
    """Return the types of SQL by their numbers in JDBC; None: all."""
    rows = [
        {
            "type_name": name,
            "data_type": number,
            "literal_prefix": "'" if name == "VARCHAR" else None,
            "literal_suffix": "'" if name == "VARCHAR" else None,
            "nullable": _NULLABLE,
            "case_sensitive": name == "VARCHAR",
            "searchable": _SEARCHABLE,
            "fixed_prec_scale": False,
            "local_type_name": name,
            "sql_data_type": number,
        }
        for name, number in sorted(
            {**JDBC_TYPE, "ARRAY": JDBC_ARRAY}.items(), key=lambda one: one[1]
        )
        if wanted in {None, number}
    ]
    return _table(
        "type_name! data_type:int32! column_size:int32 literal_prefix literal_suffix create_params:texts "
        "nullable:int32! case_sensitive:bool_! searchable:int32! unsigned_attribute:bool_ fixed_prec_scale:bool_! "
        "auto_increment:bool_ local_type_name minimum_scale:int32 maximum_scale:int32 sql_data_type:int32! "
        "datetime_subcode:int32 num_prec_radix:int32 interval_precision:int32",
        rows,
    )


def primary_keys() -> pa.Table:
    """Return no primary keys: a datasource has none."""
    return _table(
        "catalog_name db_schema_name table_name! column_name! key_name key_sequence:int32!"
    )


def foreign_keys() -> pa.Table:
    """Return no keys of others."""
    return _table(
        "pk_catalog_name pk_db_schema_name pk_table_name! pk_column_name! fk_catalog_name fk_db_schema_name "
        "fk_table_name! fk_column_name! key_sequence:int32! fk_key_name pk_key_name update_rule:uint8! "
        "delete_rule:uint8!"
    )


def _table(fields: str, rows: Collection[Mapping[str, object]] = ()) -> pa.Table:
    """Return a table.

    Args:
        fields: `name:type`, with `!` at the end where no value is null; texts where no type is named.
    """
    import pyarrow as pa

    made = []
    for text in fields.split():
        name, _, kind = text.rstrip("!").partition(":")
        of: Callable[[], pa.DataType] = getattr(pa, kind or "string", lambda: pa.list_(pa.string()))
        made.append(pa.field(name, of(), nullable=not text.endswith("!")))
    return pa.Table.from_pylist(list(rows), schema=pa.schema(made))
