"""Texts that are small and stand for much, or are deep: one sentence, soon, wherever a person's text is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from carnac.config import load_settings
from carnac.core.json_text import LENGTH_MAX, parse_json
from carnac.core.redaction import hide_passwords, show_url
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import parse_instant
from carnac.errors import Invalid
from carnac.simulation.load import load_scenario
from carnac.specs.compaction.spec import load_compaction
from carnac.specs.druid.fields import Block, Findings
from carnac.specs.druid.patterns import check_pattern
from carnac.specs.druid.rows import compile_filter
from carnac.specs.druid.terms.syntax import parse
from carnac.specs.ingest.transforms import words_of
from carnac.specs.load import VALUES_MAX, YAML_LENGTH_MAX, load_spec, parse_text
from carnac.specs.sql.statements import spec_of_statement
from carnac.specs.supervisors.properties import read_properties
from tests.support.lengths import grows_with_length

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP = 5_000
BOMBS = {
    "laughs": LAUGHS,
    "a loop": "a: &a [*a]",
    "a loop of mappings": "a: &a\n  b: *a",
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep flow": "{a: " * DEEP + "1" + "}" * DEEP,
    "deep dashes": "- " * DEEP + "x",
    "deep indent": "".join(f"{' ' * level}a:\n" for level in range(500)),
    "never closed": "[" * DEEP,
    "long": "a: " + "x" * (LENGTH_MAX + 1),
    "long YAML": "a: " + "x" * (YAML_LENGTH_MAX + 1),
    "many": "[" + "x," * VALUES_MAX + "x]",
    "digits": '{"dataSource": ' + "9" * 10_000 + "}",
    "digits in YAML": "dataSource: " + "9" * 10_000,
    "half a pair": '{"dataSource": "\\ud800"}',
    "half a pair in YAML": 'dataSource: "\\ud800"',
    "a day that is none": "dataSource: !!timestamp 2015-02-31",
}
DOORS: dict[str, Callable[[str], object]] = {
    "spec": load_spec,
    "compaction spec": load_compaction,
    "scenario": load_scenario,
    "task": lambda text: load_spec(parse_text(text)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_one_sentence(bomb: str, door: str) -> None:
    with pytest.raises(Invalid) as caught:
        DOORS[door](BOMBS[bomb])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("bomb", ["deep objects", "never closed", "digits", "half a pair"])
def test_a_bomb_of_json_is_one_sentence(bomb: str) -> None:
    with pytest.raises(Invalid, match=r"nested deeper|digits|surrogate"):
        parse_json(BOMBS[bomb], "lookup")
    with pytest.raises(Invalid):
        parse_granularity(BOMBS[bomb])


@pytest.mark.parametrize(
    "toml",
    ["a = " + "[" * DEEP + "]" * DEEP, "a = " + "{a = " * DEEP + "1" + "}" * DEEP, f"a = {'9' * 10_000}",
     f"x{'.a' * DEEP} = 1", "a = 1\n" * 2_000_000],
    ids=["lists", "tables", "digits", "dots", "long"],
)  # fmt: skip
def test_a_bomb_of_settings_is_one_sentence(toml: str, tmp_path: Path) -> None:
    (tmp_path / "carnac.toml").write_text(toml)
    with pytest.raises(Invalid) as caught:
        load_settings({}, directory=tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(Invalid, match="CARNAC_SPARK_CONF must be a JSON object"):
        load_settings({"CARNAC_SPARK_CONF": BOMBS["deep objects"]}, directory=tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    ["(" * DEEP + "a" + ")" * DEEP, "-" * DEEP + "a", "a^" * DEEP + "a", "f(" * DEEP + ")" * DEEP, "a+" * DEEP + "a",
     "9" * DEEP, "x" * (1 << 20), "[" * DEEP, f"f({'(a),' * 20_000}"],
    ids=["parentheses", "signs", "powers", "calls", "chain", "digits", "long", "lists", "arguments"],
)  # fmt: skip
def test_an_expression_that_is_deep_or_long_is_one_sentence(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_deep_filter_is_one_sentence() -> None:
    block: dict[str, object] = {"type": "selector", "dimension": "a", "value": "b"}
    for _ in range(DEEP):
        block = {"type": "not", "field": block}
    with pytest.raises(Invalid):
        compile_filter(block, {})


LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u"'
LONG: dict[str, tuple[Callable[[str], object], str]] = {
    "comments": (spec_of_statement, "INSERT INTO x SELECT 1 " + "/* " * 50_000),
    "quotes": (words_of, '"' + '\\"' * 100_000),
    "a last backslash": (words_of, '"' + '\\"' * 100_000 + "\\"),
    "brackets": (check_pattern, ")" * 200_000),
    "blanks of a time": (parse_instant, "x" + " " * 200_000 + "x"),
    "names of a secret": (hide_passwords, "x://?" + "token" * 40_000),
    "settings": (show_url, "jaas" * 50_000),
    "hosts": (show_url, "x://" + "[a]," * 50 + " "),
    "brackets of hosts": (show_url, "x://a@" + ",[" * 100_000 + " "),
    "blanks of a login": (
        lambda text: read_properties(
            Block({"sasl.jaas.config": text}, "consumerProperties", Findings())
        ),
        LOGIN + " " * 200_000 + "!",
    ),
}


@pytest.mark.parametrize("bomb", LONG)
def test_a_long_text_is_read_in_one_go(bomb: str) -> None:
    """What it costs grows with its length, and not with the square of that."""
    door, text = LONG[bomb]

    def read(text: str) -> None:
        with suppress(Invalid):
            door(text)

    assert grows_with_length(read, text)


def test_yaml_in_braces_is_yaml() -> None:
    expected = {"dataSource": "w", "input": ["a.json"]}
    assert parse_text("{dataSource: w, input: [a.json]}") == expected
    assert parse_text("{ # a note\n  'dataSource': w, input: [a.json]}") == expected
    assert parse_text('{"dataSource": "w", "input": ["a.json"]}') == expected
    assert parse_text('\ufeff{"dataSource": "w", "input": ["a.json"]}') == expected
    assert parse_text("\ufeffdataSource: w\ninput: [a.json]") == expected


def test_aliases_are_for_what_is_said_twice() -> None:
    text = "base: &base {a: 1, b: [1, 2]}\none: *base\ntwo: {<<: *base, c: 3}\nday: 2015-01-01"
    read = parse_text(text)
    assert isinstance(read, dict)
    assert read["two"] == {"a": 1, "b": [1, 2], "c": 3}
    assert read["one"] == read["base"]
    assert read["day"] == "2015-01-01", "as in JSON"
