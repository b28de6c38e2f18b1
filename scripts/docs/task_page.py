"""The reference page of tasks, made of the models: `docs/reference/task.md`."""

from __future__ import annotations

import re

from carnac.specs.base import SpecModel
from carnac.specs.tasks.spec import (
    CleanTask,
    CompactTask,
    DeleteTask,
    IngestTask,
    KillTask,
    SelectTask,
    TaskSpec,
)
from scripts.docs.spec_page import block_table

BLOCKS: tuple[tuple[type[SpecModel], str], ...] = (
    (TaskSpec, "Every task"),
    (IngestTask, "index_parallel, index, replace"),
    (SelectTask, "query_controller"),
    (CompactTask, "compact"),
    (DeleteTask, "delete"),
    (KillTask, "kill"),
    (CleanTask, "clean"),
)

_INTRO = """# Tasks

<!-- Made from the code by `make docs`; do not edit. -->

This page lists the fields of tasks, in JSON, YAML or Python, for `carnac task submit`, `carnac.open_tasks(…).submit`
and `POST /druid/indexer/v1/task`. [Tasks](../concepts/tasks.md) explains their life. Druid's `index_parallel`, `index`,
`compact` and `kill` tasks are read unchanged. Unknown fields, and unsupported ones that would change the result, are
errors; one message names them all.

```yaml
type: compact
dataSource: edits
interval: 2015-09-01/2015-10-01
target: {segmentGranularity: day}
context: {priority: 30, retries: 2}
```

The context controls dispatch, retries and locks of the task:

| key | default | meaning |
|---|---|---|
| `priority` | by type | higher ones start first and preempt: 75 streams, 50 batches, 25 compaction, 0 others |
| `slots` | 1 | number of the overlord's `task_slots` that an attempt takes |
| `retries` | 3 | number of failures that are followed by another attempt |
| `retryDelayMs` | 1000 | pause before the second attempt; it doubles with each failure |
| `longestRetryDelayMs` | 300000 | longest pause |
| `taskLockTimeout` | 300000 | time limit for waiting for a lock, in milliseconds |
| `forceTimeChunkLock` | false | lock whole time chunks ([locking](../concepts/locking.md)) |
| `taskLockType` | by type | `EXCLUSIVE`, `SHARED`, `REPLACE` or `APPEND` |
| `sparkConf` | | settings of the task's own Spark driver, by name |
| `origin` | | `http` if a task that reads files [came over HTTP](../concepts/overlord.md#what-is-open-to-whom) |

Other keys are carried along.
"""


def render() -> str:
    """Return the page, as Markdown."""
    parts = [_INTRO]
    for model, heading in BLOCKS:
        schema = model.model_json_schema(by_alias=True, mode="validation")
        table = block_table(model, heading, "", schema)
        parts.append(table if model is TaskSpec else _without_shared(table))
    text = (
        "\n".join(parts)
        .replace(" | in Druid |", " |")
        .replace("---|---|---|---|---|", "---|---|---|---|")
    )
    text = re.sub(r" \| (–|`[^`|]*`) \|$", " |", text, flags=re.MULTILINE)
    text = text.replace("](#the-spec)", "](spec.md#the-spec)")
    return text.replace("](#ignored-field)", "](spec.md#ignored-field)").rstrip() + "\n"


def _without_shared(table: str) -> str:
    """Return the section without the fields that every task has."""
    names = {"id", "groupId", "dependencies", "context", "ignored"}
    return "\n".join(
        line
        for line in table.split("\n")
        if not any(line.startswith(f"| `{name}` |") for name in names)
    )
