"""The part of a metadata store on SQL that keeps who may ask processes that serve (`UserRecords`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from carnac.core.access import Accounts, DatasourcePatterns, Permission, User
from carnac.errors import NotFound
from carnac.metadata.row_forms import Part, RowForm
from carnac.metadata.sql import serving as sql
from carnac.metadata.sql import statements as s
from carnac.metadata.transactions import SqlTransactions

if TYPE_CHECKING:
    from carnac.metadata.session import Session

KEY_SETTING = "access_key"
_USERS = RowForm(
    User,
    permission=Permission,
    datasources=Part(
        ("datasources",),
        lambda one: (json.dumps(one.patterns, ensure_ascii=False),),
        lambda text: DatasourcePatterns(tuple(json.loads(text))),
    ),
)


class UserRecords(SqlTransactions):
    """Users, and the key by which tokens are signed. Safe for threads and processes."""

    def accounts(self) -> Accounts:
        """Return everybody who may ask, and the key; one that is empty until it is kept, and signs nothing."""
        with self._read() as session:
            users = [_USERS.value(row) for row in session.rows(sql.USERS)]
            return Accounts(
                users={user.name: user for user in users}, key=bytes.fromhex(_key(session) or "")
            )

    def keep_access_key(self, key: bytes) -> None:
        """Keep the key, unless there is one."""

        def work(session: Session) -> None:
            if _key(session) is None:
                session.run(s.PUT_SETTING, name=KEY_SETTING, value=key.hex())

        self._write(work)

    def put_user(self, user: User) -> None:
        """Keep a user, in place of one of that name, who keeps the time of creation."""
        self._write(lambda session: session.run(sql.PUT_USER, **_USERS.row(user)))

    def remove_user(self, name: str) -> None:
        """Forget a user.

        Raises:
            NotFound: There is none of that name.
        """

        def work(session: Session) -> None:
            if session.row(sql.FIND_USER, name=name) is None:
                raise NotFound(f"there is no user '{name}'; carnac users lists them", user=name)
            session.run(sql.REMOVE_USER, name=name)

        self._write(work)


def _key(session: Session) -> str | None:
    return next(
        (str(value) for name, value in session.rows(s.SETTINGS) if name == KEY_SETTING), None
    )
