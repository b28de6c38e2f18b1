"""`balance simulate`: a made-up cluster under a balancing strategy."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from carnac.cli.app import SIMULATE, add_group, command
from carnac.cli.completion.values import complete_word
from carnac.cli.options import argument, flag, option
from carnac.cli.progress import phase_progress
from carnac.cli.session import Session
from carnac.cli.specfiles import read_text
from carnac.cli.tables import bytes_text, format_seconds, number_text
from carnac.core.words import counted, share_text
from carnac.errors import Invalid
from carnac.simulation.presets import PRESETS

if TYPE_CHECKING:
    from carnac.cli.output import Output
    from carnac.simulation.run import Outcome
    from carnac.simulation.scenario import Scenario, Strategy

COMPARED: tuple[Strategy, ...] = ("cost", "legacy", "random")
DEFAULT_PRESET = "small"

add_group(
    "balance",
    "Which server holds which segment: what the next runs will move, a picture of it, a simulation.",
    panel=SIMULATE,
)


class StrategyName(StrEnum):
    """The strategy that places and moves segments; `compare` runs cost, legacy and random from the same state."""

    COST = "cost"
    LEGACY = "legacy"
    LEGACY_LINEAR = "legacy-linear"
    RANDOM = "random"
    COMPARE = "compare"


ScenarioFile: TypeAlias = Annotated[
    str | None,
    argument("SCENARIO", "A JSON or YAML file, - for standard input. Default: a preset."),
]
Preset: TypeAlias = Annotated[
    str | None,
    option(
        "--preset NAME",
        "metamarkets, small, mixed or tiers. Default: small.",
        complete=complete_word(*PRESETS),
    ),
]
Takeover: TypeAlias = Annotated[
    StrategyName | None,
    option(
        "--strategy",
        "Strategy that places and moves segments from hour 0. Default: the scenario's.",
        case_sensitive=False,
    ),
]
Folder: TypeAlias = Annotated[
    Path | None, option("--out -o DIR", "Write the pictures and report.json there.")
]
Seed: TypeAlias = Annotated[
    int, option("--seed N", "The same seed gives the same run.", min=0, max=2**63 - 1)
]
Days: TypeAlias = Annotated[
    int | None, option("--days N", "Days after hour 0, in place of the scenario's.", max=3_650)
]
Servers: TypeAlias = Annotated[
    int | None, option("--servers N", "Servers of the first tier.", max=10_000)
]
MovesPerHour: TypeAlias = Annotated[
    int | None, option("--moves-per-hour N", "The throttle of each tier.", max=1_000_000)
]
HistoryStrategy: TypeAlias = Annotated[
    StrategyName | None,
    option(
        "--history",
        "Strategy that placed and moved segments before hour 0. Default: the scenario's.",
        case_sensitive=False,
    ),
]
HalfLife: TypeAlias = Annotated[
    float | None,
    option("--half-life-hours H", "Half-life of the cost function, in hours.", max=1e6),
]
PrintScenario: TypeAlias = Annotated[
    bool, flag("--print-scenario", "Print the scenario as JSON, and do nothing.")
]


@command(
    "balance simulate",
    panel=SIMULATE,
    examples=[
        "carnac balance simulate",
        "carnac balance simulate --preset metamarkets --out story",
        "carnac balance simulate --strategy compare --seed 7 --json",
        "carnac balance simulate --print-scenario > mine.json",
        "carnac balance simulate mine.json --moves-per-hour 100 --out story",
    ],
)
def simulate(
    session: Session,
    *,
    file: ScenarioFile = None,
    preset: Preset = None,
    strategy: Takeover = None,
    history: HistoryStrategy = None,
    out: Folder = None,
    seed: Seed = 0,
    days: Days = None,
    servers: Servers = None,
    moves_per_hour: MovesPerHour = None,
    half_life_hours: HalfLife = None,
    print_scenario: PrintScenario = False,
) -> None:
    """Simulate a cluster: segments arrive and go, servers fail, a strategy places and moves.

    Reports and draws how far the queries of a trace are from the ideal, before and after the strategy took over. The
    scenario describes the cluster; `docs/concepts/balancing.md` explains the preset metamarkets.
    """
    changes: dict[str, Any] = {
        "days": days,
        "movesPerHour": moves_per_hour,
        "halfLifeHours": half_life_hours,
    }
    scenario = _find_scenario(
        file, preset, {k: v for k, v in changes.items() if v is not None}, servers, history
    )
    if print_scenario:
        session.output.json(scenario.to_json_dict())
        return
    strategies = _strategies(strategy, scenario)
    from carnac.simulation.report import describe_outcome
    from carnac.simulation.run import Simulation

    if out is not None:
        from carnac.console.balance_story import make_folder

        make_folder(out)
    started_ms = session.clock.now_ms()
    with phase_progress(session, unit="hours") as tell:
        outcome = Simulation(scenario, seed=seed, on_progress=tell).run(strategies)
    paths: list[Path] = []
    document = describe_outcome(outcome)
    if out is not None:
        with phase_progress(session, unit="pictures") as tell:
            paths = _write(outcome, document, out, tell)
    if session.output.is_json:
        session.output.json({**document, "files": [str(path) for path in paths]})
        return
    _print(session.output, outcome, (session.clock.now_ms() - started_ms) / 1000)
    for path in paths:
        session.output.line(f"{path} ({bytes_text(path.stat().st_size)})")


def _find_scenario(
    file: str | None,
    preset: str | None,
    changes: dict[str, Any],
    servers: int | None,
    history: StrategyName | None,
) -> Scenario:
    from carnac.simulation.load import change_scenario, load_preset, load_scenario

    if file is not None and preset is not None:
        raise Invalid("a scenario file and a preset are given; give one of them")
    scenario = (
        load_preset(preset or DEFAULT_PRESET)
        if file is None
        else load_scenario(read_text(file, "scenario"))
    )
    if servers is not None:
        first, *others = scenario.to_json_dict()["tiers"]
        changes = {**changes, "tiers": [{**first, "servers": servers}, *others]}
    if history is StrategyName.COMPARE:
        raise Invalid("--history takes one strategy; compare goes with --strategy")
    if history is not None:
        before = scenario.to_json_dict()["history"]
        changes = {**changes, "history": {**before, "strategy": history.value}}
    return change_scenario(scenario, changes)


def _strategies(name: StrategyName | None, scenario: Scenario) -> tuple[Strategy, ...]:
    if name is None:
        return (scenario.strategy,)
    if name is StrategyName.COMPARE:
        return COMPARED
    found: Strategy = name.value  # type: ignore[assignment] # the other names are strategies
    return (found,)


def _write(
    outcome: Outcome,
    document: dict[str, object],
    folder: Path,
    tell: Callable[[str, int, int], None],
) -> list[Path]:
    import json

    from carnac.console.balance_story import write_story
    from carnac.named_files import write_named

    paths = write_story(outcome, folder, on_progress=tell)
    report = folder / "report.json"
    write_named(report, json.dumps(document, indent=1) + "\n")
    return [*paths, report]


def _print(output: Output, outcome: Outcome, seconds: float) -> None:
    from carnac.simulation.measures import measure_answers
    from carnac.simulation.report import faster_by

    scenario = outcome.scenario
    output.line(
        f"{scenario.name}: {counted(len(outcome.before.server), 'segment')} on "
        f"{counted(outcome.server_count, 'server')}, {counted(scenario.days, 'day')}, seed {outcome.seed}, "
        f"{format_seconds(seconds)}"
    )
    before = measure_answers(outcome.answers_before)
    states = [("before", before, "", "")]
    for future in outcome.futures:
        after = measure_answers(future.answers)
        moves = number_text(future.measures[-1].moves)
        states.append(
            (f"after {future.strategy}", after, share_text(faster_by(before, after), "+.1%"), moves)
        )
    output.table(
        "queries | makespan# | ideal# | over ideal# | sum over sum# | unused# | faster by# | "
        "moves#",
        [
            [
                name,
                f"{measured.mean_makespan:.2f}",
                f"{measured.mean_ideal:.2f}",
                f"{measured.mean_ratio:.2f}",
                f"{measured.mean_makespan / max(measured.mean_ideal, 1):.2f}",
                share_text(measured.mean_unused),
                faster,
                moves,
            ]
            for name, measured, faster, moves in states
        ],
    )
    waiting = [t for f in outcome.futures for t in f.measures[-1].tiers if t.unplaced]
    for tier in waiting[:1]:
        output.warning(
            f"{counted(tier.unplaced, 'segment')} of tier {tier.name} on no server: the disks are full"
        )
