"""Parameters of a statement: `?` and `$1` by their place, `$name` by their name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from carnac.core.texts import short
from carnac.core.words import counted
from carnac.errors import Invalid
from carnac.query.messages import did_you_mean
from carnac.query.syntax import Node, walk

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]


def take_parameters(statement: Node, given: Parameters) -> Sequence[object]:
    """Return the values in the order of their places; in the tree, parameters that have names get places.

    Args:
        given: A list for those without names, a mapping for those with names.

    Raises:
        Invalid: A value is missing, or belongs to nothing; a mapping was given for places, or a list for names.
    """
    nodes = [node for node in walk(statement["node"]) if node.get("class") == "PARAMETER"]
    asked = sorted({str(node["identifier"]) for node in nodes})
    named = [name for name in asked if not name.isdigit()]
    if not isinstance(given, Mapping):
        if named:
            raise Invalid(
                f"the statement has ${named[0]}, whose value is given by name: parameters={{'{named[0]}': …}},"
                f" --param {named[0]}=…"
            )
        places = max(map(int, asked), default=0)
        if places != len(given):
            raise Invalid(
                f"the statement has {counted(places, 'parameter')}, and {counted(len(given), 'value')} "
                f"{'was' if len(given) == 1 else 'were'} given; give one for each"
            )
        return given
    if len(named) != len(asked):
        raise Invalid(
            "the statement has parameters without names, ? or $1; their values are given in a list"
        )
    _check_names(named, given)
    places_of = {name: place for place, name in enumerate(named, 1)}
    for node in nodes:
        node["identifier"] = str(places_of[str(node["identifier"])])
    statement["named_param_map"] = [
        {"key": str(place), "value": place} for place in places_of.values()
    ]
    return [given[name] for name in named]


def _check_names(asked: Sequence[str], given: Mapping[str, object]) -> None:
    for name in asked:
        if name not in given:
            near = did_you_mean(name, [str(one) for one in given])
            raise Invalid(f"the statement has ${name}, and no value of that name was given{near}")
    for name in given:
        if name not in asked:
            known = ", ".join(f"${one}" for one in asked) or "none"
            raise Invalid(
                f"{short(name)} is no parameter of the statement; its parameters are {known}"
            )
