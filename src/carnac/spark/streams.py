"""Running a stream of Spark whose checkpoint is a copy, made from offsets: where it goes on is decided elsewhere.

A checkpoint (files of lines, as Spark's `OffsetSeqLog` writes them) whose batch 0 is planned and committed has Spark go
on from the offsets of that batch. Other parts of a checkpoint (state of operators, logs of a source's own) cannot be
made from offsets: see `sources_of`.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from carnac.core.arguments import checked
from carnac.errors import CarnacError, Invalid, Unavailable
from carnac.ports.temporary import own_folder
from carnac.spark.failures import of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Offsets: TypeAlias = Mapping[str, str]
AVAILABLE_NOW = "available-now"
_FORMAT = "v1"
_NOTHING_READ = "-"
_NAMESPACE = uuid.UUID("5b0f1d3e-3c0d-4a86-9d3c-5d8f4f6d2a10")
_INSTEAD = (
    "publish it by foreachBatch, with writer and batch in the spec and a checkpoint of your own"
)
_OWN_LOG = {
    "FileSource": "numbers files in its own checkpoint",
    "rate": "counts from when its own checkpoint was made",
    "socket": "cannot be read again",
    "memory": "is gone with its process",
}
"""Sources whose offsets mean nothing elsewhere, and why."""
_STATE = {
    "Aggregate": "an aggregation",
    "Deduplicate": "a deduplication",
    "DeduplicateWithinWatermark": "a deduplication",
    "Distinct": "a deduplication",
    "GlobalLimit": "a limit",
    "LocalLimit": "a limit",
}


class PublishBatch(Protocol):
    """Publishes the batches of a stream.

    Attributes:
        writer: Writer whose position the batches move.
    """

    writer: str

    def __call__(self, rows: DataFrame, start: Offsets, end: Offsets) -> None:
        """Publish rows, with the offsets that they start from and those where they end."""
        ...


@checked
class Stream:
    """A stream into a store that runs: `wait` for its end, or `stop` it. In a `with` block it is stopped at the end.

    Attributes:
        query: Spark's own view of it, with progress and status.
        writer: The name under which it publishes.
        is_over: Whether it was stopped, or somebody has waited for its end.
    """

    query: StreamingQuery

    def __init__(
        self,
        frame: DataFrame,
        publish: PublishBatch,
        *,
        position: Offsets,
        trigger: str | None,
        unique: str,
        keep_log: Callable[[], str],
    ) -> None:
        names = sources_of(frame)
        self.writer = publish.writer
        if not position.keys() <= set(names):
            raise Invalid(
                f"writer '{self.writer}' has a position in {_listed(position)}, and this stream reads {_listed(names)};"
                f" stream under another name, or forget the position (carnac streams forget {quote(self.writer)})",
                writer=self.writer,
            )
        self.is_over = False
        self._names = names
        self._publish = publish
        self._keep_log = keep_log
        self._position = dict(position)
        self._error: CarnacError | None = None
        self._batch = RLock()
        """Held while a batch is published."""
        self._folder = tempfile.TemporaryDirectory(dir=own_folder("streams"))
        self._checkpoint = Path(self._folder.name)
        seed_checkpoint(self._checkpoint, [position.get(name, "") for name in names], unique=unique)
        try:
            stated = _triggered(frame.writeStream, trigger)
            stated = stated.option("checkpointLocation", self._checkpoint.as_uri())
            self.query = stated.foreachBatch(self._run_batch).start()
        except BaseException:
            self._folder.cleanup()
            raise

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        return bool(self.query.isActive)

    def __repr__(self) -> str:
        state = "ended" if self.is_over else "not stopped"
        return f"<Stream: writer {self.writer}, {state}>"

    def wait(self, *, timeout_ms: int | None = None) -> bool:
        """Return whether it has ended; after so long at most. None: when it has ended.

        Raises:
            Conflict: Another process has moved the position of its writer; nothing was published twice.
            CarnacError: Another failure ended the stream. Started again, it goes on behind the last published batch.
        """
        try:
            ended = True
            if timeout_ms is None:
                self.query.awaitTermination()
            else:
                seconds: Any = timeout_ms / 1000  # not only whole ones are taken
                ended = bool(self.query.awaitTermination(seconds))
        except Exception as error:
            self._end()
            raise self._error or of_spark(error, self._keep_log) from None
        if ended:
            self._end()
        return ended

    def _end(self) -> None:
        self.is_over = True
        self._folder.cleanup()

    def stop(self) -> None:
        """End it after the batch that it publishes, if there is one. Idempotent."""
        if self.is_over:
            return
        with self._batch:
            try:
                self.query.stop()
            except Exception as error:
                raise of_spark(error, self._keep_log) from None
            finally:
                self._end()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _run_batch(self, rows: DataFrame, batch: int) -> None:
        """Publish a micro-batch, and let the stream fail in a short sentence if that fails: Spark looks at it."""
        with self._batch:
            try:
                if (self._checkpoint / "state").exists():
                    raise Invalid(f"the stream holds an operator with state; {_INSTEAD}")
                reached = read_offsets(self._checkpoint, batch)
                end = {name: text for name, text in zip(self._names, reached, strict=True) if text}
                if end != self._position:
                    self._publish(rows, self._position, end)
                    self._position = end
            except Exception as error:
                self._error = of_spark(error, self._keep_log)
                raise RuntimeError("the batch was not published") from None


def _triggered(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    if trigger is None:
        return writer
    if trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    try:
        return writer.trigger(processingTime=trigger)
    except Exception as error:
        raise Invalid(
            f"trigger is {AVAILABLE_NOW} or a time such as '10 seconds', not '{trigger}'"
        ) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def seed_checkpoint(folder: Path, offsets: Sequence[str], *, unique: str) -> None:
    """Write the checkpoint of a stream that has reached these offsets; none: of one that has not begun.

    Args:
        offsets: One for each source, in the order of its plan; an empty text: that one was not read.
        unique: A text that no other stream has, for its id.
    """
    name = uuid.uuid5(_NAMESPACE, unique)
    (folder / "metadata").write_text(json.dumps({"id": str(name)}), encoding="utf-8")
    if not any(offsets):
        return
    watermark = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    _write(folder / "offsets", watermark, *(text or _NOTHING_READ for text in offsets))
    _write(folder / "commits", {"nextBatchWatermarkMs": 0})


def _write(folder: Path, facts: object, *more: str) -> None:
    folder.mkdir()
    (folder / "0").write_text("\n".join([_FORMAT, json.dumps(facts), *more]), encoding="utf-8")


def read_offsets(folder: Path, batch: int) -> list[str]:
    """Return the offsets that end a batch that Spark has planned, one for each source; empty: it was not read.

    Raises:
        Unavailable: This Spark writes something else.
    """
    head, *lines = (folder / "offsets" / str(batch)).read_text(encoding="utf-8").split("\n")
    if head != _FORMAT or len(lines) < 2:
        raise Unavailable(
            f"Spark writes the offsets of a stream in format {head!r}, which Carnac does not read; unset Spark's"
            " settings of checkpoints, or publish by foreachBatch with writer and batch"
        )
    return ["" if line == _NOTHING_READ else line for line in lines[1:]]


def sources_of(frame: DataFrame) -> list[str]:
    """Return the names of a stream's sources in the order of its offsets, as positions call them: `0 kafka`.

    Raises:
        Invalid: It is no stream, or cannot go on from offsets alone; says what to do.
    """
    if not getattr(frame, "isStreaming", False):
        raise Invalid("stream takes a streaming DataFrame (spark.readStream); ingest takes others")
    query = getattr(frame, "_jdf", None)
    if query is None:
        raise Invalid(
            "a stream of Spark Connect runs in its server, where no store is; use a session that has its driver here"
        )
    kinds: list[str] = []
    for node in _nodes(query.queryExecution().analyzed()):
        kept = _state(node)
        if kept is not None:
            raise Invalid(
                f"the stream holds {kept}, whose state is in Spark's checkpoint; {_INSTEAD}"
            )
        if node.children().isEmpty():  # one that is read twice has two offsets, too
            kinds.append(str(node.sourceName()).partition("[")[0])
    for kind in kinds:
        if kind in _OWN_LOG:
            raise Invalid(
                f"source {kind} {_OWN_LOG[kind]}, so no position in the log says where to go on; {_INSTEAD}"
            )
    return [f"{place} {kind}" for place, kind in enumerate(kinds)]


def _nodes(node: Any) -> Iterator[Any]:
    """Yield those of a plan's nodes that are part of a stream, from left to right."""
    if not node.isStreaming():
        return
    yield node
    children = node.children().iterator()
    while children.hasNext():
        yield from _nodes(children.next())


def _state(node: Any) -> str | None:
    """Return what an operator is that keeps state; None: it keeps none."""
    name = str(node.nodeName())
    if name == "Join":
        return (
            "a join of two streams"
            if node.left().isStreaming() and node.right().isStreaming()
            else None
        )
    return "an operator with state" if "WithState" in name else _STATE.get(name)
