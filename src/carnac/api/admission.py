"""Admission of tasks and compaction specs over HTTP, where the client may be anybody who reaches the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carnac.rows.read.roots import InputRoots
from carnac.specs.compaction.spec import CompactionSpec, load_compaction
from carnac.specs.ingest.inputs import FilesInput, QueryInput
from carnac.specs.sql.external import take_externals
from carnac.specs.supervisors.kafka import load_supervisor
from carnac.specs.tasks.admission import (
    ORIGIN_KEY,
    OVER_HTTP,
    check_expressions,
    check_spark_settings,
    check_spec_expressions,
)
from carnac.specs.tasks.spec import AnyTask, IngestTask, load_task_text


class Admission:
    """Checks that tasks ask for no more than clients may.

    Args:
        input_roots: Folders and URLs below which tasks may read.
        spark_settings: Further settings of Spark that tasks may set.
    """

    def __init__(self, *, input_roots: Sequence[str], spark_settings: Sequence[str] = ()) -> None:
        self._roots = InputRoots(input_roots)
        self._spark_settings = spark_settings

    def admit_compaction(self, body: Mapping[str, object]) -> CompactionSpec:
        """Return how a datasource is to be compacted by itself.

        Raises:
            Invalid: It is wrong, or its tasks would ask for more than those of a client may.
        """
        spec = load_compaction(body)
        check_spark_settings(spec.task_context, self._spark_settings)
        check_expressions(spec)
        return spec

    def admit_supervisor(self, body: Mapping[str, object]) -> None:
        """Check what the tasks of a supervisor would do.

        Raises:
            Invalid: It is wrong, or its tasks would ask for more than those of a client may.
        """
        supervisor = load_supervisor(body)
        check_spark_settings(supervisor.context, self._spark_settings)
        check_spec_expressions(supervisor.load)

    def admit(self, payload: Mapping[str, object], text: str = "") -> Mapping[str, object]:
        """Return a task as it is to be kept: one that reads files says where it came from.

        Its attempt looks again, when it finds the files.

        Args:
            text: That the payload was read from; mistakes are named with its lines.

        Raises:
            Invalid: It is wrong, or asks for more than it may.
        """
        task = load_task_text(payload, text, name=None)
        check_spark_settings(task.context, self._spark_settings)
        check_expressions(task)
        files = _files_of(task)
        if not files:
            return payload
        for pattern in (pattern for one in files for pattern in one.paths):
            self._roots.check_pattern(pattern)
        context = payload.get("context")
        return {
            **payload,
            "context": {**(context if isinstance(context, Mapping) else {}), ORIGIN_KEY: OVER_HTTP},
        }


def _files_of(task: AnyTask) -> list[FilesInput]:
    """Return the files that a task reads."""
    if not isinstance(task, IngestTask):
        return []
    source = task.spec.input
    inputs = [source]
    if isinstance(source, QueryInput):
        inputs = [one.input for one in take_externals(source.query)[1]]
    return [one for one in inputs if isinstance(one, FilesInput)]
