"""`simulate cluster`: the whole system under one seed, with everything that can go wrong."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from carnac.cli.app import SIMULATE, add_group, command
from carnac.cli.completion.values import complete_word
from carnac.cli.options import option
from carnac.cli.progress import phase_progress
from carnac.cli.session import Session
from carnac.cli.tables import Column, number_text
from carnac.errors import Invalid
from carnac.named_files import open_named

if TYPE_CHECKING:
    from carnac.bootstrap.simulated.run import Verdict
    from carnac.cli.output import Output

EXIT_VIOLATED = 8
"""Exit code if an invariant does not hold."""

Seed: TypeAlias = Annotated[
    int, option("--seed N", "The same seed gives the same trace.", min=0, max=2**63 - 1)
]
Seeds: TypeAlias = Annotated[
    int, option("--seeds N", "Number of seeds, from --seed on.", min=1, max=1_000_000)
]

add_group("simulate", "The whole system under one seed.", panel=SIMULATE)


@command(
    "simulate cluster",
    panel=SIMULATE,
    examples=[
        "carnac simulate cluster --seed 7",
        "carnac simulate cluster --seeds 20 --faults crash,database",
        "carnac simulate cluster --seed 7 --trace seed-7.txt",
    ],
)
def simulate_cluster(
    session: Session,
    *,
    seed: Seed = 0,
    seeds: Seeds = 1,
    steps: Annotated[
        int, option("--steps N", "Number of actions of each client.", min=1, max=1000)
    ] = 12,
    faults: Annotated[
        str,
        option(
            "--faults KINDS",
            "all, none, or some of crash,freeze,clock,database,storage,network.",
            complete=complete_word("all", "none"),
        ),
    ] = "all",
    trace: Annotated[
        Path | None, option("--trace FILE", "Write a trace with one line per event. One seed.")
    ] = None,
) -> None:
    """Let a cluster of real services live in one process, on a simulated clock, and audit what comes of it.

    Processes crash between any two effects, stand still and wake after their leases; clocks jump; the metadata store,
    deep storage and the network fail. Stops at the first seed with a violation, and exits with 8.
    """
    from carnac.bootstrap.simulated.run import run
    from carnac.simulation.cluster.faults import parse_kinds

    kinds = parse_kinds(faults)
    if trace is not None and seeds != 1:
        raise Invalid("--trace is for one seed; leave --seeds out")
    found: list[Verdict] = []
    with ExitStack() as stack, phase_progress(session, unit="seeds") as tell:
        note = None
        if trace is not None:
            file = stack.enter_context(open_named(trace))
            note = lambda line: file.write(f"{line}\n")  # noqa: E731
        for number in range(seed, seed + seeds):
            found.append(run(number, steps=steps, kinds=kinds, on_note=note))
            tell("simulate", len(found), seeds)
            if found[-1].violations:
                break
    if session.output.is_json:
        session.output.json({"seeds": [_document(one) for one in found]})
    else:
        _print(session.output, found, f"--steps {steps} --faults {faults}")
    if found[-1].violations:
        raise typer.Exit(EXIT_VIOLATED)


def _document(one: Verdict) -> dict[str, object]:
    return {
        "seed": one.seed,
        "digest": one.digest,
        "simulated_ms": one.elapsed_ms,
        "revisions": one.revisions,
        "answers": one.answers,
        "violations": [
            {"auditor": bad.auditor, "text": bad.text, "after_ms": bad.at_ms}
            for bad in one.violations
        ],
    }


def _print(output: Output, found: list[Verdict], options: str) -> None:
    rows = [
        [
            f"{one.seed}",
            one.digest,
            f"{one.elapsed_ms / 1000:,.0f} s",
            number_text(one.revisions),
            number_text(one.answers),
            one.violations[0].auditor if one.violations else "none",
        ]
        for one in found
    ]
    columns = ("seed", "digest", "simulated", "revisions", "answers", "violation")
    output.table([Column(name) for name in columns], rows)
    for bad in found[-1].violations:
        output.line(f"{bad.auditor}, after {bad.at_ms / 1000:.1f} s: {bad.text}")
    if found[-1].violations:
        told = f"--seed {found[-1].seed} {options} --trace trace.txt"
        output.line(f"again: carnac simulate cluster {told}")
