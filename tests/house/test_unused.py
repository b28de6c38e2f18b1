"""Nothing lies about unused: every function, class and constant of the package is named somewhere else."""

from __future__ import annotations

import re
from collections import Counter

from tests.house.checkout import ROOT, name_of, outline_of, python_files, text_of

SOURCE = ROOT / "src" / "carnac"
CALLED_BY_OTHERS = {
    "addInPlace": "Spark's AccumulatorParam",
    "authenticate": "pyarrow's ServerAuthHandler",
    "collect_usage_pieces": "Typer's Command",
    "connection_lost": "asyncio's Protocol",
    "connection_made": "asyncio's Protocol",
    "emit": "logging.Handler",
    "get_file": "fsspec's AbstractFileSystem",
    "on_body": "httptools' HTTPProtocol",
    "on_header": "httptools' HTTPProtocol",
    "on_headers_complete": "httptools' HTTPProtocol",
    "on_message_begin": "httptools' HTTPProtocol",
    "on_message_complete": "httptools' HTTPProtocol",
    "on_url": "httptools' HTTPProtocol",
    "seekable": "pyarrow's PythonFile",
    "sending_headers": "pyarrow's ServerMiddleware",
    "start_call": "pyarrow's ServerMiddlewareFactory",
}
"""Names that a library calls and we do not, and whose they are. To stand here is to be named somewhere else."""


def test_every_name_is_used() -> None:
    words = Counter(word for path in python_files() for word in re.findall(r"\w+", text_of(path)))
    unused = [
        f"{name_of(path)}:{line}: {name}"
        for path in python_files()
        if path.is_relative_to(SOURCE)
        for name, line in outline_of(path).definitions
        if words[name] == 1 and not name.startswith("__")
    ]
    assert unused == []
