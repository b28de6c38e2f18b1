"""Texts from outside: what no name and no text may hold, and that the sentence that says so can be shown itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from carnac.core.texts import MESSAGE_MAX, NAME_MAX, check_name, check_nested, check_text
from carnac.errors import Invalid
from tests import hostile


@given(hostile.unfit_names)
def test_no_name_has_a_control_character(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_name(name, "the id of a task")
    assert caught.value.message.isprintable(), "the sentence can be shown anywhere"


@given(hostile.unfit_texts)
def test_no_text_has_one_that_is_no_line_end(text: str) -> None:
    with pytest.raises(Invalid):
        check_text(text, "the message")
    with pytest.raises(Invalid):
        check_nested({"a": [text]}, "the context")
    with pytest.raises(Invalid):
        check_nested({"a": {text: 1}}, "the context")


def test_the_sentence_says_which_character_is_where() -> None:
    with pytest.raises(Invalid) as caught:
        check_name("a\0b", "the id of a task")
    assert caught.value.message == (
        r"the id of a task holds a control character (U+0000) as its character 2: 'a\x00b'; take it out"
    )
    with pytest.raises(Invalid, match=r"half of a surrogate pair \(U\+D800\) as its character 1"):
        check_text("\ud800", "the message")


def test_lines_and_tabs_are_text_and_no_name() -> None:
    lines = "one\ttwo\r\nthree\n\u00fc\u00f1 \u202e\U0001f600"
    assert check_text(lines, "the message") == lines
    with pytest.raises(Invalid):
        check_name(lines, "the name of a tag")
    with pytest.raises(Invalid, match="U\\+000D"):  # it would write over its line on a terminal
        check_text("one\rtwo", "the message")


def test_what_is_too_long_is_refused_and_not_shown() -> None:
    assert check_name("ä" * NAME_MAX, "the id") == "ä" * NAME_MAX
    with pytest.raises(Invalid, match="has 256 characters, at most 255 are taken") as caught:
        check_name("ä" * (NAME_MAX + 1), "the id")
    assert len(caught.value.message) < 200
    with pytest.raises(Invalid, match=r"at most 10,000 are taken"):
        check_text("a" * hostile.LONG, "the message", limit=MESSAGE_MAX)


@given(hostile.values)
def test_what_is_checked_can_be_kept_anywhere(value: object) -> None:
    try:
        check_nested(value, "the context")
    except Invalid:
        return
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode()) == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (hostile.nested(hostile.DEEP), "nested deeper than 100 levels"),
        (hostile.nested(hostile.DEEP, key="a"), "nested deeper than 100 levels"),
        ({"a": 10**23}, "more than 64 bits"),
        ({"a": float("nan")}, "a is nan; it must be a finite number"),
        ({5: 1}, "a key in the context is no text: 5"),
        ({10**5000: 1}, "a number of thousands of digits"),
        ({"a": object()}, "which JSON has not"),
    ],
)
def test_what_json_or_a_database_has_no_room_for_is_refused(value: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        check_nested(value, "the context")
