"""What a service says while it runs: lines for people, or one JSON object a line for programs. On standard error."""

from __future__ import annotations

import json
import logging
import sys

from carnac.core.time.intervals import format_ms

QUIET = ("py4j", "uvicorn.error", "asyncio", "alembic")
"""Libraries whose news are not ours; their warnings are."""


def start_logging(*, is_json: bool, level: int = logging.INFO) -> None:
    """Write what is logged from now on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if is_json else _Lines())
    logging.root.addHandler(handler)
    logging.root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


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
