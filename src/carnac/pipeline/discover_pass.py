"""Pass 0, only for specs that leave dimensions or their types open: one look at all rows, a task per split."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from carnac.pipeline.discover import SeenFields, discover_fields
from carnac.pipeline.duck import connect
from carnac.pipeline.reading import ReadTask
from carnac.pipeline.tasks import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverTask:
    """What one task looks at. Picklable.

    Attributes:
        job_id: Of the job; names its scratch folders.
    """

    job_id: str
    read: ReadTask
    memory_bytes: int


def discover_split(task: DiscoverTask, _attempt: Attempt) -> SeenFields:
    """Return the fields that the files of a task have."""
    folder = Path(tempfile.gettempdir()) / f"carnac-{task.job_id}-{os.getpid()}"
    read = replace(task.read, scratch_dir=str(folder))
    with connect(temp_dir=str(folder), memory_bytes=task.memory_bytes) as con:
        return discover_fields(con, read)
