"""One self-contained HTML page of a simulation: the cloud of points over the hours, to play and to step through.

The page needs no network. Points and moves are packed bytes, deflated, in base64; the browser inflates them.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from carnac.console.clouds import HUES
from carnac.console.html import embed_json, fill_page
from carnac.core.showing import escape_text
from carnac.core.time.intervals import format_ms
from carnac.core.words import counted, share_text
from carnac.simulation.measures import QueryMeasure, measure_answers
from carnac.simulation.report import SPEED_FORMULA, faster_by
from carnac.simulation.scenario import HOUR_MS

if TYPE_CHECKING:
    import numpy.typing as npt

    from carnac.simulation.run import Film, Future, Outcome

NO_BAND = 0xFFFF


def render_page(outcome: Outcome, svgs: Sequence[str]) -> str:
    """Return the page; `svgs` are the charts below the animation."""
    template = files("carnac.console").joinpath("balance_page.html").read_text(encoding="utf-8")
    films = [_pack_film(outcome, future) for future in outcome.futures]
    parts = {
        "title": escape_text(f"Balancing: {outcome.scenario.name}"),
        "lead": _lead(outcome),
        "rows": "\n".join(_rows(outcome)),
        "formula": escape_text(SPEED_FORMULA),
        "figures": "\n".join(f"<figure>{svg}</figure>" for svg in svgs),
        "data": embed_json({"hues": HUES, "films": films}),
    }
    return fill_page(template, parts)


def pack_moves(film: Film) -> tuple[bytes, list[int]]:
    """Return the moves of a film as bytes, and how many there are in each frame.

    A move is the number of a point (4 bytes) and its band from then on (2 bytes; NO_BAND: not shown), little endian,
    the numbers of all points first. The first frame is the move of every point to where it is at the start.
    """
    band_of = np.full(int(film.servers.max()) + 2, NO_BAND, np.uint16)
    band_of[film.servers] = np.arange(len(film.servers))
    last = np.full(len(film.source), NO_BAND, np.uint16)
    points, bands, counts = [], [], []
    for frame in film.frames:
        known = np.clip(frame, -1, len(band_of) - 2)
        band = np.where((frame >= 0) & (frame == known), band_of[known], NO_BAND).astype(np.uint16)
        moved = np.flatnonzero(band != last)
        points.append(moved.astype("<u4"))
        bands.append(band[moved].astype("<u2"))
        counts.append(len(moved))
        last = band
    return np.concatenate(points).tobytes() + np.concatenate(bands).tobytes(), counts


def _pack_film(outcome: Outcome, future: Future) -> dict[str, object]:
    film = future.film
    moves, counts = pack_moves(film)
    low = int(film.start_ms.min()) if len(film.start_ms) else 0
    high = int(film.start_ms.max()) + HOUR_MS if len(film.start_ms) else HOUR_MS
    hours = ((film.start_ms - low) // HOUR_MS).astype("<u2")
    hue = (film.source % len(HUES)).astype(np.uint8)
    return {
        "strategy": future.strategy,
        "bands": len(film.servers),
        "servers": [int(server) for server in film.servers],
        "points": len(film.source),
        "share": round(film.share, 4),
        "from": format_ms(low),
        "hours": (high - low) // HOUR_MS,
        "starts": _deflate(hours),
        "hues": _deflate(hue),
        "moves": base64.b64encode(zlib.compress(moves, 9)).decode(),
        "counts": counts,
        "measures": [
            [m.hour, round(m.queries.mean_ratio, 3), round(m.queries.mean_unused, 4), m.moves]
            for m in future.measures
        ],
        "events": [
            {
                "hour": change.at_hour,
                "kind": change.kind,
                "bands": [
                    int(np.searchsorted(film.servers, server))
                    for server in change.servers
                    if server in film.servers
                ],
            }
            for change in outcome.changes
            if change.at_hour >= 0
        ],
    }


def _deflate(values: npt.NDArray[np.generic]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode()


def _lead(outcome: Outcome) -> str:
    scenario = outcome.scenario
    return escape_text(
        f"{counted(len(outcome.before.server), 'segment')} of "
        f"{counted(len(outcome.segments.sources), 'datasource')} on {counted(outcome.server_count, 'server')}. "
        f"For {counted(scenario.history.days, 'day')} they were placed and balanced by the strategy "
        f"{scenario.history.strategy}; at hour 0 another strategy takes over, with at most "
        f"{counted(scenario.moves_per_hour, 'move')} an hour. Seed {outcome.seed}."
    )


def _rows(outcome: Outcome) -> list[str]:
    before = measure_answers(outcome.answers_before)
    rows = [_row("before", before, "", "")]
    for future in outcome.futures:
        after = measure_answers(future.answers)
        rows.append(
            _row(
                f"after {future.strategy}",
                after,
                share_text(faster_by(before, after), "+.1%"),
                f"{future.measures[-1].moves:,}",
            )
        )
    return rows


def _row(name: str, measured: QueryMeasure, faster: str, moves: str) -> str:
    cells = (
        f"{measured.mean_makespan:.2f}",
        f"{measured.mean_ideal:.2f}",
        f"{measured.mean_ratio:.2f}",
        f"{measured.p95_ratio:.2f}",
        share_text(measured.mean_unused),
        faster,
        moves,
    )
    return f"<tr><th>{escape_text(name)}</th>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"
