"""Streams: batch by batch what `ingest` does, each with the offset range that Spark has planned for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from carnac.core.log.positions import OffsetRange
from carnac.core.texts import KEY_MAX, check_name
from carnac.errors import Conflict, Invalid
from carnac.specs.load import is_spec_text, load_spec
from carnac.store.writing import declarations
from carnac.store.writing.noticing import lines_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from carnac.metadata.store import MetadataStore
    from carnac.ports import Published
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.store.history import History
    from carnac.store.writing.outcome import WriteOutcome


_log = logging.getLogger(__name__)


def _spec_of_stream(spec: IngestSpec | Mapping[str, object] | str) -> IngestSpec | str:
    """Return what each batch is loaded by: a spec, or the name of a datasource.

    Raises:
        Invalid: The spec is wrong, or not for a stream.
    """
    if isinstance(spec, str) and not is_spec_text(spec):
        return spec
    found = load_spec(spec, has_rows=True)
    if found.mode != "append":
        raise Invalid("a stream appends; the spec replaces what is there")
    if found.writer is not None:
        raise Invalid(
            "a stream names its writer itself, and no batches; leave both out of the spec"
        )
    return found


class BatchPublisher:
    """Publishes the batches of one stream.

    Args:
        ingest: Takes spec, rows and `offsets`.
        spec: As for `Store.stream`.

    Raises:
        Invalid: The spec is not for a stream, or the writer's name cannot be kept.
    """

    def __init__(
        self,
        ingest: Callable[..., WriteOutcome],
        metadata: MetadataStore,
        history: History,
        writer: str,
        spec: IngestSpec | Mapping[str, object] | str,
    ) -> None:
        self._ingest = ingest
        self._metadata = metadata
        self._history = history
        self.writer = check_name(writer, "the name of a writer", limit=KEY_MAX)
        self._spec = _spec_of_stream(spec)

    def __call__(self, rows: DataFrame, start: Mapping[str, str], end: Mapping[str, str]) -> None:
        """Publish a batch.

        Raises:
            Conflict: Another process has moved the position.
            CarnacError: As `Store.ingest`.
        """
        offsets = OffsetRange(writer=self.writer, start=start, end=end)
        done: WriteOutcome | Published
        if self._shows_nothing(rows):
            done = self._history.move_position(offsets, message="")
        else:
            done = self._ingest(self._spec, rows, offsets=offsets)
            name = self._spec if isinstance(self._spec, str) else self._spec.datasource
            for line in () if done.report is None else lines_of(name, done.report):
                _log.warning("%s", line)
        if done.is_replay:
            raise Conflict(
                f"commit {done.revision} has published this part of the source already, by another stream of writer "
                f"'{self.writer}'; nothing was published: end one of them, or stream under a name of its own",
                writer=self.writer,
                commit=done.revision,
            )

    def _shows_nothing(self, rows: DataFrame) -> bool:
        """Whether a spec is still to be found in the rows, and there are none."""
        if not isinstance(self._spec, str) or declarations.find(self._metadata, self._spec):
            return False
        return bool(rows.isEmpty())
