"""The planted bugs that the simulator finds, by law and time, as the table of `docs/simulating.md`, made by a run.

`python -m scripts.planted_bugs` takes minutes; `--write` puts the table into the page, where tests find the seeds too.
"""

from __future__ import annotations

import argparse
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bugs import BUGS, Bug, run_with

PAGE = Path(__file__).parent.parent / "docs" / "simulating.md"
BEGIN, END = "<!-- planted bugs: begin -->\n", "<!-- planted bugs: end -->\n"
_ROW = re.compile(r"^\| `([^`]+)` \|.*\| (\d+) \| \d+ of \d+ seeds \|", re.MULTILINE)
SEEDS_MAX = 200
STEPS = 6


@dataclass(frozen=True, slots=True)
class Found:
    """The search for a planted bug.

    Attributes:
        seeds: Seeds that found it, in order.
        laws: Auditors that reported it, in order.
        tried: Number of seeds that were tried, from 0 on.
        first_s, all_s: Seconds of processor time until the first seed found it, and in all.
    """

    bug: Bug
    seeds: tuple[int, ...]
    laws: tuple[str, ...]
    tried: int
    first_s: float
    all_s: float


def look_for(bug: Bug, finds: int) -> Found:
    """Try seeds until as many have found a bug."""
    seeds: list[int] = []
    laws: list[str] = []
    began_s = time.process_time()
    first_s = 0.0
    seed = 0
    while seed < SEEDS_MAX and len(seeds) < finds:
        violations = run_with(bug, seed, steps=STEPS).violations
        if violations:
            seeds.append(seed)
            laws += [one.auditor for one in violations[:1] if one.auditor not in laws]
            first_s = first_s or time.process_time() - began_s
        seed += 1
    return Found(bug, tuple(seeds), tuple(laws), seed, first_s, time.process_time() - began_s)


def table(found: Sequence[Found], finds: int) -> str:
    """Return the table as Markdown."""
    lines = [
        "| bug | what is wrong | auditor | first seed | found by | processor time |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{one.bug.name}` | {one.bug.text} | {', '.join(one.laws) or 'nobody'} | "
            f"{one.seeds[0] if one.seeds else 'none'} | {len(one.seeds)} of {one.tried} seeds | {one.first_s:.1f} s |"
            for one in found
        ),
    ]
    lines += [
        "",
        f"*Found by*: how many of the seeds that were tried; trying began with 0 and ended when {finds} had found it, "
        f"or after {SEEDS_MAX}. *Processor time*: until the first one, {sum(one.first_s for one in found):.0f} s for "
        f"all {len(found)} bugs. Made by `python -m scripts.planted_bugs --finds {finds} --write` with Python "
        f"{platform.python_version()}, {STEPS} steps.",
        "",
    ]
    return "\n".join(lines)


def first_seeds() -> dict[str, int]:
    """Return which seed finds each bug first, as the page says; bugs that none finds are left out."""
    table = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    return {name: int(seed) for name, seed in _ROW.findall(table)}


def main() -> None:
    """Run, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finds", type=int, default=5, help="seeds that must find each bug")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    names = [bug.name for bug in BUGS]
    parser.add_argument("bugs", nargs="*", metavar="BUG", help=f"of {', '.join(names)}; none: all")
    given = parser.parse_args()
    if unknown := sorted({*given.bugs}.difference(names)):
        parser.error(f"there is no bug '{unknown[0]}' to plant")
    found = []
    for bug in [bug for bug in BUGS if not given.bugs or bug.name in given.bugs]:
        found.append(look_for(bug, given.finds))
        one = found[-1]
        print(f"{bug.name}: {one.seeds} of {one.tried}, {one.laws}, {one.all_s:.0f} s", flush=True)
    made = table(found, given.finds)
    if given.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    else:
        print(made)
    if any(len(one.seeds) < given.finds for one in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
