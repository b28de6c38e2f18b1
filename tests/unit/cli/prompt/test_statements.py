"""Where statements end, and what may come at a context of one."""

from __future__ import annotations

import pytest

from carnac.cli.prompt.commands import AT, QUIT, SCHEMA, Asked, parse_dot_command
from carnac.cli.prompt.context import Context, Kind, find_context, matching, tables_of, written
from carnac.cli.prompt.statements import is_blank, is_whole, split_statements
from carnac.errors import Invalid


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2; SELECT", ["SELECT 1", "SELECT 2"], "SELECT"),
        ("SELECT ';' AS a;", ["SELECT ';' AS a"], ""),
        ("SELECT 'it''s;' AS a;", ["SELECT 'it''s;' AS a"], ""),
        ('SELECT "a;b";', ['SELECT "a;b"'], ""),
        ("SELECT 1 -- ; no\n;", ["SELECT 1 -- ; no"], ""),
        ("SELECT /* ; */ 1;", ["SELECT /* ; */ 1"], ""),
        ("SELECT $$;$$, $x$ $$; $x$;", ["SELECT $$;$$, $x$ $$; $x$"], ""),
        ("SELECT 'open;", [], "SELECT 'open;"),
        ("SELECT /* open;", [], "SELECT /* open;"),
        (";; -- nothing\n;", [], ""),
    ],
)
def test_statements_end_at_semicolons_of_their_own(
    text: str, statements: list[str], rest: str
) -> None:
    assert split_statements(text) == (statements, rest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "SELECT 1;",
        "SELECT 1; -- done",
        ".tables",
        " .at 3",
        "quit",
        "EXIT;",
        "\nSELECT 1;\n",
    ],
)
def test_enter_runs_what_is_whole(text: str) -> None:
    assert is_whole(text)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT 1; SELECT", "SELECT ';", "-- a remark", "SELECT 1 /* ;"]
)
def test_another_line_follows_what_is_not(text: str) -> None:
    assert not is_whole(text)


def test_a_text_that_looks_like_a_comment_is_none() -> None:
    assert is_blank(" -- a\n /* b */ ")
    assert not is_blank("'-- a'")


@pytest.mark.parametrize(
    ("before", "context"),
    [
        ("", Context(Kind.ANYTHING)),
        ("SEL", Context(Kind.ANYTHING, "SEL")),
        ("SELECT * FROM ", Context(Kind.TABLE)),
        ("SELECT * FROM ed", Context(Kind.TABLE, "ed")),
        ("SELECT * FROM edits, ", Context(Kind.TABLE)),
        ("SELECT * FROM edits e JOIN h", Context(Kind.TABLE, "h")),
        ("SELECT a, ", Context(Kind.ANYTHING)),
        ("SELECT * FROM edits WHERE a IN (1, ", Context(Kind.ANYTHING)),
        ("SELECT e.", Context(Kind.COLUMN, "", "e")),
        ("SELECT e.pa", Context(Kind.COLUMN, "pa", "e")),
        ('SELECT "my edits".p', Context(Kind.COLUMN, "p", "my edits")),
        ('SELECT "pa', Context(Kind.ANYTHING, '"pa')),
        ("SELECT 'pa", Context(Kind.NOTHING)),
        ("SELECT -- pa", Context(Kind.NOTHING)),
        ("SELECT /* pa", Context(Kind.NOTHING)),
        ("SELECT 1.", Context(Kind.NOTHING)),
        ("DESCRIBE ", Context(Kind.TABLE)),
    ],
)
def test_what_may_come_is_seen_from_what_stands_before(before: str, context: Context) -> None:
    assert find_context(before) == context


def test_the_datasources_of_a_statement_are_known_by_all_their_names() -> None:
    names = ["edits", "hours", "my edits"]
    assert tables_of("SELECT  FROM Edits e, hours AS h WHERE", names) == {
        "edits": "edits",
        "e": "edits",
        "hours": "hours",
        "h": "hours",
    }
    assert tables_of('SELECT FROM "my edits" JOIN nothing', names) == {"my edits": "my edits"}
    assert tables_of("SELECT edits FROM 'hours' -- FROM hours", names) == {}


def test_names_are_written_in_quotes_where_they_need_them() -> None:
    assert [written(name) for name in ("page", "my page", "order", 'a"b', "1st", "é")] == [
        "page", '"my page"', '"order"', '"a""b"', '"1st"', '"é"',
    ]  # fmt: skip
    assert matching(Context(Kind.ANYTHING, "PA"), {"page": "string", "added": "long"}) == [
        ("page", "string")
    ]
    assert matching(Context(Kind.ANYTHING, '"my'), {"my page": "string"}) == [
        ('"my page"', "string")
    ]


def test_dot_commands_say_what_they_take() -> None:
    assert parse_dot_command(" .at  good ") == Asked(AT, "good")
    assert parse_dot_command(".SCHEMA edits;") == Asked(SCHEMA, "edits")
    assert parse_dot_command("exit") == Asked(QUIT, "")
    for text, words in {
        ".table": "there is no command '.table'; did you mean '.tables'?",
        ".schema": "say which datasource: .schema NAME; .tables lists them",
        ".tables edits": ".tables takes nothing, and 'edits' was given",
    }.items():
        with pytest.raises(Invalid) as refused:
            parse_dot_command(text)
        assert str(refused.value) == words
