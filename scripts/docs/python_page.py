"""`docs/reference/python.md`: the public Python API, from its signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import ForwardRef

import carnac
from carnac.bootstrap.compaction import open_compaction
from carnac.bootstrap.store import open_store
from carnac.bootstrap.tasks import open_tasks
from carnac.core.compaction.control.states import ChunkState
from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget
from carnac.core.compaction.plan.planning import CompactionPlan, Explanation
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.log.commits import Commit, CommitSummary, DatasourceCommit, DatasourceSummary
from carnac.core.log.entries import Chunk, Entry, VisibleSegment
from carnac.core.log.late_ledger import LateLedger, LateLine, LateTotal
from carnac.core.log.positions import OffsetRange, SourcePosition
from carnac.core.segments.lateness import LateRows
from carnac.core.segments.segment import Segment
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.model import Attempt, RetryPolicy, Task
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError
from carnac.overlord import TaskService
from carnac.overlord.compactor.service import CompactionService, CompactionStatus
from carnac.overlord.waiting import Waiting
from carnac.ports import (
    DatasourceInfo,
    ExportResult,
    Head,
    JobProgress,
    JobReport,
    Lease,
    Published,
    RejectedRows,
    Tag,
    TaskFilter,
)
from carnac.ports.answers import Receipt
from carnac.spark.streams import Stream
from carnac.store import Store
from carnac.store.compacting.reports import CompactionReport, GroupReport
from carnac.store.history import DatasourceDiff
from carnac.store.reading import StoreReading
from carnac.store.receipts import ReceiptCheck
from carnac.store.results import Result
from carnac.store.upkeep.maintenance import GcAction, GcReport
from carnac.store.upkeep.verifying import Finding, ScrubStatus
from carnac.store.why import Why, WhyReport
from carnac.store.writing.erasing import ErasureReport
from carnac.store.writing.outcome import WriteOutcome

VALUES: tuple[type, ...] = (
    WriteOutcome,
    ErasureReport,
    JobReport,
    RejectedRows,
    JobProgress,
    ExportResult,
    Receipt,
    ReceiptCheck,
    WhyReport,
    Why,
    Published,
    Head,
    CommitSummary,
    DatasourceSummary,
    Commit,
    DatasourceCommit,
    DatasourceDiff,
    DatasourceInfo,
    VisibleSegment,
    Segment,
    Entry,
    Chunk,
    OffsetRange,
    SourcePosition,
    LateRows,
    LateLedger,
    LateLine,
    LateTotal,
    Interval,
    Tag,
    Lease,
    GcReport,
    GcAction,
    Finding,
    ScrubStatus,
    CompactionGroup,
    CompactionTarget,
    CompactionReport,
    GroupReport,
    CompactionPlan,
    Explanation,
    CompactionTask,
    CompactionStatus,
    ChunkState,
    Task,
    Attempt,
    RetryPolicy,
    TaskFilter,
    Leadership,
)
"""The types that methods of a store take and return, in the order of the page."""

_INTRO = """\
# Python

<!-- Made by `make docs`; do not edit. -->

```python
import carnac

with carnac.open("events", create=True) as store:
    store.ingest({"dataSource": "edits", "input": "edits/*.json.gz"})
    before = store.head().revision
    store.delete("edits", interval="2015-09-12T06:00/2015-09-12T07:00")
    now = store.sql("SELECT count(*) AS n FROM edits").rows()
    then = store.sql("SELECT count(*) AS n FROM edits", at=before).pandas()
```

