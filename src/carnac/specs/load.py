"""Read a spec from JSON, YAML, SQL or Python objects; Druid's own batch specs are read as they are.

    load_spec('{"dataSource": "w", "input": "edits/*.json.gz"}')
    load_spec("INSERT INTO w SELECT … PARTITIONED BY DAY")
    load_spec({"type": "index_parallel", "spec": {...}})

Nothing is read from disk here: give the text of a file, not its name.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from carnac.core.json_text import check_letters, check_names, parse_json
from carnac.core.texts import NESTING_MAX, cut, short
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid
from carnac.specs.base import NO_INPUT, check_texts
from carnac.specs.druid.ingest import convert, is_druid_spec
from carnac.specs.ingest.inputs import FrameInput, QueryInput
from carnac.specs.ingest.schema import MetricSpec
from carnac.specs.ingest.spec import IngestSpec, TransformSpec
from carnac.specs.ingest.transforms import check_transforms
from carnac.specs.lines import with_lines
from carnac.specs.problems import Findings, Problem, explain, raise_problems, validated
from carnac.specs.sql.external import take_externals
from carnac.specs.sql.statements import check_loads, is_load_statement, spec_of_statement

YAML_LENGTH_MAX = 1 << 18
"""Characters; so many take some seconds."""
KEPT_MAX = 64
"""Specs that a process keeps as they were read."""
VALUES_MAX = 20_000
"""Values of a YAML text, once its aliases are followed: nine lines of aliases of aliases may stand for billions."""


def load_spec(
    source: str | Mapping[str, Any] | IngestSpec,
    *,
    has_rows: bool = False,
    datasource: str | None = None,
    name: str | None = None,
) -> IngestSpec:
    """Return the spec that a text (JSON or YAML, or an INSERT or REPLACE of SQL) or a mapping holds.

    Takes the native form (`carnac.specs.ingest.spec`), and Druid's tasks `index_parallel` and `index`
    with or without their envelope.

    Args:
        has_rows: Rows, or the files to read, are named next to it, so that it need not name an input.
        datasource: Of a spec in native form that names none; None: it must name one.
        name: Of the file that the text is from, for messages.

    Raises:
        Invalid: The text is neither JSON nor YAML, or the spec is wrong; one sentence that names
            every problem with its place, in a text with its line.
    """
    if isinstance(source, IngestSpec):
        return source
    if not isinstance(source, str):
        return _load(source, has_rows=has_rows, datasource=datasource)
    if is_load_statement(source):
        return _load_statement(source, has_rows=has_rows)
    check_loads(source)
    try:
        return _load(parse_text(source), has_rows=has_rows, datasource=datasource, name=name)
    except Invalid as error:
        raise with_lines(error, source, name=name, root=IngestSpec) from None


def is_spec_text(text: str) -> bool:
    """Whether a text looks like a spec, in JSON, YAML or SQL, and not like the name of a datasource."""
    begins_as_json = text.lstrip("\ufeff \t")[:1] == "{"
    return begins_as_json or "\n" in text or ": " in text or is_load_statement(text)


def _load_statement(sql: str, *, has_rows: bool) -> IngestSpec:
    if has_rows:
        raise Invalid("an INSERT or REPLACE names its rows itself, in EXTERN; give it alone")
    return load_spec(spec_of_statement(sql))


def load_again(source: Any, *, has_rows: bool = False, datasource: str | None = None) -> IngestSpec:
    """Return what `load_spec` does; plain values that were read a moment ago are not read again."""
    try:
        plain = marshal.dumps(source, 2)  # 2: the same for equal values, and another for others
    except ValueError:
        return load_spec(source, has_rows=has_rows, datasource=datasource)
    return _loaded(plain, has_rows, datasource)


@lru_cache(maxsize=KEPT_MAX)
def _loaded(plain: bytes, has_rows: bool, datasource: str | None) -> IngestSpec:
    source = marshal.loads(plain)  # noqa: S302 - our own
    return load_spec(source, has_rows=has_rows, datasource=datasource)


def with_input(
    spec: IngestSpec, source: object, *, writer: str | None = None, batch: str | None = None
) -> IngestSpec:
    """Return a spec that does the same to the rows of another input, as another batch of a writer if one is named.

    Raises:
        Invalid: It does not go together.
    """
    changed: dict[str, object] = {"input": source}
    if writer is not None or batch is not None:
        changed |= {"writer": writer, "batch": batch}
    elif source == NO_INPUT and isinstance(spec.input, FrameInput):
        return spec
    check_texts(changed, "the spec")
    return _changed(spec, changed)


def as_replacement(spec: IngestSpec, intervals: Sequence[Interval]) -> IngestSpec:
    """Return a spec that replaces with the same rows.

    Args:
        intervals: Intervals to replace; none: those of the spec, else the time chunks that rows fall into.

    Raises:
        Invalid: They do not go with its granularity.
    """
    changed: dict[str, object] = {"mode": "replace"}
    if intervals:
        changed["granularity"] = spec.granularity.model_copy(update={"intervals": tuple(intervals)})
        changed["replace_scope"] = "intervals"
    return _changed(spec, changed)


def _changed(spec: IngestSpec, changed: Mapping[str, object]) -> IngestSpec:
    kept = {name: getattr(spec, name) for name in IngestSpec.model_fields}
    return validated(IngestSpec, {**kept, **changed}, Findings())


def _load(
    value: object, *, has_rows: bool, datasource: str | None, name: str | None = None
) -> IngestSpec:
    if not isinstance(value, Mapping):
        raise Invalid(f"a spec is an object with fields, not {kind_of(value, name)}")
    check_texts(value, "the spec")
    if is_druid_spec(value):
        return _from_druid(value, has_rows=has_rows)
    if has_rows and not {"input", "inputSource"} & value.keys():
        value = {**value, "input": NO_INPUT}
    if datasource is not None:
        value = {"dataSource": datasource, **value}
    spec, problems = _validate(value)
    raise_problems(problems)
    assert spec is not None  # noqa: S101 - raise_problems returns only if there is none
    if isinstance(spec.input, QueryInput):
        take_externals(spec.input.query)  # a wrong one fails before anything runs
    return spec


def parse_text(text: str, *, what: str = "spec") -> object:
    """Return what a JSON or YAML text says, as Python objects; `what` is its name in messages.

    Raises:
        Invalid: It is neither, with the line; or it is too long, too deep, or too much once its aliases are followed.
    """
    text = text.removeprefix("\ufeff")
    if re.match(
        r"\s*[{[]\s*([\"{[\]}]|$)", text
    ):  # JSON, and YAML without a text that is not quoted
        return parse_json(text, what)
    if len(text) > YAML_LENGTH_MAX:
        raise Invalid(
            f"the {what} has {len(text):,} characters; at most {YAML_LENGTH_MAX:,} are read as YAML; write JSON"
        )
    try:
        value = yaml.load(text, Loader=partial(_Bounded, what=what))  # type: ignore[arg-type] # noqa: S506 - it is safe
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise Invalid(f"the {what} is not valid YAML: {where}{error.problem}") from None
    except yaml.YAMLError:
        raise Invalid(
            f"the {what} is not valid YAML: it holds a character that YAML forbids"
        ) from None
    except ValueError as error:
        raise Invalid(
            f"the {what} holds a value that cannot be read: {short(str(error))}"
        ) from None
    check_letters(text, value, what)
    return value


class _Bounded(yaml.SafeLoader):
    """Reads YAML of bounded depth and size; aliases count as their values. Times stay texts, as in JSON.

    A mapping that names a field twice is refused.
    """

    def __init__(self, text: str, *, what: str) -> None:
        super().__init__(text)
        self._what = what
        self._depth = self._count = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise Invalid(
                f"the {self._what} is nested deeper than {NESTING_MAX} levels; make it flatter"
            )
        before = self._count
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise Invalid(
                f"the {self._what} is not valid YAML: an alias stands inside of its own anchor"
            )
        self._count += self._sizes[id(node)] if is_alias else 1
        if self._count > VALUES_MAX:
            raise Invalid(
                f"the {self._what} holds more than {VALUES_MAX:,} values once its aliases are followed"
            )
        if not is_alias:
            self._sizes[id(node)] = self._count - before
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        check_names([key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return super().construct_mapping(node, deep)


_Bounded.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def kind_of(value: object, name: str | None) -> str:
    """Return what a value that is no object is, in words; `name` is of the file that it is from, if it is."""
    if value is None:
        return "an empty text"
    if isinstance(value, str):
        where = "; to read a file, give its content" if name is None else f" of {name}"
        return f"the text '{cut(' '.join(value.split()), 60)}'{where}"
    return "a list" if isinstance(value, list) else f"{value!r}"


def _validate(value: Mapping[str, Any]) -> tuple[IngestSpec | None, list[Problem]]:
    try:
        spec = IngestSpec.model_validate(dict(value))
    except ValidationError as error:
        problems = [explain(details, IngestSpec) for details in error.errors()]
        return None, [*problems, *check_transforms(_expressions_of(value))]
    return spec, check_transforms(spec)


def _expressions_of(value: Mapping[str, Any]) -> IngestSpec:
    """Return what computes in a spec that is wrong elsewhere, as far as it can be read; nothing else is in it."""
    found: dict[str, Any] = {"transforms": TransformSpec(), "metrics": ()}
    for name, key, kind in (
        ("transforms", "transformSpec", TypeAdapter(TransformSpec)),
        ("metrics", "metricsSpec", TypeAdapter(tuple[MetricSpec, ...])),
    ):
        block = value.get(key, value.get(name))
        if name == "transforms" and isinstance(block, list | tuple):
            block = {"transforms": block}
        with suppress(ValidationError):
            found[name] = kind.validate_python(block)
    return IngestSpec.model_construct(**found)


def _from_druid(value: Mapping[str, Any], *, has_rows: bool) -> IngestSpec:
    native, findings, place = convert(value, has_rows=has_rows)
    spec, problems = _validate(native)
    found = [*findings.problems, *(Problem(place(p.path), p.message) for p in problems)]
    raise_problems(found)
    assert spec is not None  # noqa: S101 - raise_problems returns only if there is none
    return spec
