"""Laws of specs: what is written reads back, and no text makes anything but a spec or one sentence."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.quoting import quote_for_spark
from carnac.core.time.granularity import ALL, parse_granularity
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid
from carnac.specs import load_spec
from carnac.specs.druid.rows import column_of, compile_filter, compile_value
from carnac.specs.druid.terms.syntax import Binary, Identifier, Literal, Node, Unary, parse
from carnac.specs.ingest.schema import MEANING_BY_TYPE
from carnac.specs.ingest.transforms import words_of

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=8
)
TOKYO_DAYS = {"type": "period", "period": "P1D", "timeZone": "Asia/Tokyo"}
GRANULARITIES = st.sampled_from(
    ["hour", "day", "P1M", "PT6H", {"type": "period", "period": "P1D", "timeZone": "Asia/Tokyo"}]
)
TYPES = st.sampled_from(
    ["string", "long", "double", "float", "json", "array<string>", "array<long>", "auto"]
)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A native spec with any of its blocks."""
    names = draw(st.lists(NAMES.filter(lambda n: n != "__time"), max_size=5, unique=True))
    cut = draw(st.integers(0, len(names)))
    dimensions = [{"name": name, "type": draw(TYPES)} for name in names[:cut]]
    metrics = [
        {"name": name, "type": kind, **({} if kind == "count" else {"fieldName": draw(NAMES)})}
        for name in names[cut:]
        for kind in [draw(st.sampled_from(sorted(MEANING_BY_TYPE)))]
    ]
    spec: dict[str, Any] = {
        "dataSource": draw(st.from_regex(r"[A-Za-z0-9_. -]*[a-z]", fullmatch=True)).strip() or "w",
        "input": draw(
            st.sampled_from(["a.json", ["b.csv", "c/"], {"data": "x"}, {"frame": "arrow"}])
        ),
        "dimensions": dimensions,
        "metrics": metrics,
        "granularitySpec": {"segmentGranularity": draw(GRANULARITIES)},
    }
    if draw(st.booleans()):
        spec["mode"] = "replace"
    if draw(st.booleans()):
        start = draw(st.integers(0, 10_000)) * 86_400_000
        end = start + draw(st.integers(1, 400)) * 86_400_000
        spec["granularitySpec"]["intervals"] = [str(Interval(start, end))]
    if dimensions and draw(st.booleans()):
        spec["partitionsSpec"] = {
            "type": draw(st.sampled_from(["hashed", "range"])),
            "partitionDimensions": [names[0]],
        }
    if draw(st.booleans()):
        spec["tuningConfig"] = {"maxParseExceptions": draw(st.integers(-1, 9))}
    return spec


@given(specs())
def test_what_is_written_reads_back(block: dict[str, Any]) -> None:
    spec = load_spec(block)
    text = spec.to_json()
    assert load_spec(text) == spec
    assert load_spec(yaml.safe_dump(json.loads(text), allow_unicode=True)) == spec
    assert load_spec(text).fingerprint() == spec.fingerprint()
    assert load_spec(text).to_json() == text


@given(specs())
def test_what_is_resolved_stays_resolved(block: dict[str, Any]) -> None:
    spec = load_spec(block)
    assert spec.granularity.rollup is not None
    assert (spec.replace_scope is None) == (spec.mode == "append")
    assert set(spec.dimensions.names) <= set(spec.sort_columns)


FIELDS = st.sampled_from(
    ["type", "spec", "dataSchema", "ioConfig", "tuningConfig", "dataSource", "input", "inputSource",
     "inputFormat", "timestampSpec", "dimensionsSpec", "dimensions", "metricsSpec", "granularitySpec",
     "transformSpec", "transforms", "filter", "partitionsSpec", "name", "fieldName", "intervals",
     "parser", "parseSpec", "firehose", "delegates", "fields", "flattenSpec", "expression", "context"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(
        [
            "",
            "w",
            "day",
            "index_parallel",
            "local",
            "combining",
            "csv",
            "json",
            "expression",
            "range",
            "a + b",
        ]
    )
)
BLOCKS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=15,
)


DRUID: dict[str, Any] = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {"dataSource": "w"},
        "ioConfig": {
            "inputSource": {"type": "inline", "data": ""},
            "inputFormat": {"type": "json"},
        },
        "tuningConfig": {},
    },
}
DRUID_PLACES = [
    ("spec", *place.split("."))
    for place in [
        "dataSchema",
        "dataSchema.dimensionsSpec",
        "dataSchema.dimensionsSpec.dimensions",
        "dataSchema.dimensionsSpec.spatialDimensions",
        "dataSchema.granularitySpec",
        "dataSchema.granularitySpec.intervals",
        "dataSchema.granularitySpec.segmentGranularity",
        "dataSchema.metricsSpec",
        "dataSchema.parser",
        "dataSchema.parser.parseSpec",
        "dataSchema.timestampSpec",
        "dataSchema.timestampSpec.format",
        "dataSchema.transformSpec",
        "dataSchema.transformSpec.filter",
        "dataSchema.transformSpec.transforms",
        "ioConfig",
        "ioConfig.appendToExisting",
        "ioConfig.firehose",
        "ioConfig.inputFormat",
        "ioConfig.inputFormat.featureSpec",
        "ioConfig.inputFormat.flattenSpec",
        "ioConfig.inputFormat.flattenSpec.fields",
        "ioConfig.inputSource",
        "ioConfig.inputSource.delegates",
        "tuningConfig",
        "tuningConfig.maxRowsPerSegment",
        "tuningConfig.partitionsSpec",
    ]
]
"""Where a Druid spec can hold something that nobody meant."""


