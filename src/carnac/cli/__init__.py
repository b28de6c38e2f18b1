"""The command line: `carnac`. What a person types, and what they read.

Standard output carries the answer, standard error everything else: notes, progress, errors. With `--json` standard
output is one JSON document. Exit codes are those of `carnac.errors`; 2 also for a wrong command line, 70 for an error
inside Carnac, 130 after Ctrl-C.
"""

from __future__ import annotations

from carnac.cli.main import main

__all__ = ["main"]
