"""The committed results of benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def read_result(name: str) -> Any:
    """Return what a benchmark wrote: `benchmark`, `date`, `machine` and `figures`."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