def refusal(source: str | dict[str, Any]) -> str | None:
    """Return the sentence with which a spec is refused; None if it is read."""
    try:
        load_spec(source)
    except Invalid as error:
        return error.message
    return None


@given(st.dictionaries(FIELDS, BLOCKS, max_size=6))
def test_any_object_is_a_spec_or_one_sentence(block: dict[str, Any]) -> None:
    sentence = refusal(block)
    assert sentence is None or ("\n" not in sentence and not sentence.endswith("."))


@given(st.sampled_from(DRUID_PLACES), BLOCKS)
def test_any_value_in_a_druid_spec_is_read_or_one_sentence(
    place: tuple[str, ...], value: Any
) -> None:
    task: dict[str, Any] = json.loads(json.dumps(DRUID))
    block = task
    for name in place[:-1]:
        block = block.setdefault(name, {})
    block[place[-1]] = value
    sentence = refusal(task)
    assert sentence is None or sentence.startswith("wrong spec")


@given(st.text(max_size=40))
def test_any_text_is_a_spec_or_one_sentence(text: str) -> None:
    assert refusal(text)


LETTERS = st.sampled_from(["a", "b", "if", "upper", "(", ")", ",", "+", "-", "*", "/", "^", "!", "&&", "||",
                           "==", "<", "1", "2.5", "'x'", '"c d"', "[", "]", "null", " ", "->"])  # fmt: skip


@given(st.lists(LETTERS, max_size=15).map(" ".join))
def test_any_expression_is_sql_or_one_sentence(text: str) -> None:
    try:
        sql = compile_value(text, None).text
    except Invalid:
        return  # what is refused, and how, is the unit tests' matter; here nothing else may be raised
    assert sql
    assert sql.count("(") == sql.count(")")


def _trees() -> st.SearchStrategy[Node]:
    leaves = st.one_of(
        st.integers(0, 50).map(Literal),
        st.sampled_from(["a", "b"]).map(Identifier),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(
                st.sampled_from(["+", "-", "*", "/", "%", "^", "<", "==", "&&", "||"]), inner, inner
            ).map(lambda parts: Binary(*parts)),
            inner.filter(lambda node: not isinstance(node, Literal)).map(
                lambda node: Unary("-", node)
            ),
            inner.map(lambda node: Unary("!", node)),
        ),
        max_leaves=12,
    )


def _written(node: Node) -> str:
    if isinstance(node, Literal):
        return str(node.value)
    if isinstance(node, Identifier):
        return node.name
    if isinstance(node, Unary):
        return f"{node.operator}({_written(node.operand)})"
    assert isinstance(node, Binary)
    return f"({_written(node.left)}) {node.operator} ({_written(node.right)})"


@given(_trees())
def test_a_tree_that_is_written_reads_back(tree: Node) -> None:
    assert parse(_written(tree)) == tree


@given(NAMES)
def test_a_quoted_name_is_one_name(name: str) -> None:
    assert words_of(quote_for_spark(name)) == {name}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_in_filters_keep_their_value(value: float) -> None:
    sql = compile_filter(
        {"type": "equals", "column": "d", "matchValueType": "DOUBLE", "matchValue": value},
        {"d": column_of("d", "DOUBLE")},
    ).text
    number = sql.removeprefix('("d" = CAST(').removesuffix(" AS DOUBLE))")
    assert float(number) == value


@given(GRANULARITIES, st.integers(-(10**12), 4 * 10**12), st.integers(1, 10**11))
def test_druids_intervals_grow_to_whole_chunks(chunk: Any, start: int, length: int) -> None:
    given_interval = Interval(start, start + length)
    spec = load_spec(
        {
            "dataSchema": {
                "dataSource": "w",
                "granularitySpec": {
                    "segmentGranularity": chunk,
                    "intervals": [str(given_interval)],
                },
            },
            "ioConfig": {
                "inputSource": {"type": "inline", "data": ""},
                "inputFormat": {"type": "json"},
            },
        }
    )
    (grown,) = spec.intervals
    granularity = parse_granularity(chunk)
    assert granularity != ALL
    assert grown.contains(given_interval)
    assert granularity.is_aligned(grown)
    assert granularity.bucket(start).start_ms == grown.start_ms
