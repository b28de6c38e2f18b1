"""Problems of a spec: all of them at once, each with its place and what to do.

`Findings` collects while a spec is read; `explain` turns pydantic's errors into the same sentences.
The one error at the end names every problem, so that a spec is mended in one go.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_args

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from carnac.core.redaction import hide_passwords
from carnac.core.texts import short
from carnac.errors import Invalid

M = TypeVar("M", bound=BaseModel)

TAGS = frozenset("files inline frame json csv tsv parquet orc arrow dynamic hashed range".split())
"""Kinds of blocks that pydantic puts into the place of an error; people do not write them there."""

_TAGGED = frozenset(
    ("input", "inputSource", "inputFormat", "format", "partitionsSpec", "partitions")
)
_PLAIN = {
    "missing": "is required",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "union_tag_not_found": "needs a type",
    "string_too_short": "must not be empty",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a spec.

    Attributes:
        path: Place in the spec, as `a.b[0].c`; empty for the whole spec.
        message: The problem, and what to do.
        line: Of the text that it was read from, from 1; None: not known.
    """

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f"line {self.line}"
        place = f"{self.path} ({line})" if self.path and line else self.path or line
        return f"{place}: {self.message}" if place else self.message


@dataclass(slots=True)
class Findings:
    """Problems, and fields without effect, in the order in which they are met."""

    problems: list[Problem] = field(default_factory=list)
    ignored: list[tuple[str, str]] = field(default_factory=list)

    def problem(self, path: str, message: str) -> None:
        """Note that something is wrong."""
        self.problems.append(Problem(path, message))

    def ignore(self, path: str, reason: str) -> None:
        """Note that a field has no effect."""
        self.ignored.append((path, reason))


def raise_problems(problems: Iterable[Problem], *, name: str | None = None) -> None:
    """Raise one error that names all the problems; do nothing if there are none.

    Args:
        name: Of the file; None: there is none.

    Raises:
        Invalid: There is a problem; `ids["problems"]` lists them as `{"path", "message"}`, with a `line` where it is
            known.
    """
    found = list(dict.fromkeys(problems))
    if not found:
        return
    what = "wrong spec" if name is None else f"wrong spec {name}"
    if len(found) == 1:
        text = f"{what}: {found[0]}"
    else:
        listed = "; ".join(f"({index}) {problem}" for index, problem in enumerate(found, 1))
        text = f"{what}, {len(found)} problems: {listed}"
    raise Invalid(text, problems=[_to_json(problem) for problem in found])


def _to_json(problem: Problem) -> dict[str, object]:
    block: dict[str, object] = {"path": problem.path, "message": problem.message}
    return block if problem.line is None else {**block, "line": problem.line}


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name that is most like `name`; empty if none is."""
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`; None if none is."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def validated(model: type[M], native: Mapping[str, Any], findings: Findings) -> M:
    """Return the model that a mapping holds.

    Raises:
        Invalid: It is wrong, or something was found before; names all of it.
    """
    try:
        found = model.model_validate(dict(native))
    except ValidationError as error:
        problems = [explain(details, model) for details in error.errors()]
        raise_problems([*findings.problems, *problems])
        raise
    raise_problems(findings.problems)
    return found


def explain(error: ErrorDetails, model: type[BaseModel]) -> Problem:
    """Return one of pydantic's errors as a problem; `model` is what was being read."""
    loc = error["loc"]
    path = format_path(loc)
    kind = error["type"]
    if kind == "extra_forbidden":
        return Problem(path, _unknown_field(str(loc[-1]), _models_at(model, loc[:-1]), model))
    if kind in _PLAIN:
        return Problem(path, _PLAIN[kind] + _given(kind, error["input"]))
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "spec":
        return Problem(path, str(context["message"]))
    if kind == "literal_error":
        expected = str(context["expected"]).replace(" or ", ", ").replace("'", "")
        near = suggest(str(error["input"]), expected.split(", "))
        return Problem(path, f"{_shown(error['input'])} is not one of {expected}{near}")
    if kind == "union_tag_invalid":
        expected = str(context["expected_tags"]).replace("'", "")
        return Problem(path, f"type '{context['tag']}' is not one of {expected}")
    if kind == "too_short":
        return Problem(path, "must not be empty")
    words = error["msg"][0].lower() + error["msg"][1:]
    return Problem(
        path, f"{words.replace('input should be', 'must be')}, not {_shown(error['input'])}"
    )


def _given(kind: str, value: object) -> str:
    return f", not {_shown(value)}" if kind.startswith(("int", "bool", "string_type")) else ""


def _shown(value: object) -> str:
    """Return a value as a message shows it: only its kind unless it is plain, for it may be long or a secret."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return hide_passwords(short(value))


def format_path(loc: tuple[int | str, ...]) -> str:
    """Return the place of an error as people write it: `metricsSpec[0].name`."""
    path = ""
    previous: int | str = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not (part in TAGS and previous in _TAGGED):
            path += f".{part}" if path else part
        previous = part
    return path


@cache  # of the few models there are, asked once for every field that is wrong
def field_names(model: type[BaseModel]) -> Mapping[str, str]:
    """Return, for every spelling that is read, the spelling that is written."""
    names: dict[str, str] = {}
    for name, info in model.model_fields.items():
        written = info.serialization_alias or name
        alias = info.validation_alias
        spellings = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
        names[name] = written
        names.update({str(spelling): written for spelling in spellings})
    return names


def nested_models(annotation: object) -> list[type[BaseModel]]:
    """Return the blocks that a field's annotation names, through unions, tuples and annotations."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in nested_models(inner)]


def _models_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[type[BaseModel]]:
    current = [model]
    for part in loc:
        if isinstance(part, int):
            continue
        tagged = [m for m in current if "type" in m.model_fields and _default_type(m) == part]
        if tagged:
            current = tagged
            continue
        current = [
            inner
            for candidate in current
            for name, info in candidate.model_fields.items()
            if part in _spellings(candidate, name)
            for inner in nested_models(info.annotation)
        ]
    return current


def _default_type(model: type[BaseModel]) -> object:
    return model.model_fields["type"].default


@cache
def _spellings(model: type[BaseModel], name: str) -> frozenset[str]:
    written = field_names(model)[name]
    return frozenset(
        spelling for spelling, target in field_names(model).items() if target == written
    )


def _unknown_field(name: str, models: list[type[BaseModel]], root: type[BaseModel]) -> str:
    known = {spelling for model in models for spelling in field_names(model)}
    if name in known:
        return "is given under two names; keep one of them"
    home = _home_of(name, root)
    if home is not None:
        return f"unknown field; it belongs into {home}"
    return f"unknown field{suggest(name, known) or '; remove it'}"


def _home_of(name: str, root: type[BaseModel]) -> str | None:
    """Return the block of the spec that has a field of this name; None for names that every block has."""
    if name in ("type", "name"):
        return None
    for outer, info in root.model_fields.items():
        written = info.serialization_alias or outer
        if any(name in field_names(model) for model in nested_models(info.annotation)):
            return written
    return None
