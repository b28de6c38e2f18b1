"""The reference page of scenarios, made of the models: `docs/reference/scenario.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from carnac.simulation.presets import PRESETS
from carnac.simulation.scenario import (
    Datasources,
    History,
    LoadRule,
    Queries,
    Scenario,
    ServerEvent,
    Span,
    Tier,
)
from carnac.specs.base import SpecModel
from carnac.specs.problems import field_names, nested_models

_INTRO = """\
# Scenario

<!-- Made by `make docs`; do not edit. -->

This page lists the fields of a scenario for `carnac balance simulate`, in JSON or YAML;
[balancing](../concepts/balancing.md) explains the simulation. The strategy takes over at hour 0; the history runs
before it, in negative hours. `--preset NAME --print-scenario` prints a preset: {presets}.

```yaml
tiers: [{{servers: 20, diskGb: 500}}]
datasources:
  - {{name: clicks, count: 3, partitions: 4, skew: 0.5, load: [{{days: 60, replicas: 2}}]}}
  - {{name: reports, granularity: day, load: [{{days: 60}}]}}
history: {{days: 60, strategy: legacy, movesPerHour: 40}}
events: [{{atHour: 30, kind: replace}}]
```
"""

BLOCKS: tuple[tuple[str, type[SpecModel]], ...] = (
    ("The scenario", Scenario),
    ("`tiers`: a tier", Tier),
    ("`datasources`: datasources of one kind", Datasources),
    ("`load`: a load rule", LoadRule),
    ("`history`", History),
    ("`queries`", Queries),
    ("`spans`: a span", Span),
    ("`events`: an event", ServerEvent),
)


def render() -> str:
    """Return the page, as Markdown."""
    names = ", ".join(f"`{name}`" for name in PRESETS)
    parts = [_INTRO.format(presets=names)]
    for title, model in BLOCKS:
        parts.append(
            f"## {title}\n\n| field | | default |\n|---|---|---|\n" + "\n".join(_rows(model))
        )
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _rows(model: type[SpecModel]) -> Iterator[str]:
    names = field_names(model)
    for name, info in model.model_fields.items():
        text = (info.description or "").replace("|", "\\|")
        yield f"| `{names[name]}` | {text}{_choices(info)} | {_default(info)} |"


def _choices(info: FieldInfo) -> str:
    values = [value for value in get_args(info.annotation) if isinstance(value, str)]
    return f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""


def _default(info: FieldInfo) -> str:
    if info.is_required() or info.default is PydanticUndefined:
        return "required"
    if nested_models(info.annotation) or info.default == ():
        return "see below" if info.default != () else "none"
    return f"`{info.default}`"
