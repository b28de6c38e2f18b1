"""`servers` and `servers decommission`: the processes that serve the store, and which historicals are to be emptied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from carnac.cli.app import RUN, add_group, command
from carnac.cli.options import argument, flag
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text, columns_of, format_age, number_text
from carnac.core.json_form import some_of
from carnac.core.words import counted
from carnac.ports.serving import Role

if TYPE_CHECKING:
    from carnac.bootstrap.serving.cluster_status import ServerStatus

add_group("servers", None, panel=RUN)

NO_COORDINATOR = (
    "no coordinator runs: nothing is loaded or moved, and brokers stay at their revision; start one with: "
    "carnac serve --role coordinator"
)
_COLUMNS = columns_of(
    "server! | role! | url | tier | holds# | of# | loaded# | loading# | queries# | state | up#"
)


@command("servers", panel=RUN, examples=["carnac servers", "carnac servers --json"])
def servers(
    session: Session,
    is_asking: Annotated[bool, flag("--ask/--no-ask", "Ask historicals what they hold.")] = True,
) -> None:
    """Show the living servers: their addresses, what they hold and load, and their problems.

    Servers report every few seconds in the metadata store; historicals are asked what they hold. A broker's state is
    the revision that it plans on.
    """
    from carnac.bootstrap.serving.cluster_status import load_server_status

    found = load_server_status(session.settings, session.clock, asks=is_asking)
    if session.output.is_json:
        session.output.json({"servers": [_as_json(one) for one in found]})
        return
    if not found:
        session.output.line("no server serves this store; start one with: carnac serve")
        return
    now_ms = session.clock.now_ms()
    session.output.table(_COLUMNS, [_row(one, now_ms) for one in found])
    for one in found:
        if one.trouble:
            session.output.warning(f"{one.record.server_id}: {one.trouble}")
    roles = {one.record.role for one in found}
    if Role.HISTORICAL in roles and Role.COORDINATOR not in roles:
        session.output.warning(NO_COORDINATOR)


@command(
    "servers decommission",
    panel=RUN,
    examples=["carnac servers decommission h1", "carnac servers decommission h1 --undo"],
)
def decommission(
    session: Session,
    server_id: Annotated[str, argument("SERVER", "Its id, as listed.")],
    is_undone: Annotated[bool, flag("--undo", "Let the server hold segments again.")] = False,
) -> None:
    """Have a historical emptied: it serves meanwhile and gets nothing new. This survives restarts, until --undo."""
    with session.open_records() as metadata:
        metadata.decommission(server_id, wanted=not is_undone)
    if session.output.is_json:
        session.output.json({"server": server_id, "is_decommissioning": not is_undone})
    elif is_undone:
        session.output.line(f"{server_id} holds segments again")
    else:
        session.output.line(
            f"{server_id} is emptied by the coordinator; carnac servers shows how far it is"
        )


def _row(one: ServerStatus, now_ms: int) -> list[str]:
    record, inventory = one.record, one.inventory
    states = [str(holding.state) for holding in inventory.holdings] if inventory else []
    return [
        record.server_id,
        str(record.role),
        record.url,
        record.tier,
        bytes_text(inventory.used_bytes) if inventory else "",
        bytes_text(record.capacity_bytes) if record.capacity_bytes else "",
        number_text(states.count("loaded")) if inventory else "",
        number_text(states.count("loading")) if inventory else "",
        number_text(inventory.running) if inventory else "",
        _state(one, states.count("failed")),
        format_age(max(0, now_ms - record.started_at_ms)),
    ]


def _state(one: ServerStatus, failed: int) -> str:
    record = one.record
    words = [
        "draining" if record.is_draining else "",
        "decommissioning" if record.is_decommissioning else "",
        "does not answer" if one.trouble else "",
        f"{counted(failed, 'load')} failed" if failed else "",
        "" if record.planning_revision is None else f"plans on revision {record.planning_revision}",
    ]
    return ", ".join(word for word in words if word)


def _as_json(one: ServerStatus) -> dict[str, Any]:
    record, inventory = one.record, one.inventory
    found: dict[str, Any] = {
        "id": record.server_id,
        **some_of(record, "role url holder tier capacity_bytes is_draining is_decommissioning"),
        **some_of(record, "started_at_ms heartbeat_at_ms planning_revision oldest_revision"),
        "trouble": one.trouble or None,
    }
    if inventory is not None:
        found |= some_of(inventory, "used_bytes running")
        found["holdings"] = [
            {
                "segment": holding.segment_id,
                **some_of(holding, "datasource size_bytes state"),
                "error": holding.error or None,
            }
            for holding in inventory.holdings
        ]
    return found