This page lists the public names: {names}. They are imported on first use, so `import carnac` costs nothing. All times
are epoch milliseconds in UTC, and their names end in `_ms`; intervals are half-open. Arguments are checked against the
signatures below before anything is done: a wrong type raises `carnac.Invalid`, which names the argument.
"""
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")


def render() -> str:
    """Return the page, as Markdown."""
    names = ", ".join(f"`carnac.{name}`" for name in carnac.__all__)
    parts = [_INTRO.replace("{names}", names)]
    parts.append(_function("carnac.open", open_store, level=2))
    parts.append(f"## Store\n\n{_doc(Store)}")
    parts += [_function(name, member, level=3) for name, member in public_members(Store)]
    parts.append(f"## Result\n\n{_doc(Result)}")
    parts += [_function(name, member, level=3) for name, member in public_members(Result)]
    parts.append(f"## Stream\n\n{_doc(Stream)}")
    parts += [_function(name, member, level=3) for name, member in public_members(Stream)]
    parts.append(_function("carnac.open_tasks", open_tasks, level=2))
    parts.append(f"## TaskService\n\n{_doc(TaskService)}")
    parts += [_function(name, member, level=3) for name, member in public_members(TaskService)]
    parts.append(_function("carnac.open_compaction", open_compaction, level=2))
    parts.append(f"## CompactionService\n\n{_doc(CompactionService)}")
    parts += [
        _function(name, member, level=3) for name, member in public_members(CompactionService)
    ]
    parts.append("## Errors\n\n" + "\n".join(_errors()) + "\n")
    parts.append("## Values\n\nFrozen dataclasses. `…` in a type is shortened.\n")
    parts += [_value(kind) for kind in VALUES]
    return "\n".join(parts)


def public_members(kind: type) -> list[tuple[str, object]]:
    """Return the public methods and properties of a class, in the order of its source."""
    halves = [base for base in kind.__mro__ if base in {kind, StoreReading, Waiting}]
    members = {name: getattr(kind, name) for half in halves for name in vars(half)}
    return [
        (name, member)
        for name, member in members.items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]


def _errors() -> Iterator[str]:
    yield "All are subclasses of `carnac.CarnacError` and have `message`, `ids`, `kind` and `exit_code`.\n"
    yield "| error | kind | exit code | retry | what to do |"
    yield "|---|---|---:|---|---|"
    for kind in _kinds(CarnacError):
        retry = "yes" if kind.retryable else "no"
        doc = _summary(inspect.getdoc(kind) or "")
        yield f"| `{kind.__name__}` | `{kind.kind}` | {kind.exit_code} | {retry} | {doc} |"


def _kinds(base: type[CarnacError]) -> Iterator[type[CarnacError]]:
    for kind in base.__subclasses__():
        if kind.__module__ == base.__module__:
            yield kind
            yield from _kinds(kind)


def _function(name: str, member: object, *, level: int) -> str:
    heading = "#" * level
    if isinstance(member, property):
        return f"{heading} {name}\n\n*Property.* {_doc(member.fget)}"
    return f"{heading} {name}\n\n```python\n{_signature(name, member)}\n```\n\n{_doc(member)}"


def _signature(name: str, function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    parts, is_keyword = [], False
    for param in signature.parameters.values():
        if param.name == "self":
            continue
        if param.kind is param.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            parts.append("*")
        prefix = "**" if param.kind is param.VAR_KEYWORD else ""
        text = f"{prefix}{param.name}: {_type(param.annotation)}"
        parts.append(text if param.default is param.empty else f"{text} = {param.default!r}")
    returns = _type(signature.return_annotation)
    line = f"{name}({', '.join(parts)}) -> {returns}"
    if len(line) <= 96:
        return line
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{inner}) -> {returns}"


def _value(kind: type) -> str:
    described: dict[str, str] = {}
    for base in reversed(kind.__mro__):  # an inherited field may be described in its base
        described |= _attributes(inspect.cleandoc(base.__doc__ or ""))
    lines = [f"### {kind.__name__}", "", _summary(inspect.getdoc(kind) or ""), ""]
    lines += ["| field | type | |", "|---|---|---|"]
    for name, annotation in _fields(kind):
        text = described.get(name, "").replace("|", "\\|")
        lines.append(f"| `{name}` | `{_type(annotation)}` | {text} |".replace(" | |", " | |"))
    for name, member in public_members(kind):
        doc = _summary(inspect.getdoc(member) or "")
        suffix = "" if isinstance(member, property) else "()"
        lines.append(f"| `{name}{suffix}` | *computed* | {doc} |")
    return "\n".join([*lines, ""])


def _fields(kind: type) -> list[tuple[str, object]]:
    """Return names and types of the fields of a dataclass or a named tuple."""
    if dataclasses.is_dataclass(kind):
        return [(field.name, field.type) for field in dataclasses.fields(kind)]
    return [
        (name, one.__forward_arg__ if isinstance(one, ForwardRef) else one)
        for name, one in kind.__annotations__.items()
    ]


def _doc(thing: object) -> str:
    """Return a Google docstring as Markdown: the text, then one list for each section."""
    lines, in_section = [], False
    for line in (inspect.getdoc(thing) or "").splitlines():
        match = _SECTION.match(line)
        if match:
            in_section = True
            lines += [f"*{match[1]}*", ""]
        elif in_section and re.match(r"^    \S", line):
            lines.append("- " + re.sub(r"^(\*{0,2}\w+(?:, \w+)*):", r"`\1`:", line.strip()))
        elif in_section and line.strip():
            lines.append("  " + line.strip())
        else:
            in_section = in_section and bool(line.strip())
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


def _summary(doc: str) -> str:
    kept = []
    for line in doc.splitlines():
        if _SECTION.match(line):
            break
        kept.append(line)
    return " ".join(" ".join(kept).split())


def _attributes(doc: str) -> dict[str, str]:
    """Return what the section `Attributes` says, by name."""
    described: dict[str, str] = {}
    name, inside = "", False
    for line in doc.splitlines():
        section = _SECTION.match(line)
        if section:
            inside = section[1] in {"Attributes", "Args"}
            continue
        match = re.match(r"^    (\w+): (.*)$", line)
        if inside and match:
            name = match[1]
            described[name] = match[2]
        elif inside and name and line.strip():
            described[name] += " " + line.strip()
    return described


def _type(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return re.sub(r"\b(?:pa|pd|pl|os)\.", "", str(text))
