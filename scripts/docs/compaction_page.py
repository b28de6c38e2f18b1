"""The reference page of compaction specs, made of the models: `docs/reference/compaction.md`."""

from __future__ import annotations

import re

from carnac.specs.base import SpecModel
from carnac.specs.compaction.spec import (
    CompactionAgeRule,
    CompactionGranularity,
    CompactionSpec,
    CompactionTransform,
    CompactionTuning,
)
from scripts.docs.spec_page import block_table

BLOCKS: tuple[tuple[type[SpecModel], str], ...] = (
    (CompactionSpec, "The compaction spec"),
    (CompactionAgeRule, "Age rule"),
    (CompactionGranularity, "Granularity"),
    (CompactionTransform, "Transform"),
    (CompactionTuning, "Tuning"),
)

_INTRO = """# Compaction spec

<!-- Made from the code by `make docs`; do not edit. -->

This page lists the fields of a compaction spec, in JSON, YAML or Python. The spec is Druid's automatic compaction
configuration, read unchanged. [Compaction](../concepts/compaction.md) explains how it is applied.

This spec keeps raw rows for a week, hours for a month, and days after that:

```yaml
dataSource: edits
granularitySpec: {segmentGranularity: hour}
ageRules:
  - olderThan: P7D
    granularitySpec: {segmentGranularity: day, queryGranularity: hour}
    metricsSpec: [{type: count, name: edits}, {type: longSum, name: added}]
    allowLossy: true
  - olderThan: P1M
    granularitySpec: {segmentGranularity: month, queryGranularity: day}
    metricsSpec: [{type: count, name: edits}, {type: longSum, name: added}]
    dimensionsSpec: [page]
    allowLossy: true
```

Fields for the internals of Druid's tasks (`engine`, `ioConfig.dropExisting`, most of `tuningConfig`) have no effect:
`carnac compaction set` names those that are given, and keeps them as `ignored`. A null field counts as left
out. The old `maxRowsPerSegment` and `single_dim` are read, and so is the envelope of a compaction supervisor
(`autocompact`). An unknown field is an error, and so is an irreversible step without `allowLossy`. `transforms`, a
metric's filter and `dimensionExclusions` belong to ingestion. `ageRules` take the place of `reindexCascade`. A
[compact task](task.md) takes the same blocks.
"""


def render() -> str:
    """Return the page, as Markdown."""
    schema = CompactionSpec.model_json_schema(by_alias=True, mode="validation")
    parts = [_INTRO]
    for model, heading in BLOCKS:
        parts.append(block_table(model, heading, "", schema["$defs"].get(model.__name__) or schema))
    text = (
        "\n".join(parts)
        .replace(" | in Druid |", " |")
        .replace("---|---|---|---|---|", "---|---|---|---|")
    )
    text = re.sub(r" \| (–|`[^`|]*`) \|$", " |", text, flags=re.MULTILINE)
    for model, heading in BLOCKS:
        anchor = heading.lower().replace(" ", "-")
        text = text.replace(f"| {model.__name__} |", f"| [{heading.lower()}](#{anchor}) |")
        text = text.replace(f"list of {model.__name__}", f"list of [{heading.lower()}](#{anchor})")
    return (
        text.replace("](#partitions", "](spec.md#partitions")
        .replace("](#dim", "](spec.md#dim")
        .replace("](#metric", "](spec.md#metric")
        .replace("](#ignored", "](spec.md#ignored")
        .rstrip()
        + "\n"
    )
