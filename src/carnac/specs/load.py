"""Read a spec from JSON, YAML or Python objects; Druid's own batch specs are read as they are.

    load_spec('{"dataSource": "w", "input": "edits/*.json.gz"}')
    load_spec({"type": "index_parallel", "spec": {...}})

Nothing is read from disk here: give the text of a file, not its name.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from carnac.errors import Invalid
from carnac.specs.base import NO_INPUT
from carnac.specs.druid.ingest import convert, is_druid_spec
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.ingest.transforms import check_transforms
from carnac.specs.problems import Problem, explain, raise_problems


def load_spec(
    source: str | Mapping[str, Any] | IngestSpec, *, has_rows: bool = False
) -> IngestSpec:
    """Return the spec that a text (JSON or YAML) or a mapping holds.

    Takes the native form (`carnac.specs.ingest.spec`), and Druid's tasks `index_parallel` and `index`
    with or without their envelope.

    Args:
        has_rows: Rows, or the files to read, are named next to it, so that it need not name an input.

    Raises:
        Invalid: The text is neither JSON nor YAML, or the spec is wrong; one sentence that names
            every problem with its place.
    """
    if isinstance(source, IngestSpec):
        return source
    value = parse_text(source) if isinstance(source, str) else source
    if not isinstance(value, Mapping):
        raise Invalid(f"a spec is an object with fields, not {kind_of(value)}")
    if is_druid_spec(value):
        return _from_druid(value, has_rows=has_rows)
    if has_rows and not {"input", "inputSource"} & value.keys():
        value = {**value, "input": NO_INPUT}
    spec, problems = _validate(value)
    raise_problems(problems)
    assert spec is not None  # noqa: S101 - raise_problems returns only if there is none
    return spec


def parse_text(text: str, *, what: str = "spec") -> object:
    """Return what a JSON or YAML text says, as Python objects; `what` is its name in messages.

    Raises:
        Invalid: It is neither; the message has the line.
    """
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_once_each)
        except json.JSONDecodeError as error:
            raise Invalid(
                f"the {what} is not valid JSON: line {error.lineno}, column {error.colno}: "
                f"{error.msg[0].lower()}{error.msg[1:]}"
            ) from None
    try:
        return yaml.load(text, Loader=_OnceEach)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise Invalid(f"the {what} is not valid YAML: {where}{error.problem}") from None
    except yaml.YAMLError:
        raise Invalid(
            f"the {what} is not valid YAML: it holds a character that YAML forbids"
        ) from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_names([name for name, _ in pairs])
    return dict(pairs)


class _OnceEach(yaml.SafeLoader):
    """Reads YAML, and refuses a mapping that names a field twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _check_names([key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return super().construct_mapping(node, deep)


def _check_names(names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise Invalid(f"{', '.join(repeated)} is given more than once; keep one of them")


def kind_of(value: object) -> str:
    """Return what a value that is no object is, in words."""
    if value is None:
        return "an empty text"
    if isinstance(value, str):
        return f"the text '{value[:60]}'; to read a file, give its content"
    return "a list" if isinstance(value, list) else f"{value!r}"


def _validate(value: Mapping[str, Any]) -> tuple[IngestSpec | None, list[Problem]]:
    try:
        spec = IngestSpec.model_validate(dict(value))
    except ValidationError as error:
        return None, [explain(details, IngestSpec) for details in error.errors()]
    return spec, check_transforms(spec)


def _from_druid(value: Mapping[str, Any], *, has_rows: bool) -> IngestSpec:
    native, findings, place = convert(value, has_rows=has_rows)
    spec, problems = _validate(native)
    found = [*findings.problems, *(Problem(place(p.path), p.message) for p in problems)]
    raise_problems(found)
    assert spec is not None  # noqa: S101 - raise_problems returns only if there is none
    return spec
