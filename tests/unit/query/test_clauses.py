"""Words within calls of Druid's SQL become arguments; all else stays as it is."""

from __future__ import annotations

import pytest

from carnac.query.dialect.clauses import without_clauses


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT FLOOR(__time TO HOUR) FROM t", "SELECT date_trunc('hour', __time) FROM t"),
        (
            "SELECT floor( (a + b) TO day ), floor(1.5) FROM t",
            "SELECT date_trunc('day',  (a + b) ), floor(1.5) FROM t",
        ),
        (
            "SELECT FLOOR(FLOOR(x TO MINUTE) TO YEAR)",
            "SELECT date_trunc('year', date_trunc('minute', x ) )",
        ),
        (
            "SELECT CEIL(x TO DAY), CEILING(x TO YEAR)",
            "SELECT TIME_CEIL(x,'P1D'), TIME_CEIL(x,'P1Y')",
        ),
        (
            "SELECT JSON_VALUE(j, '$.a' RETURNING bigint), json_value(j, '$.a')",
            "SELECT JSON_VALUE(j, '$.a', 'bigint'), json_value(j, '$.a')",
        ),
        (
            "SELECT JSON_VALUE(j, '$.a' RETURNING BIGINT ARRAY)",
            "SELECT JSON_VALUE(j, '$.a', 'BIGINT ARRAY')",
        ),
        (
            "SELECT JSON_OBJECT(KEY 'a' VALUE 1, key 'b' value x)",
            "SELECT JSON_OBJECT('a', 1, 'b', x)",
        ),
        ("SELECT JSON_OBJECT('a':1, 'b' : value)", "SELECT JSON_OBJECT('a',1, 'b', value)"),
        (
            "SELECT JSON_OBJECT('a': JSON_OBJECT('b': JSON_VALUE(j, '$.c' RETURNING DOUBLE)))",
            "SELECT JSON_OBJECT('a', JSON_OBJECT('b', JSON_VALUE(j, '$.c', 'DOUBLE')))",
        ),
        (
            "SELECT * FROM TABLE(APPEND('a', 'b ''c\"')) t",
            """SELECT * FROM (FROM "a" UNION ALL BY NAME FROM "b 'c""\") t""",
        ),
        ("SELECT * FROM table ( append('a') )", 'SELECT * FROM (FROM "a")'),
        ("SELECT POSITION('a' IN x FROM 2)", """SELECT "position"('a' , x , 2)"""),
        (
            "SELECT 1 + position((SELECT 'a' FROM u) in x from position('b' IN x FROM 1)) FROM t",
            """SELECT 1 + "position"((SELECT 'a' FROM u) , x , "position"('b' , x , 1)) FROM t""",
        ),
    ],
)
def test_becomes_arguments(sql: str, expected: str) -> None:
    assert "".join(without_clauses(sql).split()) == "".join(expected.split())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'floor(x to hour)' -- floor(x to day)",
        "SELECT list_append(a, 'b'), 'TABLE(APPEND(''a''))' FROM t",
        'SELECT floor(2.5), "floor(a to b)" FROM t',
        "SELECT json_object('a', value, 'b'::VARCHAR, '1'::INT, key, t[1:2]) FROM t",
        "SELECT json_object('a', f('x' : 1)) FROM t",
        "SELECT position('a' IN x) FROM t WHERE position(x IN (SELECT y FROM u)) > 0",
        "SELECT position(1 FROM 2), position FROM t WHERE x IN (1)",
        "SELECT json_value(j, 'RETURNING x', returning) FROM t",
        "SELECT struct_pack(key := 'a'), {'a': 1}, json_object('x', {'a': 1}) /* json_object('a': 1) */",
    ],
)
def test_stays(sql: str) -> None:
    assert without_clauses(sql) == sql
