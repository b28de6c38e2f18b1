"""Tasks: the work to be done on a store, as data. Druid's own task specs are read as they are.

    load_task({"type": "delete", "dataSource": "edits", "interval": "2015-09-12/2015-09-13"})

Every task has a type, and may have an id, a group, tasks that it depends on, and a context. One error names all
problems of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from carnac.core.compaction.plan.group_records import group_from_json, target_from_json
from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget
from carnac.core.tasks.model import SELECTED
from carnac.core.texts import UNFIT, is_fit
from carnac.errors import Invalid
from carnac.specs.base import (
    IntervalField,
    SpecModel,
    Texts,
    as_problem,
    check_texts,
    named,
    problem,
)
from carnac.specs.compaction.spec import check_filter
from carnac.specs.druid.fields import INSTEAD
from carnac.specs.druid.rows import parse_condition
from carnac.specs.ingest.spec import IgnoredField, IngestSpec
from carnac.specs.lines import with_lines
from carnac.specs.load import load_spec
from carnac.specs.problems import Findings, Problem, raise_problems, suggest, validated
from carnac.specs.sql.parameters import parse_parameters
from carnac.specs.sql.statements import is_load_statement, spec_of_statement
from carnac.specs.supervisors.kafka import KafkaSupervisor, load_supervisor
from carnac.specs.tasks.druid import convert_compact, ignore_in_kill

INGEST_TYPES = ("index_parallel", "index", "replace", "query_controller")
QUERY_TYPE = "query_controller"
PAGE_ROWS = 100_000
PAGE_ROWS_MAX = 1_000_000
_HEAD = ("id", "groupId", "dependencies", "context")


def _datasource() -> Any:
    return named(
        "dataSource datasource", "The datasource that it is about.", min_length=1, max_length=255
    )


class TaskSpec(SpecModel):
    """The fields of every task."""

    task_id: str | None = named(
        "id taskId task_id",
        "Its id; submitted again under the same one, it is not a second task. Default: a new one.",
        default=None,
        min_length=1,
        max_length=255,
    )
    group_id: str | None = named(
        "groupId group_id",
        "Tasks of one group share their locks. Default: its id.",
        default=None,
        min_length=1,
    )
    dependencies: Texts = Field(
        default=(),
        description="Ids of tasks that must succeed before it starts; they are there already. It fails if one does.",
    )
    context: dict[str, Any] = Field(
        default_factory=dict,
        description="`priority`, `forceTimeChunkLock`, `taskLockType`, `taskLockTimeout` as in Druid; `slots`, "
        "`retries`, `retryDelayMs`, `longestRetryDelayMs`; `sparkConf`: settings of its own Spark driver; "
        "`allowMissing`: true if a declared column that no row has is null.",
    )
    ignored: tuple[IgnoredField, ...] = Field(
        default=(), description="Fields of a Druid spec that have no effect here."
    )

    @property
    def is_append(self) -> bool | None:
        """Whether it adds rows and takes none away; None: it takes no locks."""
        return False

    @field_validator("task_id", "group_id")
    @classmethod
    def _check_id(cls, value: str | None) -> str | None:
        if value is not None and not is_fit(value):
            raise problem(UNFIT)
        return value


class IngestTask(TaskSpec):
    """Ingest a batch: `index_parallel` and `index` as in Druid, `replace` what the rows' time chunks hold, or SQL."""

    type: Literal["index_parallel", "index", "replace", "query_controller"] = Field(
        description="`index_parallel` or `index`: as the spec says. `replace`: the same, and never an append. "
        "`query_controller`: an INSERT or REPLACE, in the field `query` in place of `spec`."
    )
    spec: IngestSpec = Field(
        description="An [ingestion spec](spec.md), Carnac's own or Druid's; Druid's envelope may be left as it is."
    )

    @property
    def datasource(self) -> str:
        """The datasource that it writes to."""
        return self.spec.datasource

    @property
    def is_append(self) -> bool | None:
        """Whether it appends, as its spec says."""
        return self.spec.mode == "append"

    @model_validator(mode="after")
    def _check_replaces(self) -> Self:
        if self.type == "replace" and self.spec.mode != "replace":
            raise problem("a replace task cannot append; remove appendToExisting, or set mode")
        return self


class SelectTask(TaskSpec):
    """Run a SELECT over one revision, and keep its rows for a while."""

    type: Literal["query_controller"] = Field(
        default="query_controller", description="`query_controller`."
    )
    query: str = Field(min_length=1, description="One SELECT statement.")
    parameters: tuple[dict[str, Any], ...] = Field(
        default=(),
        description="Values of its `?` in order, each an object with `type` and `value`.",
    )
    at: int | str | None = Field(
        default=None,
        description="The revision, time or tag to read. Default: the newest when it starts.",
    )
    engine: Literal["spark"] | None = Field(
        default=None, description="`spark`: on Spark. Default: in the process of the task."
    )
    max_rows: int | None = Field(
        default=None, ge=0, description="Maximum number of rows. Default: all."
    )
    rows_per_page: int = Field(
        default=PAGE_ROWS, ge=1, le=PAGE_ROWS_MAX, description="Maximum number of rows of a page."
    )
    columns: tuple[dict[str, str], ...] = Field(
        default=(), description="Its columns, as a broker told them: `name`, `type`, `nativeType`."
    )
    result_format: str | None = Field(
        default=None,
        description="Format in which its rows are sent unless another one is asked for.",
    )

    @property
    def datasource(self) -> str:
        """The name of none."""
        return SELECTED

    @property
    def is_append(self) -> bool | None:
        """None: it writes nothing, and takes no locks."""
        return None

    @property
    def values(self) -> list[object]:
        """The values of its `?`."""
        return parse_parameters(list(self.parameters))

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        as_problem(parse_parameters, list(self.parameters))
        return self


