"""The part of a metadata store on SQL that keeps servers, the told revision and load rules (`ServerRecords`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.core.texts import KEY_MAX, MESSAGE_MAX, UNFIT, check_name, check_text, is_fit
from carnac.core.time.intervals import ETERNITY, Interval
from carnac.core.time.leases import is_over
from carnac.errors import Invalid, NotFound, Revoked
from carnac.metadata.read.reader import load_head
from carnac.metadata.row_forms import RowForm
from carnac.metadata.sql import serving as sql
from carnac.metadata.transactions import SqlTransactions
from carnac.ports.serving import Role, RuleChange, ServerRecord, Told

if TYPE_CHECKING:
    from carnac.metadata.session import Session

FORGET_MS = 3_600_000
"""Servers that are gone so long are forgotten: with each start they have another id."""
FORGET_HISTORICALS_MS = 7 * 86_400_000
"""Historicals are the same after a restart, and so is whether they are to be emptied."""
CHANGES_KEPT = 100
"""Changes of rules that are remembered, of each datasource."""
_SERVERS = RowForm(ServerRecord, role=Role, is_draining=bool, is_decommissioning=bool)
_TOLD = RowForm(Told)
_CHANGES = RowForm(RuleChange)


class ServerRecords(SqlTransactions):
    """Servers, the told revision and load rules: a part of the metadata store. Safe for threads and processes.

    Errors, besides those named: Unavailable when the database does not answer; Invalid where a text cannot be shown or
    kept.
    """

    def put_server(self, server: ServerRecord) -> ServerRecord:
        """Keep a heartbeat; return it as it is kept: at the store's time, `is_decommissioning` as operators set it.

        Where the server is new, those that are long gone are forgotten.

        Raises:
            Revoked: Another store is there now.
        """
        check_name(server.server_id, "the id of a server")
        check_name(server.url, "the address of a server", limit=KEY_MAX)
        check_name(server.holder, "the holder of a server", limit=KEY_MAX)
        check_name(server.tier, "the tier of a server")

        def work(session: Session) -> ServerRecord:
            now_ms = self._clock.now_ms()
            row = session.row(sql.FIND_SERVER, server_id=server.server_id)
            is_leaving = row is not None and _SERVERS.value(row).is_decommissioning
            kept = replace(server, heartbeat_at_ms=now_ms, is_decommissioning=is_leaving)
            if row is None:
                _sweep(session, now_ms)
            session.run(sql.PUT_SERVER, **_SERVERS.row(kept))
            return kept

        return self._write_own(work, is_durable=False)

    def remove_server(self, server_id: str) -> None:
        """Say goodbye: the server counts as gone at once. Idempotent."""
        self._write_lease(lambda session: session.run(sql.LEAVE, server_id=server_id))

    def servers(
        self, role: Role | None = None, *, live_only: bool = True
    ) -> tuple[ServerRecord, ...]:
        """Return servers by id: those whose lease is not over, or all that are known."""
        with self._read() as session:
            return _load_servers(session, role, self._clock.now_ms() if live_only else None)

    def decommission(self, server_id: str, *, wanted: bool) -> None:
        """Have a server emptied, or not any more. Idempotent.

        Raises:
            NotFound: No such server is known.
        """

        def work(session: Session) -> None:
            row = session.row(sql.FIND_SERVER, server_id=server_id)
            if row is None or _SERVERS.value(row).role is not Role.HISTORICAL:
                known = ", ".join(
                    one.server_id for one in _load_servers(session, Role.HISTORICAL, None)
                )
                raise NotFound(
                    f"there is no historical '{server_id}'; there are {known or 'no historicals yet'}",
                    server_id=server_id,
                )
            session.run(sql.DECOMMISSION, server_id=server_id, is_decommissioning=int(wanted))

        self._write(work)

    def told(self) -> Told | None:
        """Return the revision that brokers are to plan on; None if no coordinator has said: then the newest."""
        with self._read() as session:
            return _load_told(session)

    def tell(self, revision: int, *, fence: int) -> Told:
        """Tell brokers of a revision, if it is higher than the told one; return what they are told now.

        Raises:
            Revoked: A coordinator with a higher fence leads, or has told something.
            NotFound: There is no such revision yet.
        """
        from carnac.metadata.records.tasks import load_leader

        def work(session: Session) -> Told:
            leader, now = load_leader(session, Role.COORDINATOR), _load_told(session)
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
                raise NotFound(
                    f"there is no revision {revision} to tell of; the newest is {newest}"
                )
            if now is not None and now.revision >= revision:
                return now
            told = Told(revision=revision, fence=fence, at_ms=self._clock.now_ms())
            session.run(sql.PUT_TOLD, id=1, **_TOLD.row(told))
            return told

        return self._write(work)

    def rules(self) -> Mapping[str, str]:
        """Return the rules in force as Druid's JSON lists, by datasource; `_default` among them if it was set."""
        with self._read() as session:
            return {row[0]: row[1] for row in session.rows(sql.RULES)}

    def put_rules(
        self, datasource: str, rules: str | None, *, author: str = "", comment: str = ""
    ) -> None:
        """Set the rules of a datasource or of `_default`, and remember that; None: it has none of its own."""
        check_name(datasource, "the name of a datasource")
        if not datasource or not is_fit(datasource):
            raise Invalid(f"the name of a datasource must not be empty, and {UNFIT}")
        check_name(author, "the author of rules")
        check_text(comment, "the comment of rules", limit=MESSAGE_MAX)
        change = RuleChange(
            datasource=datasource,
            rules="[]" if rules is None else rules,
            author=author,
            comment=comment,
            at_ms=self._clock.now_ms(),
        )

        def work(session: Session) -> None:
            if rules is None:
                session.run(sql.REMOVE_RULES, datasource=datasource)
            else:
                session.run(sql.PUT_RULES, datasource=datasource, rules=rules)
            row = session.row(sql.LAST_CHANGE)
            number = 1 + (0 if row is None or row[0] is None else int(row[0]))
            session.run(sql.INSERT_CHANGE, number=number, **_CHANGES.row(change))
            session.run(sql.FORGET_CHANGES, datasource=datasource, kept=CHANGES_KEPT)

        self._write(work)

    def rule_history(
        self, datasource: str | None = None, *, limit: int = 25, within: Interval = ETERNITY
    ) -> tuple[RuleChange, ...]:
        """Return changes of rules, the newest first; None: of all. Rules that were removed show as `[]`.

        Args:
            within: Only changes of this time; the limit counts no others.
        """
        values = {"limit": limit, "from_ms": within.start_ms, "until_ms": within.end_ms}
        with self._read() as session:
            rows = (
                session.rows(sql.CHANGES, **values)
                if datasource is None
                else session.rows(sql.CHANGES_OF, datasource=datasource, **values)
            )
            return tuple(map(_CHANGES.value, rows))


def _load_servers(
    session: Session, role: Role | None, now_ms: int | None
) -> tuple[ServerRecord, ...]:
    """Return servers by id, of a role (None: of all), those that are alive at a time (None: all)."""
    return tuple(
        server
        for server in map(_SERVERS.value, session.rows(sql.SERVERS))
        if role in {None, server.role}
        and (now_ms is None or not is_over(server.heartbeat_at_ms, server.lease_ms, now_ms))
    )


def _load_told(session: Session) -> Told | None:
    row = session.row(sql.TOLD)
    return None if row is None else _TOLD.value(row)


def _sweep(session: Session, now_ms: int) -> None:
    for is_historical, after in ((0, FORGET_MS), (1, FORGET_HISTORICALS_MS)):
        session.run(
            sql.SWEEP_SERVERS,
            is_historical=is_historical,
            before_ms=now_ms - after,
            after_ms=now_ms + after,
        )
