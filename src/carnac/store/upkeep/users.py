"""Users of a store that is served: adding, changing and removing them, and their tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from carnac.core.access import (
    ALL_DATASOURCES,
    PASSWORD_MAX,
    PASSWORD_MIN,
    SALT_BYTES,
    DatasourcePatterns,
    Permission,
    User,
    hash_password,
    token_of,
)
from carnac.core.texts import short
from carnac.errors import Invalid, NotFound

if TYPE_CHECKING:
    from carnac.metadata.records.user_records import UserRecords
    from carnac.ports import Clock

KEY_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


class Users:
    """The users of a store.

    Args:
        new_secret: Makes so many bytes that nobody can guess.
    """

    def __init__(
        self, records: UserRecords, clock: Clock, new_secret: Callable[[int], bytes]
    ) -> None:
        self._records = records
        self._clock = clock
        self._new_secret = new_secret

    def list(self) -> tuple[User, ...]:
        """Return all of them, by name."""
        return tuple(self._records.accounts().users.values())

    def put(
        self,
        name: str,
        *,
        permission: Permission | None = None,
        datasources: DatasourcePatterns | None = None,
        password: str | None = None,
    ) -> User:
        """Add a user, or change one.

        Args:
            permission: New permission; None: as it is; of a new user: READ.
            datasources: New ones; None: as they are; of a new user: all.
            password: New password; None: as it is; a new user needs one.

        Raises:
            Invalid: The name or the password is none, or a new user has no password, or a user who may do more than
                read is limited to some datasources.
        """
        known = self._records.accounts().users.get(check_user_name(name))
        if password is not None:
            kept = hash_password(_checked(password), self._new_secret(SALT_BYTES))
        elif known is not None:
            kept = known.password
        else:
            raise Invalid(f"there is no user '{name}' yet; give a password to add one", user=name)
        user = User(
            name=name,
            permission=permission or (known.permission if known else Permission.READ),
            datasources=datasources or (known.datasources if known else ALL_DATASOURCES),
            password=kept,
            created_at_ms=known.created_at_ms if known else self._clock.now_ms(),
        )
        check_limits(user.permission, user.datasources)
        self._records.keep_access_key(self._new_secret(KEY_BYTES))
        self._records.put_user(user)
        return user

    def remove(self, name: str) -> None:
        """Remove a user.

        Raises:
            NotFound: There is none of that name.
        """
        self._records.remove_user(name)

    def token(self, name: str) -> str:
        """Return what a client sends as its bearer token in place of name and password, until the password changes.

        Raises:
            NotFound: There is no such user.
        """
        accounts = self._records.accounts()
        if name not in accounts.users:
            raise NotFound(f"there is no user '{name}'; carnac users lists them", user=name)
        return token_of(accounts.users[name], accounts.key)


def check_user_name(name: str) -> str:
    """Return the name of a user.

    Raises:
        Invalid: The text is no name of a user.
    """
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{short(name)} is no name of a user; take letters, digits and . _ @ + -, 100 at most"
        )
    return name


def check_limits(permission: Permission, datasources: DatasourcePatterns) -> None:
    """Refuse to limit to some datasources who may do more than read.

    Raises:
        Invalid: It is so.
    """
    if permission > Permission.READ and not datasources.match_all:
        raise Invalid(
            f"no user may {permission.word} with {short(str(datasources))} alone: tasks read files and datasources "
            "whoever submits them; give --may read, or --datasource '*'"
        )


def _checked(password: str) -> str:
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise Invalid(f"a password has {PASSWORD_MIN} to {PASSWORD_MAX} characters")
    if not password.isprintable():
        raise Invalid("a password is one line of characters that can be seen")
    return password
