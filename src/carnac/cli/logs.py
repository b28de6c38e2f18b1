"""The log of a running service: lines for people, or one JSON object a line for programs. On standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from carnac.core.time.intervals import format_ms

ROOT = "root"
QUIET = {
    "uvicorn.error": logging.WARNING,
    "asyncio": logging.WARNING,
    "alembic": logging.WARNING,
    "py4j": logging.CRITICAL,
    "psycopg": logging.CRITICAL,
}
"""Libraries, and from which level on they are heard: the last two raise what they log, and we tell it in one line."""


@contextmanager
def logging_to_stderr(*, is_json: bool, level: int = logging.INFO) -> Iterator[None]:
    """Write what is logged in this block to standard error; a thread that logs later may find that closed."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if is_json else _Lines())
    levels = {ROOT: level} | {name: max(level, least) for name, least in QUIET.items()}
    before = {name: logging.getLogger(name).level for name in levels}
    logging.root.addHandler(handler)
    _set_levels(levels)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        _set_levels(before)


def _set_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


class _Lines(logging.Formatter):
    """`2024-01-01T00:00:00.000Z INFO overlord.loop: …`."""

    def format(self, record: logging.LogRecord) -> str:
        where = record.name.removeprefix("carnac.")
        line = f"{_time(record)} {record.levelname} {where}: {record.getMessage()}"
        return (
            line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"
        )


class _JsonLines(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and `error` with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    return format_ms(int(record.created * 1000))