class CompactTask(TaskSpec):
    """Rewrite segments to the same rows in fewer, larger segments."""

    type: Literal["compact"] = Field(default="compact", description="`compact`.")
    datasource: str = _datasource()
    interval: IntervalField | None = Field(
        default=None,
        description="The time chunks to compact, in Druid also `ioConfig.inputSpec`. Default: all.",
    )
    segments: Texts | None = Field(
        default=None,
        description="Only these segments, by id: all others of their time chunks stay as they are.",
    )
    groups: tuple[dict[str, Any], ...] | None = Field(
        default=None, description="Compaction groups as the planner of compaction writes them."
    )
    target: dict[str, Any] = Field(
        default_factory=dict,
        description="What the rows become: `targetRows`, `targetBytes`, `partitioning`, `sortBy`, "
        "`segmentGranularity`, `queryGranularity`, `dimensions`, `metrics`, `filter`, `allowLossy`. In Druid "
        "`granularitySpec`, `dimensionsSpec`, `metricsSpec`, `transformSpec.filter`, `tuningConfig.partitionsSpec`. "
        "What is left out stays as it is.",
    )

    @model_validator(mode="after")
    def _check_inputs(self) -> Self:
        named = [self.segments is not None, self.groups is not None]
        if sum(named) > 1 or (self.groups is not None and self.interval is not None):
            raise problem("name an interval, segments, or groups, not several of them")
        groups = as_problem(self.compaction_groups)
        for target in (as_problem(self.compaction_target), *(group.target for group in groups)):
            if target.filter is not None:
                as_problem(check_filter, as_problem(parse_condition, target.filter))
        if len({group.group_id for group in groups}) < len(groups):
            raise problem("two compaction groups share an id; give each its own")
        others = sorted({group.datasource for group in groups} - {self.datasource})
        if others:
            raise problem(f"a compaction group is about {', '.join(others)}, not {self.datasource}")
        return self

    def compaction_target(self) -> CompactionTarget:
        """Return what the rows become."""
        return target_from_json(self.target)

    def compaction_groups(self) -> tuple[CompactionGroup, ...]:
        """Return the groups that are named."""
        return tuple(group_from_json(group) for group in self.groups or ())


class DeleteTask(TaskSpec):
    """Delete rows: by interval (metadata only), by predicate (rewrites segments), or both."""

    type: Literal["delete"] = Field(default="delete", description="`delete`.")
    datasource: str = _datasource()
    interval: IntervalField | None = Field(default=None, description="Only rows in this interval.")
    where: str | None = Field(
        default=None, min_length=1, description="Only rows for which this SQL predicate is true."
    )

    @model_validator(mode="after")
    def _check_what(self) -> Self:
        if self.interval is None and self.where is None:
            raise problem("say what to delete: interval, where, or both")
        return self


class KillTask(TaskSpec):
    """Delete the files of unused segments for good: those that no retained revision, tag or reader names."""

    type: Literal["kill"] = Field(default="kill", description="`kill`.")
    datasource: str = _datasource()
    interval: IntervalField | None = Field(
        default=None,
        description="Only segments whose time chunk lies in this interval. Default: all of the datasource.",
    )

    @property
    def is_append(self) -> bool | None:
        """None: it deletes what nobody names, and takes no locks."""
        return None


class CleanTask(TaskSpec):
    """Fold what segments say of those that they once took the place of: metadata only, no row is rewritten."""

    type: Literal["clean"] = Field(default="clean", description="`clean`.")
    datasource: str = _datasource()
    interval: IntervalField | None = Field(
        default=None, description="Only time chunks in this interval. Default: all."
    )


class KafkaTask(TaskSpec):
    """Read some partitions of a stream for a while. A supervisor submits it."""

    type: Literal["index_kafka"] = Field(default="index_kafka", description="`index_kafka`.")
    supervisor: dict[str, Any] = Field(description="The spec of its supervisor, as it was posted.")
    group: int = Field(
        default=0, ge=0, description="Which of the supervisor's tasks this is, from 0."
    )

    @cached_property
    def stream(self) -> KafkaSupervisor:
        """The stream that it reads, and how."""
        return load_supervisor(self.supervisor)

    @property
    def datasource(self) -> str:
        """The datasource that it writes to."""
        return self.stream.datasource

    @property
    def is_append(self) -> bool | None:
        """True: it adds rows and takes none away."""
        return True

    @model_validator(mode="after")
    def _check_supervisor(self) -> Self:
        tasks = as_problem(lambda: self.stream).tasks
        if self.group >= tasks:
            raise problem(f"group {self.group} is none of the {tasks} tasks of the supervisor")
        return self


