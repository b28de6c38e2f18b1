"""Texts of an erased condition within other texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.log.mentions import GAP, Mentions

ALPHABET = "abßÉŁ0 _-'\"\\田"
TEXTS = st.lists(st.text(ALPHABET, min_size=1, max_size=6), min_size=1, max_size=8)


@given(texts=TEXTS, number=st.integers(0, 7), before=st.text("x ,é"), depth=st.integers(0, 2))
def test_each_is_found_and_taken_out_however_it_is_kept(
    texts: list[str], number: int, before: str, depth: int
) -> None:
    mentions = Mentions(texts)
    text = texts[number % len(texts)]
    for form in (text, text.upper(), text.replace("'", "''")):
        kept = f"{before}, {form}, y"
        if form.casefold() in {text.casefold(), text.casefold().replace("'", "''")}:
            assert GAP in mentions.without(kept)
            for _ in range(depth):
                kept = json.dumps(kept)
            assert mentions.is_in(kept)
            assert not mentions.is_in(mentions.without(kept))


@pytest.mark.parametrize(
    ("texts", "text", "left"),
    [
        (("carl",), "Carlsberg, Carl, xcarl, carl2, carl_x", "Carlsberg, …, xcarl, carl2, …_x"),
        (("carl", "carl smith"), "carl smith, carl smithy", "…, … smithy"),
        (("straße",), "in der STRASSE 1", "in der … 1"),
        (("o'brien",), "who = 'O''Brien' or O'BRIEN", "who = '…' or …"),
        (("田中",), "東京の田中さん", "東京の…さん"),
        (("a.c", "(x|y)"), "abc a.c (x|y) x", "abc … … x"),
        (("josé",), 'who = "Jos\\u00e9" or José', "…"),
        ((), "anything", "anything"),
        (("",), "anything", "anything"),
    ],
)
def test_what_is_part_of_a_longer_word_stays(texts: tuple[str, ...], text: str, left: str) -> None:
    assert Mentions(texts).without(text) == left
    assert Mentions(texts).is_in(text) == (left != text)
    assert not Mentions(texts).is_in(None)


@pytest.mark.slow
def test_texts_that_begin_alike_at_every_letter_can_be_looked_for() -> None:
    mentions = Mentions("a" * length for length in range(1, 1_500))
    assert mentions.without(f"{'a' * 1_499} {'a' * 1_500} ab") == f"{GAP} {'a' * 1_500} ab"
