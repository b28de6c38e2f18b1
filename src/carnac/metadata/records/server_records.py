"""The part of a metadata store on SQL that keeps servers, the told revision and load rules (`ServerRecords`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from carnac.metadata.transactions import SqlTransactions

if TYPE_CHECKING:
    from carnac.ports.serving import Role, RuleChange, ServerRecord, Told


class ServerRecords(SqlTransactions):
    """Servers, the told revision and load rules: a part of the metadata store. Safe for threads and processes.

    Errors, besides those named: Unavailable when the database does not answer.
    """

    def put_server(self, server: ServerRecord) -> ServerRecord:
        """Keep a heartbeat; return it as it is kept: at the store's time, `is_decommissioning` as operators set it.

        Raises:
            Revoked: Another store is there now.
        """
        from carnac.metadata.records import serving

        serving.check_server(server)
        return self._write_own(
            lambda session: serving.put_server(session, server, self._clock.now_ms()),
            is_durable=False,
        )

    def remove_server(self, server_id: str) -> None:
        """Say goodbye: the server counts as gone at once. Idempotent."""
        from carnac.metadata.sql import serving as sql

        self._write_lease(lambda session: session.run(sql.LEAVE, server_id=server_id))

    def servers(
        self, role: Role | None = None, *, live_only: bool = True
    ) -> tuple[ServerRecord, ...]:
        """Return servers by id: those whose lease is not over, or all that are known."""
        from carnac.metadata.records import serving

        with self._read() as session:
            return serving.load_servers(session, role, self._clock.now_ms() if live_only else None)

    def decommission(self, server_id: str, *, wanted: bool) -> None:
        """Have a server emptied, or not any more. Idempotent.

        Raises:
            NotFound: No such server is known.
        """
        from carnac.metadata.records import serving

        self._write(lambda session: serving.decommission(session, server_id, wanted=wanted))

    def told(self) -> Told | None:
        """Return the revision that brokers are to plan on; None if no coordinator has said: then the newest."""
        from carnac.metadata.records import serving

        with self._read() as session:
            return serving.load_told(session)

    def tell(self, revision: int, *, fence: int) -> Told:
        """Tell brokers of a revision, if it is higher than the told one; return what they are told now.

        Raises:
            Revoked: A coordinator with a higher fence leads, or has told something.
            NotFound: There is no such revision yet.
        """
        from carnac.metadata.records import serving

        return self._write(
            lambda session: serving.tell(session, revision, fence, self._clock.now_ms())
        )

    def rules(self) -> Mapping[str, str]:
        """Return the rules in force as Druid's JSON lists, by datasource; `_default` among them if it was set."""
        from carnac.metadata.sql import serving as sql

        with self._read() as session:
            return {row[0]: row[1] for row in session.rows(sql.RULES)}

    def put_rules(
        self, datasource: str, rules: str | None, *, author: str = "", comment: str = ""
    ) -> None:
        """Set the rules of a datasource or of `_default`; None: it has none of its own."""
        from carnac.metadata.records import serving
        from carnac.ports.serving import RuleChange

        change = RuleChange(
            datasource=datasource,
            rules="[]" if rules is None else rules,
            author=author,
            comment=comment,
            at_ms=self._clock.now_ms(),
        )
        serving.check_change(change)
        self._write(lambda session: serving.put_rules(session, change, is_none=rules is None))

    def rule_history(
        self, datasource: str | None = None, *, limit: int = 25
    ) -> tuple[RuleChange, ...]:
        """Return changes of rules, the newest first; None: of all. Rules that were removed show as `[]`."""
        from carnac.metadata.records import serving

        with self._read() as session:
            return serving.load_changes(session, datasource, limit)
