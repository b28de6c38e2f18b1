"""Read a scenario from JSON, YAML, Python objects or a preset, and change parts of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from carnac.errors import Invalid
from carnac.simulation.presets import PRESETS
from carnac.simulation.scenario import Scenario
from carnac.specs.load import parse_text
from carnac.specs.problems import explain, suggest


def load_scenario(source: str | Mapping[str, Any]) -> Scenario:
    """Return the scenario that a text (JSON or YAML) or a mapping holds.

    Raises:
        Invalid: It is neither, or the scenario is wrong; one sentence that names every problem with its place.
    """
    value = parse_text(source, what="scenario") if isinstance(source, str) else source
    if not isinstance(value, Mapping):
        raise Invalid("a scenario is an object with fields such as tiers and datasources")
    try:
        return Scenario.model_validate(dict(value))
    except ValidationError as error:
        found = list(dict.fromkeys(explain(details, Scenario) for details in _causes(error)))
    raise Invalid(
        f"wrong scenario: {'; '.join(str(item) for item in found)}",
        problems=[{"path": item.path, "message": item.message} for item in found],
    )


def _causes(error: ValidationError) -> list[ErrorDetails]:
    """Return its details without those that only follow: a list whose one element is wrong is not empty."""
    every = error.errors()
    places = [details["loc"] for details in every]

    def follows(loc: tuple[int | str, ...]) -> bool:
        return any(at[: len(loc)] == loc and at != loc for at in places)

    return [
        details
        for details in every
        if details["type"] != "too_short" or not follows(details["loc"])
    ]


def load_preset(name: str) -> Scenario:
    """Return the scenario of that name.

    Raises:
        NotFound: There is none.
    """
    if name not in PRESETS:
        raise Invalid(
            f"there is no preset '{name}'; there are {', '.join(PRESETS)}{suggest(name, PRESETS)}"
        )
    return load_scenario(PRESETS[name])


def change_scenario(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """Return the scenario with some of its fields replaced, checked anew.

    Raises:
        Invalid: The result is wrong.
    """
    return load_scenario({**scenario.to_json_dict(), **changes}) if changes else scenario
