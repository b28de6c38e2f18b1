"""Druid's supervisor spec of type `kafka`, turned into a `KafkaSupervisor`.

Its `dataSchema`, `inputFormat` and the fields of `tuningConfig` that batch specs have too are read as of an
`index_parallel` task that appends. Source: Druid's documentation of supervisors and of Kafka ingestion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from carnac.core.streams.partitions import Partition
from carnac.core.tasks.context import parse_task_context
from carnac.core.texts import UNFIT, is_fit
from carnac.core.time.intervals import parse_instant
from carnac.core.time.periods import HOUR_MS, SECOND_MS, parse_period
from carnac.errors import Invalid
from carnac.specs.base import NO_INPUT, check_texts
from carnac.specs.druid.fields import Block
from carnac.specs.ingest.inputs import CsvFormat, FilesInput, JsonFormat, TsvFormat
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.load import load_spec, with_input
from carnac.specs.problems import Findings, Problem, raise_problems
from carnac.specs.supervisors.properties import read_properties

TYPE = "kafka"
TASK_TYPE = "index_kafka"
OTHER_TYPES = {
    "kinesis": "Kinesis is not read; Spark's Structured Streaming reads it",
    "rabbit": "RabbitMQ is not read",
    "autocompact": "carnac compaction set keeps a datasource compacted, as does "
    "/druid/indexer/v1/compaction/config/datasources",
    "scheduled_batch": "have a scheduler call carnac ingest",
}
"""Druid's other supervisors."""
FORMATS = ("json", "csv", "tsv", "delimited", "kafka")
TASKS_MAX = 100
ID_MAX = 200
PUBLISH_MS = 2_000
"""How often a task publishes what it has read, unless `intermediateHandoffPeriod` says otherwise."""
PUBLISH_MIN_MS = 100
PUBLISH_NEVER = "P2147483647D"
"""Druid's default of `intermediateHandoffPeriod`, which it writes into the specs that it gives out."""
TASK_MS = HOUR_MS
SPARK_BACKLOG = "sparkBacklog"
"""In the context: from how many waiting messages on Spark reads them."""