AnyTask = IngestTask | SelectTask | CompactTask | DeleteTask | KillTask | CleanTask | KafkaTask
_MODELS: Mapping[str, type[AnyTask]] = {
    **dict.fromkeys(INGEST_TYPES, IngestTask),
    "compact": CompactTask,
    "delete": DeleteTask,
    "kill": KillTask,
    "clean": CleanTask,
    "index_kafka": KafkaTask,
}
TASK_TYPES = tuple(_MODELS)


def load_task(value: Mapping[str, object]) -> AnyTask:
    """Return the task that a mapping holds, Carnac's own form or Druid's.

    Raises:
        Invalid: It is wrong; one sentence that names every problem with its place.
    """
    check_texts(value, "the task", is_json=True)
    kind = value.get("type")
    is_of_supervisor = kind != "index_kafka" or "supervisor" in value
    if not isinstance(kind, str) or kind not in _MODELS or not is_of_supervisor:
        if str(kind) in INSTEAD:
            raise_problems(
                [Problem("type", f"there are no {kind} tasks here: {INSTEAD[str(kind)]}")]
            )
        hint = suggest(str(kind), TASK_TYPES) if kind is not None else ""
        said = f"task type '{kind}' is not known{hint}" if kind is not None else "is required"
        raise_problems([Problem("type", f"{said}; there are {', '.join(TASK_TYPES)}")])
    if kind == QUERY_TYPE and _is_select(value.get("query")):
        return validated(SelectTask, value, Findings())
    if kind in INGEST_TYPES:
        return _load_ingest(value)
    convert: dict[str, Callable[[Mapping[str, Any], Findings], dict[str, Any]]] = {
        "compact": convert_compact,
        "kill": ignore_in_kill,
    }
    findings = Findings()
    native = convert[kind](value, findings) if kind in convert else dict(value)
    native["ignored"] = [{"path": path, "reason": why} for path, why in findings.ignored]
    return validated(_MODELS[str(kind)], native, findings)


def load_task_text(value: Mapping[str, object], text: str, *, name: str | None) -> AnyTask:
    """Return the task that a mapping holds; its problems are named with their lines in the text.

    Args:
        text: That the mapping was read from.
        name: Of its file; None: there is none.

    Raises:
        Invalid: As `load_task`.
    """
    try:
        return load_task(value)
    except Invalid as error:
        root: type[TaskSpec] = _MODELS.get(str(value.get("type")), IngestTask)
        raise with_lines(error, text, name=name, root=root) from None


def _is_select(query: object) -> bool:
    """Whether a query is a text that loads nothing: its parser says what else it may be."""
    return isinstance(query, str) and not is_load_statement(query)


def _load_ingest(value: Mapping[str, object]) -> IngestTask:
    """Read the envelope here, and leave the rest to the reader of ingestion specs."""
    head = {name: value[name] for name in _HEAD if value.get(name) is not None}
    rest = {name: one for name, one in value.items() if name not in _HEAD}
    if value.get("type") == QUERY_TYPE:
        rest = {"type": QUERY_TYPE, "spec": _load_statement(rest, _context(head) or {})}
    inner = rest.get("spec")
    is_native = isinstance(inner, Mapping) and not {"dataSchema", "ioConfig"} & inner.keys()
    if isinstance(inner, IngestSpec):
        spec = inner
    elif is_native and isinstance(inner, Mapping):
        spec = _load_inner({name: one for name, one in inner.items() if name != "type"})
    else:
        if rest.get("type") == "replace":
            rest["type"] = "index_parallel"
        spec = load_spec(rest)
    context = head.get("context", {})
    if isinstance(context, Mapping):
        context = {**spec.context, **context}
    native = {**head, "type": value["type"], "spec": spec, "context": context}
    return validated(IngestTask, native, Findings())


def _load_statement(rest: Mapping[str, object], context: Mapping[str, object]) -> IngestSpec:
    """Return the spec that the statement of a task means."""
    query = rest.get("query")
    unknown = [name for name in rest if name not in {"type", "query"}]
    problems = [Problem(name, "unknown field; remove it") for name in unknown]
    if not isinstance(query, str):
        problems.append(Problem("query", "is required: an INSERT or REPLACE, as a text"))
    raise_problems(problems)
    return load_spec(spec_of_statement(str(query), rows_per_segment=context.get("rowsPerSegment")))


def _load_inner(block: Mapping[str, Any]) -> IngestSpec:
    """Return the spec in a task; the places of what is wrong begin at the task."""
    try:
        return load_spec(block)
    except Invalid as error:
        listed = error.ids.get("problems")
        if not isinstance(listed, list):
            raise
        found = [(str(one["path"]), str(one["message"])) for one in listed]
        raise_problems(
            Problem(f"spec.{path}" if path else "spec", message) for path, message in found
        )
        raise


def _context(head: Mapping[str, object]) -> Mapping[str, object] | None:
    context = head.get("context")
    return context if isinstance(context, Mapping) else None
