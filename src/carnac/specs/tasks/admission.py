"""Limits of tasks that came over HTTP: Spark settings that open nothing, expressions that see their row alone.

Spark SQL is more than expressions: `(reduce 1 using 'id' as (x string))` runs a program, ``(table text.`/etc/passwd`)``
reads a file, `reflect` calls Java. Spark itself parses such a text for any user. Here, before anything runs and without
Java, its words are looked at, and a text that could be one of these is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from carnac.core.tasks.context import spark_conf_of
from carnac.errors import Invalid
from carnac.specs.compaction.spec import CompactionSpec
from carnac.specs.ingest.inputs import FilesInput, QueryInput
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.ingest.transforms import spark_texts
from carnac.specs.tasks.spec import AnyTask, CompactTask, IngestTask, KafkaTask

ORIGIN_KEY, OVER_HTTP = "origin", "http"
"""In a task's context: that it came over HTTP, so that its attempt, too, reads only what it may."""
HARMLESS_SPARK_SETTINGS = (
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.cores",
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.driver.memoryOverhead",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.memory.fraction",
    "spark.memory.storageFraction",
    "spark.network.timeout",
    "spark.speculation",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.adaptive.coalescePartitions.*",
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.skewJoin.*",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.shuffle.partitions",
    "spark.task.cpus",
    "spark.task.maxFailures",
)
"""How much of a cluster a task takes. No classes, paths, programs, options of Java, addresses, listeners."""
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9.+-]{0,64}")
"""Numbers, sizes, durations, true and false."""

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<refused>--|/\*|\|>|\$)
    | (?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | `(?P<quoted>(?:[^`]|``)*)`
    | (?P<word>\w+)
    | (?P<other>[^'"`])""",
    re.VERBOSE | re.DOTALL,
)
_QUERIES = frozenset({"SELECT", "USING"})
"""Words that only queries have."""
_CALLS = frozenset(
    {"FROM_PROTOBUF", "IDENTIFIER", "JAVA_METHOD", "REFLECT", "TO_PROTOBUF", "TRY_REFLECT"}
)
"""Functions that call others by name, or read a file."""


def confine(task: AnyTask, roots: Sequence[str]) -> AnyTask:
    """Return a task as its attempt runs it: one that came over HTTP reads below `roots` alone."""
    if not isinstance(task, IngestTask) or task.context.get(ORIGIN_KEY) != OVER_HTTP:
        return task
    files = task.spec.input
    if not isinstance(files, FilesInput | QueryInput):
        return task
    confined = files.model_copy(update={"within": tuple(roots)})
    return task.model_copy(update={"spec": task.spec.model_copy(update={"input": confined})})


def check_spark_settings(context: Mapping[str, object], allowed: Sequence[str]) -> None:
    """Check the Spark settings of a context.

    Args:
        allowed: Names, or beginnings with `*`, beside `HARMLESS_SPARK_SETTINGS`; their values may be anything.

    Raises:
        Invalid: One is not allowed, or they are no texts.
    """
    for name, value in spark_conf_of(context).items():
        if _is_one_of(name, allowed):
            continue
        if not _is_one_of(name, HARMLESS_SPARK_SETTINGS):
            raise Invalid(
                f"a task that comes over HTTP may not set {name!a:.100}; put it into the overlord's spark_conf, or "
                "allow it by the setting http_spark_conf",
                setting="http_spark_conf",
            )
        if _PLAIN_VALUE.fullmatch(value) is None:
            raise Invalid(f"'{name}' must be a number, a size, a duration, true or false")


def check_expressions(task: AnyTask | CompactionSpec) -> None:
    """Check that the Spark SQL of a task, or of the tasks of a compaction spec, is made of expressions over a row.

    Raises:
        Invalid: One could be a query, or call what reads more than its row.
    """
    _check(_expressions(task))


def check_spec_expressions(spec: IngestSpec) -> None:
    """Check the Spark SQL of an ingestion spec as `check_expressions` does that of a task."""
    _check(_of_spec(spec))


def _check(expressions: Iterable[tuple[str, str]]) -> None:
    for what, sql in expressions:
        try:
            check_row_expression(sql)
        except Invalid as error:
            raise Invalid(f"{what} is wrong: {error.message}") from None


def check_row_expression(sql: str) -> None:
    """Check that a text of Spark SQL cannot hold a query, and calls nothing that reads more than a row.

    Raises:
        Invalid: It could; a column of such a name goes into backquotes.
    """
    before = ""
    tokens = list(_tokens(sql))
    for at, (kind, text) in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else ("", "")
        is_called = after[1] == "("
        if kind == "refused":
            raise Invalid(f"a task that comes over HTTP may not hold '{text}' in an expression")
        if kind in {"word", "quoted"} and is_called and text.upper() in _CALLS:
            raise Invalid(f"a task that comes over HTTP may not call {text.lower()}")
        if kind == "word" and _begins_query(text.upper(), before, after):
            raise Invalid(
                f"a task that comes over HTTP may hold no query, and this has the word {text.upper()}; a column of "
                "that name goes into backquotes"
            )
        before = text


def _begins_query(word: str, before: str, after: tuple[str, str]) -> bool:
    names_something = after[0] in {"word", "quoted", "text"} or after[1] == "("
    if word == "FROM":
        return before in {"(", ""} and names_something
    return word in _QUERIES or (word == "TABLE" and names_something)


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of the tokens as Spark cuts them; spaces are left out."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None:
            raise Invalid(f"the quote at character {at + 1} has no end")
        at = found.end()
        kind = str(found.lastgroup)
        if kind != "space":
            yield kind, found[kind]


def _expressions(task: AnyTask | CompactionSpec) -> Iterator[tuple[str, str]]:
    conditions: list[str | None] = []
    if isinstance(task, IngestTask | KafkaTask):
        yield from _of_spec(task.spec if isinstance(task, IngestTask) else task.stream.load)
    if isinstance(task, CompactTask):
        conditions = [one.target.filter for one in task.compaction_groups()]
        conditions.append(task.compaction_target().filter)
    if isinstance(task, CompactionSpec):
        conditions = [one.transform.to_condition() for one in (task, *task.age_rules)]
    for one in conditions:
        if one is not None and not one.startswith("{"):  # then it is one of Druid's filters
            yield "the filter", one


def _of_spec(spec: IngestSpec) -> Iterator[tuple[str, str]]:
    return ((name, text) for _, name, text in spark_texts(spec))


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)