_ALONE = "a partition is read by one task, and what it publishes is published once whatever dies"
_VISIBLE = "rows can be queried as soon as they are published"
_LIBRARY = "the library reads ahead by itself"
_ROUNDS = "the overlord that leads looks every second"
_IGNORED_IO = {
    "replicas": _ALONE,
    "completionTimeout": _VISIBLE,
    "period": _ROUNDS,
    "startDelay": _ROUNDS,
    "pollTimeout": _LIBRARY,
    "stopTaskCount": _ROUNDS,
    "emitTimeLagMetrics": "the status says the lag in messages",
    "stream": "topic says it",
    "useEarliestSequenceNumber": "useEarliestOffset says it",
}
_TWICE = dict.fromkeys(("dataSchema", "ioConfig", "tuningConfig"), "spec says it")
"""Parts that Druid writes beside `spec`, too, when it is asked for a spec."""
_IGNORED_TUNING = {
    **dict.fromkeys(
        "workerThreads chatAsync chatThreads chatRetries httpTimeout shutdownTimeout".split(),
        "tasks and overlord meet in the metadata store",
    ),
    **dict.fromkeys(
        ("handoffConditionTimeout", "releaseLocksOnHandoff", "intermediatePersistPeriod"), _VISIBLE
    ),
    **dict.fromkeys(("maxRecordsPerPoll", "recordBufferSizeBytes", "recordBufferSize"), _LIBRARY),
    **dict.fromkeys(("offsetFetchPeriod", "repartitionTransitionDuration"), _ROUNDS),
    "skipSequenceNumberAvailabilityCheck": "whether offsets are there is looked at when a task starts",
    "maxTotalRows": "a task publishes by time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Columns made of what a message has beside its value (Druid's input format `kafka`).

    Attributes:
        headers: Put before the name of a header.
        keeps_key: Whether the key is a column.
    """

    timestamp: str = "kafka.timestamp"
    topic: str = "kafka.topic"
    partition: str = "kafka.partition"
    offset: str = "kafka.offset"
    headers: str = "kafka.header."
    key: str = "kafka.key"
    keeps_headers: bool = False
    keeps_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSupervisor:
    """A supervisor of topics of Kafka: the messages to read, and how.

    Attributes:
        supervisor_id: Its name, and that of the writer whose position the stream has.
        load: Spec of the rows that messages become; without input.
        format: How the value of a message is read.
        topic: Name of the topic, or a pattern of names.
        properties: Of the connection, as the library calls them.
        use_earliest_offset: Where a stream begins that has no position: at the earliest message; else at the end.
        resets: Go on where messages are gone before they were read.
        tasks: Number of tasks that share the partitions.
        task_ms: How long a task reads.
        publish_ms: How often it publishes.
        spark_backlog: From so many messages that wait on, Spark reads them; None: never.
        from_ms: Rows before this instant are thrown away; None: none for that.
        late_ms, early_ms: Rows so long before a task's start, or after its end, are thrown away; None: none for that.
        ignored: Fields without effect: where, and why.
    """

    supervisor_id: str
    load: IngestSpec
    format: JsonFormat | CsvFormat | TsvFormat
    envelope: Envelope | None
    topic: str
    is_pattern: bool
    properties: Mapping[str, str] = field(repr=False)
    use_earliest_offset: bool
    resets: bool
    tasks: int
    task_ms: int
    publish_ms: int
    spark_backlog: int | None
    from_ms: int | None
    late_ms: int | None
    early_ms: int | None
    is_suspended: bool
    context: Mapping[str, object]
    ignored: tuple[tuple[str, str], ...]

    @property
    def datasource(self) -> str:
        """The datasource that it fills."""
        return self.load.datasource

    def reads(self, topic: str) -> bool:
        """Whether it reads a topic: its own, or one of the whole name that its pattern matches."""
        return bool(re.fullmatch(self.topic, topic)) if self.is_pattern else topic == self.topic

    def own(self, position: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the part of a position that is of its topics; it may have had other ones before."""
        return {one: offset for one, offset in position.items() if self.reads(one.topic)}


def load_supervisor(value: Mapping[str, Any]) -> KafkaSupervisor:
    """Return what a supervisor spec means.

    Raises:
        Invalid: It is wrong; one sentence that names every problem with its place.
    """
    check_texts(value, "the supervisor spec", is_json=True)
    findings = Findings()
    head = Block(value, "", findings)
    _check_type(head.take("type"))
    inner = head.block("spec") if head.has("spec") else None
    spec = inner if inner is not None else head
    if inner is not None:
        inner.take("type")
        head.ignore(_TWICE)
    given_id, suspended = head.take("id"), head.take_flag("suspended")
    context = head.take_map("context") or (spec.take_map("context") if inner is not None else {})
    if inner is not None:  # Druid takes both there, too
        inner_id, inner_suspended = inner.take("id"), inner.take_flag("suspended")
        given_id, suspended = given_id or inner_id, suspended or inner_suspended
    io, tuning = spec.block("ioConfig"), spec.block("tuningConfig")
    found = {**_read_io(io), **_read_tuning(tuning)}
    envelope, format_block = _take_format(io)
    batch = {
        "dataSchema": spec.take("dataSchema"),
        "ioConfig": {"type": "index_parallel", "appendToExisting": True, **format_block},
        "tuningConfig": {"type": "index_parallel", **tuning.rest()},
    }
    for block in (io, head, *(() if inner is None else (inner,))):
        block.finish()
    load, file_format, problems = _load_batch(batch, findings)
    supervisor_id = _checked_id(given_id, load, problems)
    backlog = _spark_backlog(context, problems)
    _check_context(context, problems)
    raise_problems(problems)
    assert load is not None  # noqa: S101 - there are problems then
    assert isinstance(file_format, JsonFormat | CsvFormat | TsvFormat)  # noqa: S101 - as is this
    return KafkaSupervisor(
        supervisor_id=supervisor_id,
        load=load,
        format=file_format,
        envelope=envelope,
        is_suspended=suspended is True,
        spark_backlog=backlog,
        context=context,
        ignored=tuple(findings.ignored) + tuple((one.path, one.reason) for one in load.ignored),
        **found,
    )


def _check_type(kind: object) -> None:
    if kind == TYPE:
        return
    if str(kind) in OTHER_TYPES:
        message = f"there are no {kind} supervisors here: {OTHER_TYPES[str(kind)]}"
    elif kind is None:
        message = "is required: kafka"
    else:
        message = f"'{kind}' is no type of a supervisor; there is kafka"
    raise_problems([Problem("type", message)])


def _read_io(io: Block) -> dict[str, Any]:
    io.take("type")
    io.ignore(_IGNORED_IO)
    topic, pattern = io.take("topic"), io.take("topicPattern")
    if (topic is None) == (pattern is None):
        io.problem("topic", "is required, or topicPattern in its place" if topic is None else
                   "is given beside topicPattern; keep one of them")  # fmt: skip
    for name, one in (("topic", topic), ("topicPattern", pattern)):
        if one is not None and (not isinstance(one, str) or not one):
            io.problem(name, f"must be a text, not {one!r}")
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            io.problem("topicPattern", f"is no regular expression: {error}")
    if not io.has("consumerProperties"):
        io.problem("consumerProperties", "is required, with bootstrap.servers")
        io.take("consumerProperties")
        properties = {}
    else:
        properties = read_properties(io.block("consumerProperties"))
    for name, instead in (
        ("autoScalerConfig", "give taskCount"),
        ("idleConfig", "a task that has nothing to read publishes nothing"),
        ("configOverrides", "put the properties into consumerProperties"),
        ("serverPriorityToReplicas", "there are no replicas of tasks"),
        ("minimumMessageTime", "use lateMessageRejectionStartDateTime"),
        ("maximumMessageTime", "use earlyMessageRejectionPeriod"),
    ):
        if io.take(name):
            io.problem(name, f"is not supported; {instead}")
    late, start = (
        _period(io, "lateMessageRejectionPeriod"),
        io.take("lateMessageRejectionStartDateTime"),
    )
    if late is not None and start is not None:
        io.problem(
            "lateMessageRejectionStartDateTime", "is given beside lateMessageRejectionPeriod"
        )
    return {
        "topic": str(topic if topic is not None else pattern),
        "is_pattern": pattern is not None,
        "properties": properties,
        "use_earliest_offset": io.take_flag("useEarliestOffset") is True,
        "tasks": _whole(io, "taskCount", 1, TASKS_MAX, 1),
        "task_ms": _period(io, "taskDuration", at_least_ms=SECOND_MS) or TASK_MS,
        "late_ms": late,
        "early_ms": _period(io, "earlyMessageRejectionPeriod"),
        "from_ms": _parsed(io, "lateMessageRejectionStartDateTime", start, parse_instant),
    }


def _read_tuning(tuning: Block) -> dict[str, Any]:
    tuning.take("type")
    tuning.ignore(_IGNORED_TUNING)
    if tuning.peek("intermediateHandoffPeriod") == PUBLISH_NEVER:
        tuning.ignore({"intermediateHandoffPeriod": _VISIBLE})
    return {
        "resets": tuning.take_flag("resetOffsetAutomatically") is True,
        "publish_ms": _period(tuning, "intermediateHandoffPeriod", at_least_ms=PUBLISH_MIN_MS)
        or PUBLISH_MS,
    }


def _take_format(io: Block) -> tuple[Envelope | None, dict[str, Any]]:
    """Return what is taken beside the value of a message, and the format of the value."""
    value = io.take("inputFormat")
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind is not None and kind not in FORMATS:
        io.problem("inputFormat.type", f"'{kind}' is not read here; use {', '.join(FORMATS)}")
        return None, {"inputFormat": {"type": "json"}}
    if not isinstance(value, Mapping) or kind != TYPE:
        return None, {} if value is None else {"inputFormat": value}
    block = Block(value, io.at("inputFormat"), io.findings)
    block.take("type")
    plain = Envelope()
    names = {
        name: str(block.take(written) or getattr(plain, name))
        for name, written in (
            ("timestamp", "timestampColumnName"),
            ("topic", "topicColumnName"),
            ("partition", "partitionColumnName"),
            ("offset", "offsetColumnName"),
            ("headers", "headerColumnPrefix"),
            ("key", "keyColumnName"),
        )
    }
    header, key, inner = (block.take(name) for name in ("headerFormat", "keyFormat", "valueFormat"))
    if header is not None and (not isinstance(header, Mapping) or header.get("type") != "string"):
        block.problem("headerFormat", "is not supported; use {'type': 'string'}")
    if isinstance(header, Mapping) and str(header.get("encoding") or "UTF-8").upper() != "UTF-8":
        block.problem("headerFormat.encoding", "is not supported; use UTF-8")
    if not isinstance(inner, Mapping) or inner.get("type") != "json":
        block.problem(
            "valueFormat", "must be a json format here; without key and headers csv is read, too"
        )
        inner = {"type": "json"}
    block.finish()
    envelope = replace(plain, **names, keeps_headers=header is not None, keeps_key=key is not None)
    return envelope, {"inputFormat": inner}


def _load_batch(
    batch: Mapping[str, Any], findings: Findings
) -> tuple[IngestSpec | None, object, list[Problem]]:
    """Return the spec of a batch that does the same to its rows, their format, and all that is wrong."""
    problems = list(findings.problems)
    if not isinstance(batch["dataSchema"], Mapping):
        return None, None, [*problems, Problem("spec.dataSchema", "is required, as an object")]
    if "inputFormat" not in batch["ioConfig"]:
        problems.append(Problem("spec.ioConfig.inputFormat", "is required"))
    try:
        load = load_spec({"type": "index_parallel", "spec": batch}, has_rows=True)
    except Invalid as error:
        listed = error.ids.get("problems")
        if not isinstance(listed, list):
            raise
        return None, None, problems + [Problem(one["path"], one["message"]) for one in listed]
    file_format = load.input.format if isinstance(load.input, FilesInput) else None
    at = "spec.ioConfig.inputFormat"
    if isinstance(file_format, CsvFormat | TsvFormat):
        if file_format.header:
            problems.append(Problem(f"{at}.columns", "is required: a message has no header line"))
        if file_format.skip_header_rows:
            problems.append(
                Problem(f"{at}.skipHeaderRows", "is for files; a message has no header line")
            )
    return with_input(load, NO_INPUT), file_format, problems


def _checked_id(given: object, load: IngestSpec | None, problems: list[Problem]) -> str:
    """Return the id: as it is given, else the datasource's name."""
    name = given if given is not None else "" if load is None else load.datasource
    if load is None and given is None:
        return ""
    if not isinstance(name, str) or not name or len(name) > ID_MAX:
        problems.append(Problem("id", f"must be a text of 1 to {ID_MAX} characters"))
    elif not is_fit(name):
        problems.append(Problem("id", UNFIT))
    return str(name)


def _check_context(context: Mapping[str, object], problems: list[Problem]) -> None:
    try:
        parse_task_context(TASK_TYPE, context, is_append=True)
    except Invalid as error:
        problems.append(Problem("context", error.message))


def _spark_backlog(context: Mapping[str, object], problems: list[Problem]) -> int | None:
    value = context.get(SPARK_BACKLOG)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        problems.append(
            Problem(f"context.{SPARK_BACKLOG}", "must be a whole number of messages from 1")
        )
        return None
    return value


def _whole(block: Block, name: str, low: int, high: int, default: int) -> int:
    value = block.take(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        block.problem(name, f"must be a whole number from {low} to {high}, not {value!r}")
        return default
    return value


def _period(block: Block, name: str, *, at_least_ms: int = 0) -> int | None:
    value = block.take(name)
    length_ms = _parsed(block, name, value, lambda text: parse_period(text).nominal_ms)
    if length_ms is not None and length_ms < at_least_ms:
        block.problem(name, f"must be at least {at_least_ms} ms, not {value}")
    return length_ms


def _parsed(block: Block, name: str, value: object, parse: Callable[[str], int]) -> int | None:
    if value is None:
        return None
    try:
        return parse(str(value))
    except Invalid as error:
        block.problem(name, error.message)
        return None
