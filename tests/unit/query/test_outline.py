"""What the text of a statement tells of its answer."""

from __future__ import annotations

import pytest

from carnac.query.schema.outline import outline


@pytest.mark.parametrize(
    ("sql", "columns", "unnamed"),
    [
        ("SELECT 1", 1, {0}),
        ("SELECT a, count(*), b AS c, x + 1", 4, {1, 3}),
        ("SELECT *, count(*) OVER () FROM t", 5, {4}),
        ("SELECT 1, * , 2 FROM t", 6, {0, 5}),
        ("SELECT max(a), *, b, *, 2 FROM t", 9, {0, 8}),
        ("SELECT 1 UNION ALL SELECT a FROM t", 1, {0}),
        ("WITH q AS (SELECT 1) SELECT a, sum(b) FROM q GROUP BY 1", 2, {1}),
        ("SELECT FLOOR(t TO HOUR), a FROM t", 2, {0}),
        ("EXPLAIN SELECT 1, a FROM t", 2, {0}),
    ],
)
def test_expressions_without_a_name_are_found(sql: str, columns: int, unnamed: set[int]) -> None:
    found = outline(sql)
    assert found is not None
    assert found.unnamed(columns) == unnamed


def test_parameters_are_counted() -> None:
    found = outline("SELECT a FROM t WHERE a = ? AND b IN (?, ?) AND c = (SELECT max(?))")
    assert found is not None
    assert found.parameters == 4


def test_what_is_no_select_has_no_outline() -> None:
    assert outline("SELEC 1") is None
    assert outline("DROP TABLE t") is None


@pytest.mark.parametrize("blank", [" ", "\n", "/**/", "/* x */ ", "--\n"])
def test_however_much_stands_before_a_statement_it_is_read_once(blank: str) -> None:
    """A way back through all of it took longer with each blank than anybody waits."""
    found = outline(blank * 2_000 + "SELECT 1")
    assert found is not None
    assert found.unnamed(1) == {0}
