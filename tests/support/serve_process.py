"""`carnac serve` as a process, and what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 120
"""For a machine that is busy with other things."""


class Served:
    """A process that serves."""

    def __init__(self, store: Path | str, *args: str, **environ: str) -> None:
        self.lines: list[str] = []
        self._is_told = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "carnac", "serve", "--store", str(store), "--port", "0", *args],
            env={**os.environ, **environ},
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def url(self) -> str:
        """Where it listens; waits until it does."""
        assert self._is_told.wait(START_S), "it does not start"
        found = re.search(r"listening at (https?://[\d.:]+\d)", "".join(self.lines))
        assert found is not None, self.lines
        return found[1]

    @property
    def port(self) -> int:
        """Of `url`."""
        return int(self.url.rpartition(":")[2])

    def end(self) -> int:
        """Tell it to stop; return its exit code."""
        self.process.terminate()
        code = self.process.wait(START_S)
        self._reader.join()  # of what it said last, too
        return code

    def close(self) -> None:
        """End it at once. Idempotent."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)
            if "listening at" in line:
                self._is_told.set()
        self._is_told.set()


@contextmanager
def serving(store: Path | str, *args: str, **environ: str) -> Iterator[Served]:
    """Yield a process that serves until the block ends."""
    served = Served(store, *args, **environ)
    try:
        yield served
    finally:
        served.close()
