"""Spark's checkpoint of a stream, made from offsets and read for them: files of lines, as `OffsetSeqLog` writes them.

A checkpoint whose batch 0 is planned and committed has Spark go on from the offsets of that batch. Other parts of a
checkpoint (state of operators, logs of a source's own) cannot be made from offsets: see `stream_plans`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

from carnac.errors import Unavailable

_FORMAT = "v1"
_NOTHING_READ = "-"
_NAMESPACE = uuid.UUID("5b0f1d3e-3c0d-4a86-9d3c-5d8f4f6d2a10")


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
