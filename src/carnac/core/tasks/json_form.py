"""Tasks and attempts as JSON objects: what the command line prints and the HTTP API answers."""

from __future__ import annotations

import json
from typing import cast

from carnac.core.json_form import to_json
from carnac.core.redaction import show_settings
from carnac.core.tasks.model import Attempt, Task


def task_to_json(task: Task) -> dict[str, object]:
    """Return a task; its context is an object without secrets, and its digest, which is ours alone, is left out."""
    value = cast("dict[str, object]", to_json(task))
    del value["digest"]
    return {**value, "context": show_settings(json.loads(task.context))}


def attempt_to_json(attempt: Attempt) -> dict[str, object]:
    """Return an attempt; its progress is an object."""
    value = cast("dict[str, object]", to_json(attempt))
    return {**value, "progress": None if attempt.progress is None else json.loads(attempt.progress)}
