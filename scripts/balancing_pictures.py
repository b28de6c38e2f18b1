"""Draw the pictures of docs/concepts/balancing.md anew, and print the figures that it tells.

Usage: python scripts/balancing_pictures.py

Takes two to three minutes: it runs the preset metamarkets under three strategies, from seed 0.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from carnac.console.balance_story import draw_layout, draw_story
from carnac.console.export import render_chart
from carnac.simulation.load import load_preset
from carnac.simulation.measures import measure_answers
from carnac.simulation.report import faster_by
from carnac.simulation.run import Outcome, Simulation

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SERVERS = 36
DETAIL = 0.75


def main() -> int:
    """Simulate, draw, print."""
    scenario = load_preset("metamarkets")
    outcome = Simulation(scenario, seed=0).run(("cost", "legacy", "random"))
    draw(outcome)
    tell(outcome)
    return 0


def draw(outcome: Outcome) -> None:
    """Write the pictures."""
    cost = outcome.futures[0]
    hit = [int(server) for change in outcome.changes for server in change.servers]
    others = [int(server) for server in cost.film.servers if server not in hit]
    servers = cost.film.servers[
        [s in {*hit, *others[: SERVERS - len(hit)]} for s in cost.film.servers]
    ]
    days = outcome.scenario.days
    charts = draw_story(outcome)
    charts["before"] = draw_layout(
        outcome, outcome.before, servers, title="Before: the old function", detail=DETAIL
    )
    charts["after"] = draw_layout(
        outcome,
        cost.after,
        servers,
        title=f"After {days} days of the new function",
        hour=days * 24,
        detail=DETAIL,
    )
    for name in ("before", "after", "makespan", "timeline"):
        path = IMAGES / f"balancing-{name}.svg"
        path.write_bytes(render_chart(charts[name], ".svg"))
        print(f"docs/images/{path.name}: {path.stat().st_size:,} bytes")


def tell(outcome: Outcome) -> None:
    """Print what the chapter says in figures."""
    before = measure_answers(outcome.answers_before)
    print("before", json.dumps(asdict(before)))
    for future in outcome.futures:
        after, last = measure_answers(future.answers), future.measures[-1]
        print(
            future.strategy, json.dumps(asdict(after)), f"faster by {faster_by(before, after):.1%}"
        )
        costs = f"{future.measures[0].total_cost:.4g} -> {last.total_cost:.4g}"
        print(f"  moves {last.moves:,}, reloads {last.reloads:,}, cost {costs}")


if __name__ == "__main__":
    sys.exit(main())
