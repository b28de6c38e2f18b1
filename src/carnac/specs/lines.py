"""Where in a text each field of a spec stands, so that a mistake is named with its line.

Only the text of a spec that is wrong is looked at; JSON is read as the YAML that it nearly always is. Where that does
not go, mistakes are named without lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import yaml
from pydantic import BaseModel

from carnac.errors import Invalid
from carnac.specs.problems import Problem, field_names, nested_models, raise_problems

LENGTH_MAX = 1 << 18
"""Characters of a text whose fields are looked for."""
DEPTH_MAX = 64
_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def with_lines(error: Invalid, text: str, *, name: str | None, root: type[BaseModel]) -> Invalid:
    """Return the error of a wrong spec with the lines of its problems, and the name of the file.

    Args:
        name: Of the file; None: there is none.
        root: Model of the text's content, which knows by which names a field may be written.
    """
    listed = error.ids.get("problems")
    if not isinstance(listed, list):
        return error
    lines = find_lines(text, [str(one["path"]) for one in listed], root)
    problems = [Problem(one["path"], one["message"], lines.get(str(one["path"]))) for one in listed]
    try:
        raise_problems(problems, name=name)
    except Invalid as named:
        return named
    return error


def find_lines(text: str, paths: Sequence[str], root: type[BaseModel]) -> Mapping[str, int]:
    """Return the line, from 1, of the field at each path, or of the nearest one around it that is there."""
    if "\n" not in text.strip() or len(text) > LENGTH_MAX:
        return {}
    try:
        tree = yaml.compose(text.replace("\t", " "), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    if tree is None:
        return {}
    names = _spellings(root)
    return {path: _line_of(tree, path, names) for path in paths}


def _line_of(tree: yaml.Node, path: str, names: Mapping[str, frozenset[str]]) -> int:
    node, line = tree, tree.start_mark.line + 1
    for word, index in _PART.findall(path)[:DEPTH_MAX]:
        found = _child(node, word, index, names)
        if found is None and word and isinstance(node, yaml.SequenceNode):
            continue  # a list in place of the block that holds it
        if found is None:
            break
        node, line = found
    return line


def _child(
    node: yaml.Node, word: str, index: str, names: Mapping[str, frozenset[str]]
) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
        found = node.value[int(index)]
        return found, found.start_mark.line + 1
    if isinstance(node, yaml.MappingNode) and word:
        meant = names.get(word, frozenset({word}))
        for key, value in node.value:
            if key.value == word or names.get(str(key.value), frozenset()) & meant:
                return value, key.start_mark.line + 1
    return None


@cache
def _spellings(root: type[BaseModel]) -> Mapping[str, frozenset[str]]:
    """Return what each spelling of a field may mean, anywhere in a spec."""
    found: dict[str, set[str]] = {}
    for model in _all_models(root):
        for spelling, written in field_names(model).items():
            found.setdefault(spelling, set()).add(written)
    return {spelling: frozenset(written) for spelling, written in found.items()}


def _all_models(root: type[BaseModel]) -> Iterator[type[BaseModel]]:
    seen: set[type[BaseModel]] = set()
    todo = [root]
    while todo:
        model = todo.pop()
        if model in seen:
            continue
        seen.add(model)
        yield model
        for info in model.model_fields.values():
            todo += nested_models(info.annotation)
