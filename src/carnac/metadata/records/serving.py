"""Servers, the told revision and load rules on SQL: inside one transaction."""

from __future__ import annotations

from dataclasses import replace

from carnac.core.texts import KEY_MAX, MESSAGE_MAX, check_name, check_text
from carnac.core.time.leases import is_over
from carnac.errors import NotFound, Revoked
from carnac.metadata.read.reader import load_head
from carnac.metadata.records.plain import reader_of, row_of
from carnac.metadata.records.tasks import load_leader
from carnac.metadata.session import Session
from carnac.metadata.sql import serving as sql
from carnac.ports.serving import Role, RuleChange, ServerRecord, Told

FORGET_MS = 3_600_000
"""Servers that are gone so long are forgotten: with each start they have another id."""
FORGET_HISTORICALS_MS = 7 * 86_400_000
"""Historicals are the same after a restart, and so is whether they are to be emptied."""
CHANGES_KEPT = 100
"""Changes of rules that are remembered, of each datasource."""
_server_of = reader_of(ServerRecord, role=Role, is_draining=bool, is_decommissioning=bool)
_told_of = reader_of(Told)
_change_of = reader_of(RuleChange)


def check_server(server: ServerRecord) -> None:
    """Refuse texts that cannot be shown or kept; raises Invalid."""
    check_name(server.server_id, "the id of a server")
    check_name(server.url, "the address of a server", limit=KEY_MAX)
    check_name(server.holder, "the holder of a server", limit=KEY_MAX)
    check_name(server.tier, "the tier of a server")


def check_change(change: RuleChange) -> None:
    """Refuse texts that cannot be shown or kept; raises Invalid."""
    check_name(change.datasource, "the name of a datasource")
    check_name(change.author, "the author of rules")
    check_text(change.comment, "the comment of rules", limit=MESSAGE_MAX)


def put_server(session: Session, server: ServerRecord, now_ms: int) -> ServerRecord:
    """Keep a heartbeat; where the server is new, forget those that are long gone."""
    row = session.row(sql.FIND_SERVER, server_id=server.server_id)
    is_leaving = row is not None and _server_of(row).is_decommissioning
    kept = replace(server, heartbeat_at_ms=now_ms, is_decommissioning=is_leaving)
    if row is None:
        _sweep(session, now_ms)
    session.run(sql.PUT_SERVER, **row_of(kept))
    return kept


def load_servers(
    session: Session, role: Role | None, now_ms: int | None
) -> tuple[ServerRecord, ...]:
    """Return servers by id, of a role (None: of all), those that are alive at a time (None: all)."""
    return tuple(
        server
        for server in map(_server_of, session.rows(sql.SERVERS))
        if role in {None, server.role}
        and (now_ms is None or not is_over(server.heartbeat_at_ms, server.lease_ms, now_ms))
    )


def decommission(session: Session, server_id: str, *, wanted: bool) -> None:
    """Note whether a historical is to be emptied; raises NotFound."""
    row = session.row(sql.FIND_SERVER, server_id=server_id)
    if row is None or _server_of(row).role is not Role.HISTORICAL:
        known = ", ".join(one.server_id for one in load_servers(session, Role.HISTORICAL, None))
        raise NotFound(
            f"there is no historical '{server_id}'; there are {known or 'no historicals yet'}",
            server_id=server_id,
        )
    session.run(sql.DECOMMISSION, server_id=server_id, is_decommissioning=int(wanted))


def load_told(session: Session) -> Told | None:
    """Return what brokers are told; None if nobody has told them anything."""
    row = session.row(sql.TOLD)
    return None if row is None else _told_of(row)


def tell(session: Session, revision: int, fence: int, now_ms: int) -> Told:
    """Raise the told revision; raises Revoked if a coordinator with a higher fence leads or has told."""
    leader, now = load_leader(session, Role.COORDINATOR), load_told(session)
    highest = max(
        0 if leader is None else leader.fence,
        0 if now is None else now.fence,
    )
    if highest > fence:
        raise Revoked(
            f"a coordinator leads with fence {highest}; this one has {fence} and tells nothing any more",
            fence=fence,
        )
    newest = load_head(session).revision
    if revision > newest:
        raise NotFound(f"there is no revision {revision} to tell of; the newest is {newest}")
    if now is not None and now.revision >= revision:
        return now
    told = Told(revision=revision, fence=fence, at_ms=now_ms)
    session.run(sql.PUT_TOLD, **row_of(told))
    return told


def put_rules(session: Session, change: RuleChange, *, is_none: bool) -> None:
    """Set or remove rules, and remember that."""
    if is_none:
        session.run(sql.REMOVE_RULES, datasource=change.datasource)
    else:
        session.run(sql.PUT_RULES, datasource=change.datasource, rules=change.rules)
    row = session.row(sql.LAST_CHANGE)
    number = 1 + (0 if row is None or row[0] is None else int(row[0]))
    session.run(sql.INSERT_CHANGE, number=number, **row_of(change))
    session.run(sql.FORGET_CHANGES, datasource=change.datasource, kept=CHANGES_KEPT)


def load_changes(session: Session, datasource: str | None, limit: int) -> tuple[RuleChange, ...]:
    """Return changes of rules, the newest first."""
    rows = (
        session.rows(sql.CHANGES, limit=limit)
        if datasource is None
        else session.rows(sql.CHANGES_OF, datasource=datasource, limit=limit)
    )
    return tuple(map(_change_of, rows))


def _sweep(session: Session, now_ms: int) -> None:
    for is_historical, after in ((0, FORGET_MS), (1, FORGET_HISTORICALS_MS)):
        session.run(
            sql.SWEEP_SERVERS,
            is_historical=is_historical,
            before_ms=now_ms - after,
            after_ms=now_ms + after,
        )
