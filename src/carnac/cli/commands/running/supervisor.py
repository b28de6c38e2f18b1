"""`supervisor …`: have streams read, look how they are read, stop that. An overlord runs the tasks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from carnac.cli.app import RUN, add_group, command
from carnac.cli.options import argument, flag
from carnac.cli.serving import listing, note_without_overlord
from carnac.cli.session import Session
from carnac.cli.tables import columns_of, counted

if TYPE_CHECKING:
    from carnac.api.overlord.supervisor_client import SupervisorClient
    from carnac.overlord.supervisors.service import SupervisorService

add_group(
    "supervisor", "Streams that an overlord has read: Kafka topics into datasources.", panel=RUN
)

SupervisorId: TypeAlias = Annotated[str, argument("ID", "The supervisor's id.")]
_COLUMNS = columns_of("supervisor | state! | detail! | healthy")


@command(
    "supervisor submit",
    panel=RUN,
    examples=["carnac supervisor submit clicks.json"],
)
def submit(
    session: Session,
    file: Annotated[
        str, argument("FILE", "The spec in JSON or YAML, as Druid has it; - is standard input.")
    ],
) -> None:
    """Submit a supervisor spec of type kafka; it takes the place of the one of the same id.

    Rows can be queried seconds after they were produced, each once, whatever dies. The spec is kept whether or not an
    overlord runs now.
    """
    from carnac.cli.specfiles import read_text
    from carnac.errors import Invalid
    from carnac.specs.load import parse_text
    from carnac.specs.supervisors.kafka import load_supervisor

    value = parse_text(read_text(file))
    if not isinstance(value, dict):
        raise Invalid("a supervisor spec is an object with fields")
    load_supervisor(value)
    with _open(session) as supervisors:
        supervisor_id = supervisors.submit_spec(value)
        note_without_overlord(session, supervisors.leader())
    session.output.answer({"id": supervisor_id}, supervisor_id)


@command("supervisor list", panel=RUN, examples=["carnac supervisor list --json"])
def list_supervisors(session: Session) -> None:
    """List supervisors and how they stand."""
    with _open(session) as supervisors:
        found = supervisors.states()
        if found:
            note_without_overlord(session, supervisors.leader())
    if session.output.is_json:
        session.output.json({"supervisors": list(found)})
        return
    if not found:
        session.output.line("no supervisors")
        return
    rows = [[str(one[key]) for key in ("id", "state", "detailedState", "healthy")] for one in found]
    session.output.table(_COLUMNS, rows)
    session.output.note(counted(len(found), "supervisor"))


@command("supervisor status", panel=RUN, examples=["carnac supervisor status clicks"])
def status(session: Session, supervisor_id: SupervisorId) -> None:
    """Show how a supervisor stands: its tasks, offsets, lag, what went wrong last."""
    with _open(session) as supervisors, _found(supervisor_id):
        found = supervisors.status(supervisor_id)
        note_without_overlord(session, supervisors.leader())
    if session.output.is_json:
        session.output.json(found)
    else:
        session.output.facts(_facts(found))


@command("supervisor show", panel=RUN, examples=["carnac supervisor show clicks --json"])
def show(session: Session, supervisor_id: SupervisorId) -> None:
    """Print a spec as it was submitted, with secrets hidden."""
    import json

    from carnac.core.redaction import show_submitted

    with _open(session) as supervisors, _found(supervisor_id):
        found = show_submitted(supervisors.spec(supervisor_id))
    session.output.answer(found, json.dumps(found, ensure_ascii=False, indent=2))


@command("supervisor suspend", panel=RUN, examples=["carnac supervisor suspend clicks"])
def suspend(session: Session, supervisor_id: SupervisorId) -> None:
    """Read nothing until the supervisor is resumed."""
    _order(session, supervisor_id, "suspend", "suspended")


@command("supervisor resume", panel=RUN, examples=["carnac supervisor resume clicks"])
def resume(session: Session, supervisor_id: SupervisorId) -> None:
    """Read on from the position."""
    _order(session, supervisor_id, "resume", "resumed")


@command("supervisor reset", panel=RUN, examples=["carnac supervisor reset clicks --yes"])
def reset(
    session: Session,
    supervisor_id: SupervisorId,
    yes: Annotated[bool, flag("--yes -y", "Do not ask for confirmation.")] = False,
) -> None:
    """Forget the position and begin anew, at the earliest messages or at the end as the spec says; asks first.

    Messages that are read again are there twice.
    """
    _order(
        session,
        supervisor_id,
        "reset",
        "reset",
        question=None if yes else f"forget the position of {supervisor_id}?",
    )


@command("supervisor terminate", panel=RUN, examples=["carnac supervisor terminate clicks --yes"])
def terminate(
    session: Session,
    supervisor_id: SupervisorId,
    yes: Annotated[bool, flag("--yes -y", "Do not ask for confirmation.")] = False,
) -> None:
    """End a supervisor; asks first. One of the same id that is submitted later reads on from its position."""
    question = None if yes else f"terminate {supervisor_id}?"
    _order(session, supervisor_id, "terminate", "terminated", question=question)


def _order(
    session: Session, supervisor_id: str, name: str, done: str, *, question: str | None = None
) -> None:
    if question is not None and not session.allows(question):
        session.output.note("nothing was done")
        return
    with _open(session) as supervisors, _found(supervisor_id):
        getattr(supervisors, name)(supervisor_id)
    session.output.answer(
        {"id": supervisor_id, "done": done}, f"supervisor {supervisor_id} is {done}"
    )


def _open(session: Session) -> SupervisorService | SupervisorClient:
    """Return the supervisors of the store, or of an overlord elsewhere."""
    settings = session.settings
    if settings.overlord is not None:
        from carnac.api.overlord.supervisor_client import SupervisorClient

        return SupervisorClient(settings.overlord.get_secret_value(), session.clock)
    from carnac.bootstrap.tasks import open_supervisors

    return open_supervisors(settings)


def _found(supervisor_id: str) -> AbstractContextManager[None]:
    said = f"there is no supervisor '{supervisor_id}'"
    return listing("carnac supervisor list", "cannot find any", said, supervisor_id=supervisor_id)


def _facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    payload = found["payload"]
    facts = [
        ("supervisor", str(found["id"])),
        ("datasource", str(payload["dataSource"])),
        ("topic", str(payload["stream"])),
        ("state", f"{payload['state']}, {payload['detailedState']}"),
        (
            "lag",
            counted(payload["aggregateLag"], "message")
            if payload["latestOffsets"]
            else "not known",
        ),
    ]
    latest, current = payload["latestOffsets"], payload["currentOffsets"]
    for name in sorted(latest.keys() | current.keys()):
        lag = payload["minimumLag"].get(name)
        text = f"offset {current.get(name, 'none yet')} of {latest.get(name, '?')}"
        facts.append((f"partition {name}", text if lag is None else f"{text}, lag {lag}"))
    for task in payload["activeTasks"]:
        counts = task["counts"]
        read = f", {counted(counts['processed'], 'row')}" if "processed" in counts else ""
        waits = f", waits for {task['waitsFor']}" if task.get("waitsFor") else ""
        facts.append(("task", f"{task['id']}: {task['status']}{waits}{read}"))
    facts += [("error", f"{one['timestamp']} {one['message']}") for one in payload["recentErrors"]]
    return facts
