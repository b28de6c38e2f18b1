"""`compaction`: how datasources are compacted by themselves, how it goes, and what it will make of arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from carnac.cli.app import TIDY, add_group, command
from carnac.cli.completion.values import complete_datasource
from carnac.cli.options import Datasource, argument
from carnac.cli.session import Session
from carnac.cli.tables import (
    Column,
    bytes_text,
    columns_of,
    counted,
    format_age,
    interval_text,
    number_text,
    second_ms,
)
from carnac.core.json_form import object_to_json, some_of

if TYPE_CHECKING:
    from carnac.core.compaction.control.states import ChunkState
    from carnac.overlord.compactor.service import CompactionService

UNKNOWN = "it has none, all are too new, or no controller has looked at them"
CHUNKS_SHOWN_MAX = 500

add_group(
    "compaction",
    "Datasources that keep themselves compacted: specs, status, simulation.",
    panel=TIDY,
)


def open_service(session: Session) -> CompactionService:
    """Return what answers questions about compaction."""
    from carnac.bootstrap.compaction import open_compaction

    return open_compaction(settings=session.settings, clock=session.clock)


@command(
    "compaction set",
    panel=TIDY,
    examples=[
        "carnac compaction set flights.yaml",
        "echo 'dataSource: flights' | carnac compaction set -",
    ],
)
def put(
    session: Session,
    file: Annotated[str, argument("SPEC", "A JSON or YAML file, - for standard input.")],
) -> None:
    """Have a datasource compacted automatically, by an overlord or `carnac compact --auto`.

    The spec is Druid's automatic compaction configuration; docs/reference/compaction.md lists its fields.
    """
    from carnac.cli.specfiles import read_text
    from carnac.specs.compaction.spec import load_compaction

    name = "from standard input" if file == "-" else file
    loaded = load_compaction(read_text(file), name=name)
    with open_service(session) as service:
        spec = service.put_spec(loaded)
        is_there, notes = service.has_rows(spec.datasource), service.notes_of(spec)
    if session.output.is_json:
        session.output.json(spec.to_json_dict())
    else:
        session.output.line(
            f"{spec.datasource} is kept compacted from now on, by an overlord or by carnac compact --auto"
        )
        for item in spec.ignored:
            session.output.warning(f"{item.path} has no effect: {item.reason}")
    if not is_there:
        session.output.warning(f"there is no datasource '{spec.datasource}' yet")
    for note in notes:
        session.output.warning(note)


@command("compaction show", panel=TIDY, examples=["carnac compaction show"])
def show(
    session: Session,
    datasource: Annotated[
        str | None, argument("DATASOURCE", "Default: all.", complete=complete_datasource)
    ] = None,
) -> None:
    """Print the compaction specs that are set, as JSON."""
    with open_service(session) as service:
        if datasource is not None:
            service.check_spec(datasource)
        specs = service.specs()
    found = [spec.to_json_dict() for name, spec in specs.items() if datasource in {None, name}]
    session.output.json(found if datasource is None else found[0])


@command("compaction remove", panel=TIDY, examples=["carnac compaction remove flights"])
def remove(session: Session, datasource: Datasource) -> None:
    """Stop the automatic compaction of a datasource; running tasks continue."""
    with open_service(session) as service:
        service.remove_spec(datasource)
    session.output.answer(
        {"datasource": datasource}, f"{datasource} is not compacted by itself any more"
    )


@command(
    "compaction status",
    panel=TIDY,
    examples=["carnac compaction status", "carnac compaction status --json"],
)
def status(
    session: Session,
    datasource: Annotated[
        str | None,
        argument("DATASOURCE", "Show its time chunks one by one.", complete=complete_datasource),
    ] = None,
) -> None:
    """Show the state of compaction: time chunks, queue, running tasks, and whether the backlog will clear.

    Rates are in bytes of cost a second: bytes read, plus a little for each segment and group. The backlog clears if
    less arrives than the slots can do; otherwise it never will, and the work of least benefit is shed.
    """
    with open_service(session) as service:
        found = service.status(datasource)
    if session.output.is_json:
        session.output.json(
            {
                "controller": None
                if found.controller is None
                else object_to_json(found.controller),
                "datasources": {
                    name: [_state_json(state) for state in states]
                    for name, states in found.states.items()
                },
            }
        )
        return
    if not found.states:
        session.output.line("no datasource is kept compacted; set a spec: carnac compaction set")
        return
    if datasource is None:
        _print_summary(session, found.states)
    else:
        _print_chunks(session, found.states[datasource])
    _print_controller(session, found.controller)


def _state_json(state: ChunkState) -> dict[str, object]:
    return object_to_json(
        {
            "interval": str(state.chunk),
            "priority": round(state.priority, 6),
            "retry_at_ms": state.retry_at_ms or None,
            **some_of(
                state, "status revision segments cost reason failures arrived_bytes rewritten_bytes"
            ),
        }
    )


def _print_summary(session: Session, states: Mapping[str, Sequence[ChunkState]]) -> None:
    from carnac.core.compaction.control.states import ChunkStatus

    columns = [Column("datasource")]
    columns += [Column(str(one), is_number=True) for one in ChunkStatus]
    columns += columns_of("failing# | write amplification#")
    rows = []
    for name, known in states.items():
        arrived = sum(state.arrived_bytes for state in known)
        rewritten = sum(state.rewritten_bytes for state in known)
        counts = [sum(state.status is one for state in known) for one in ChunkStatus]
        failing = sum(state.failures > 0 for state in known)
        amplification = f"{rewritten / arrived:.1f}" if arrived else ""
        rows.append([name, *map(number_text, counts), number_text(failing), amplification])
    session.output.table(columns, rows)
    for name in (one for one, known in states.items() if not known):
        session.output.note(f"nothing is known of the time chunks of {name}: {UNKNOWN}")


def _print_chunks(session: Session, states: Sequence[ChunkState]) -> None:
    if not states:
        session.output.line(f"nothing is known of its time chunks: {UNKNOWN}")
        return
    session.output.table(
        "chunk! | state! | segments# | priority# | cost# | reason~",
        [
            [
                interval_text(state.chunk),
                str(state.status),
                number_text(state.segments),
                f"{state.priority:.2f}" if state.priority else "",
                bytes_text(state.cost) if state.cost else "",
                state.reason,
            ]
            for state in states[:CHUNKS_SHOWN_MAX]
        ],
    )
    if len(states) > CHUNKS_SHOWN_MAX:
        session.output.note(f"{number_text(len(states) - CHUNKS_SHOWN_MAX)} more; see --json")


def _print_controller(session: Session, told: Mapping[str, Any] | None) -> None:
    output = session.output
    if told is None:
        output.note("no controller has run yet: start an overlord, or carnac compact --auto")
        return
    now_ms = session.clock.now_ms()
    dispatches = told["dispatches_per_s"]
    facts = [
        ("queue", f"{counted(told['waiting'], 'task')}, cost {bytes_text(told['cost_waiting'])}"),
        ("running", counted(len(told["running"]), "task")),
        ("arrivals", f"{bytes_text(told['arrivals_per_s'])} a second"),
        (
            "dispatch",
            "not known yet" if dispatches is None else f"{bytes_text(dispatches)} a second",
        ),
        ("verdict", verdict_text(told)),
        *[("shed", deferred_text(one)) for one in told.get("deferred", ())],
        ("wasted", f"{bytes_text(told.get('bytes_wasted', 0))} written for nothing so far"),
        ("as of", f"{format_age(max(now_ms - told['at_ms'], 0))} ago"),
    ]
    output.line()
    output.facts(facts)
    if told["is_silent"]:
        output.warning(
            "the controller gives no sign of life: what is shown here as running or waiting has ended with it; nothing "
            "is to be repaired, the next one finds what is left: start an overlord, or carnac compact --auto"
        )
    for one in told["running"]:
        age = format_age(max(now_ms - one["started_ms"], 0))
        output.line(f"  runs  {one['task']}  {progress_text(one)}  for {age}")
    for one in told["queue"][:10]:
        output.line(
            f"  waits {one['task']}  priority {one['priority']:.2f}  cost {bytes_text(one['cost'])}"
        )


def progress_text(run: Mapping[str, Any]) -> str:
    """Return how far a run is, in words."""
    told = run.get("progress")
    cost = f"cost {bytes_text(run['cost'])}"
    if told is None:
        return f"{cost}, nothing done yet"
    if not told["total"]:
        return f"{cost}, {told['phase']}"
    words = f"{number_text(told['done'])} of {counted(told['total'], 'group')}"
    if told["rows"] is not None:
        words += f", {number_text(told['rows'])} of {counted(run['rows'], 'row')}"
    if told["eta_ms"] is not None:
        words += f", {format_age(told['eta_ms'])} to go"
    return f"{cost}, {words}"


def deferred_text(one: Mapping[str, Any]) -> str:
    """Return what of a datasource was shed, in words."""
    from carnac.core.time.intervals import parse_interval

    chunks = counted(one["chunks"], "time chunk")
    return (
        f"{chunks} of {one['datasource']} in {interval_text(parse_interval(one['interval']))}, cost "
        f"{bytes_text(one['cost'])}, priority {one['priority_max']:.2f} at most, until the queue runs empty"
    )


def verdict_text(told: Mapping[str, Any]) -> str:
    """Return what becomes of the backlog, in words."""
    resting = told.get("resting")
    text = _outlook_text(told)
    if resting is None:
        return text
    chunks = counted(resting["chunks"], "time chunk")
    rest = (
        "rests after it failed, and is"
        if resting["chunks"] == 1
        else "rest after they failed, and are"
    )
    return f"{text}; {chunks} {rest} tried again from {second_ms(resting['first_at_ms'])} on"


def _outlook_text(told: Mapping[str, Any]) -> str:
    backlog = bytes_text(told["backlog"])
    match told["outlook"]:
        case "clear":
            return "nothing waits"
        case "clears":
            return f"a backlog of {backlog} clears at {second_ms(told['clears_at_ms'])}"
        case "never":
            shed = told["shed"]
            words = f"; {counted(shed, 'task')} of lowest priority shed" if shed else ""
            return f"a backlog of {backlog} never clears: more arrives than is done{words}"
        case _:
            return f"a backlog of {backlog}; no task has ended yet, so the pace is not known"
