"""The report of the cluster: a sentence, a table, a document for programs, a picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from carnac.cli.demo.cluster.checks import Judged
from carnac.cli.demo.cluster.story import ClusterDemo
from carnac.cli.output import Output
from carnac.cli.tables import Column, number_text
from carnac.console.cluster import VERDICTS, ClusterStory, draw_cluster
from carnac.console.export import write_chart

EXAMPLES_MAX = 3
"""Maximum number of examples of each bad verdict."""


def write_picture(story: ClusterStory, path: Path) -> Path:
    """Draw the run; return the path."""
    write_chart(draw_cluster(story), path)
    return path


def print_report(output: Output, demo: ClusterDemo, picture: Path) -> None:
    """Say what came of it."""
    counts = Counter(one.verdict for one in demo.judged)
    output.line()
    output.table(
        [Column(name, is_number=True) for name in ("queries", *VERDICTS, "median", "p99")],
        [
            [
                number_text(len(demo.judged)),
                *(number_text(counts[name]) for name in VERDICTS),
                *(f"{number_text(_rank(demo.judged, share))} ms" for share in (0.5, 0.99)),
            ]
        ],
    )
    output.line()
    if demo.is_right:
        text = "every query was answered, and with exactly what its revision holds"
        output.line(output.style(text, "green"))
    for one in _examples(demo.judged):
        output.error(f"{one.verdict}: {one.why}")
    output.line(f"picture: {picture}")


def cluster_document(demo: ClusterDemo, picture: Path) -> dict[str, object]:
    """Return the same for programs."""
    counts = Counter(one.verdict for one in demo.judged)
    return {
        "ok": demo.is_right,
        "picture": str(picture),
        "queries": {"asked": len(demo.judged), **{str(name): counts[name] for name in VERDICTS}},
        "took_ms": {"median": _rank(demo.judged, 0.5), "p99": _rank(demo.judged, 0.99)},
        "revisions": len({one.sample.revision for one in demo.judged} - {None}),
        "examples": [{"verdict": one.verdict, "why": one.why} for one in _examples(demo.judged)],
    }


def _rank(judged: Sequence[Judged], share: float) -> int:
    """Return a quantile of how long queries took (nearest rank), milliseconds; 0 if there were none."""
    ordered = sorted(one.sample.took_ms for one in judged) or [0]
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _examples(judged: Sequence[Judged]) -> list[Judged]:
    found: list[Judged] = []
    for verdict in VERDICTS:
        if verdict != "right":
            found += [one for one in judged if one.verdict == verdict][:EXAMPLES_MAX]
    return found
