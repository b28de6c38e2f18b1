"""Authentication of clients: the credentials of a request are checked against the users of the store.

The users are read again after a while, so that all processes soon know a user that was added, changed or removed. They
are read beside the requests: a database that hangs delays a moment those that are under way, and no more. A password
that was right is not hashed again while its user stays as it is.
"""

from __future__ import annotations

import asyncio
import hmac
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from hashlib import sha256
from http import HTTPStatus
from shlex import quote
from typing import TYPE_CHECKING

from carnac.api.problems import Refused
from carnac.core.access import (
    Accounts,
    Credentials,
    Permission,
    User,
    is_password,
    is_server_token,
    is_token_of,
    needed_permission,
    read_authorization,
    server_token,
    shows_others,
)
from carnac.core.texts import short
from carnac.errors import CarnacError, Unavailable
from carnac.ports.answers import Client
from carnac.ports.memo import Memo
from carnac.ports.threads import Beside

if TYPE_CHECKING:
    from carnac.ports import Clock

FRESH_MS = 2_000
"""How long users are believed to be as they were read."""
FIRST_WAIT_S = 10.0
"""How long users that were never read are waited for."""
WAIT_S = 0.5
"""How long users that were read before are waited for; who asks after that gets those at once."""
RIGHT_MAX = 1_000
"""Passwords that were right and are not hashed again."""
TRIES_AT_ONCE = 2
"""Passwords that are hashed at once; others wait. A password that was right before waits for none of them."""
_NOBODY = User(
    name="",
    permission=Permission.READ,
    password=f"scrypt$16384$8$1${'00' * 16}${'00' * 32}",
)
"""User in place of an unknown one: refusing an unknown name takes as long as refusing a wrong password."""

ASKING: ContextVar[User | None] = ContextVar("asking", default=None)
"""User whose request is answered; None: there are no users."""


class Access:
    """Tells who asks, and whether they may. Safe for threads.

    Args:
        load: Reads users and key.
        salt: Some bytes of this process's own, by which passwords that were right are remembered.
    """

    def __init__(self, load: Callable[[], Accounts], clock: Clock, salt: bytes) -> None:
        self._load = load
        self._clock = clock
        self._salt = salt
        self._accounts: Accounts | None = None
        self._read_at_ms = 0
        self._reading = Beside()
        self._trying = threading.Semaphore(TRIES_AT_ONCE)
        self._threads = ThreadPoolExecutor(TRIES_AT_ONCE, "carnac-passwords")
        self._right: Memo[tuple[bytes, str], bool] = Memo(
            values_max=RIGHT_MAX, weight_max=RIGHT_MAX, weigh=lambda *_: 1
        )

    def accounts(self) -> Accounts:
        """Return users and key as they were moments ago; while they cannot be read, as they were last.

        Raises:
            Unavailable: They could never be read.
        """
        if self._is_at_hand():
            return self._known()
        wait_s = FIRST_WAIT_S if self._accounts is None else WAIT_S
        reading = self._reading.run(self._read, wait_s=wait_s)
        if reading.done() and not isinstance(error := reading.exception(), CarnacError | None):
            raise error
        if self._accounts is None:
            raise Unavailable(f"cannot tell who may ask: {_reason(reading)}; ask again later")
        return self._known()

    def user(self, authorization: str | None) -> User | None:
        """Return who asks; None: there are no users.

        Args:
            authorization: Of the header of that name.

        Raises:
            Refused: It is nobody that may ask.
            Unavailable: As `accounts`.
        """
        return self.user_of(_read(authorization)) if self.accounts().users else None

    def user_of(self, said: Credentials) -> User | None:
        """Return whose credentials these are; as `user`."""
        accounts = self.accounts()
        if not accounts.users:
            return None
        return self._recognised(accounts, said) or self._tried(accounts, said)

    async def admit(self, method: str, path: str, authorization: str | None) -> User | None:
        """Return who sends a request; None: there are no users, or it needs none.

        Raises:
            Refused: It is nobody that may ask, or somebody who may not do this.
            Unavailable: As `accounts`.
        """
        needed = needed_permission(method, path)
        if needed is None:
            return None
        is_at_hand = self._is_at_hand()
        accounts = self._known() if is_at_hand else await asyncio.to_thread(self.accounts)
        if not accounts.users:
            return None
        said = _read(authorization)
        user = self._recognised(accounts, said)
        if user is None:
            loop = asyncio.get_running_loop()
            user = await loop.run_in_executor(self._threads, self._tried, accounts, said)
        require(needed, user)
        if shows_others(path):
            require_all_datasources(user)
        return user

    def server_token(self) -> str:
        """Return what this process shows others of the cluster.

        Raises:
            Unavailable: As `accounts`.
        """
        return server_token(self.accounts().key)

    def is_server(self, token: str) -> bool:
        """Whether a process of the cluster asks; where there are no users, everybody is taken for one.

        Raises:
            Unavailable: As `accounts`.
        """
        accounts = self.accounts()
        return not accounts.users or is_server_token(token, accounts.key)

    def _is_at_hand(self) -> bool:
        """Whether users are known that are fresh, or that nobody need wait for to be read again."""
        if self._accounts is None:
            return False
        age_ms = abs(self._clock.now_ms() - self._read_at_ms)  # clocks may be set back
        if age_ms < FRESH_MS:
            return True
        return self._reading.is_late

    def _read(self) -> None:
        try:
            self._accounts = self._load()
        finally:
            self._read_at_ms = self._clock.now_ms()

    def _known(self) -> Accounts:
        assert self._accounts is not None  # noqa: S101 - read before
        return self._accounts

    def _recognised(self, accounts: Accounts, said: Credentials) -> User | None:
        """Return whose token it is, or whose password that was right before; None: it is to be tried."""
        user = accounts.users.get(said.name or "", _NOBODY)
        if not said.is_token:
            return user if self._right.find((self._mark(said.secret), user.password)) else None
        if user is _NOBODY or not is_token_of(user, said.secret, accounts.key):
            raise unknown("the token is wrong; carnac users token NAME prints one")
        return user

    def _tried(self, accounts: Accounts, said: Credentials) -> User:
        """Return whose password it is, by hashing it."""
        user = accounts.users.get(said.name or "", _NOBODY)
        with self._trying:
            is_right = is_password(said.secret, user.password)
        if user is _NOBODY or not is_right:
            raise unknown("the name or password is wrong")
        self._right.keep((self._mark(said.secret), user.password), True)
        return user

    def _mark(self, password: str) -> bytes:
        """Return by what a password is remembered."""
        return hmac.digest(self._salt, password.encode(errors="surrogatepass"), sha256)


def _reason(reading: Future[None]) -> str:
    error = reading.exception() if reading.done() else None
    return error.message if isinstance(error, CarnacError) else "the metadata store hangs"


def _read(authorization: str | None) -> Credentials:
    if authorization is None:
        raise unknown("this store has users; send a name and a password (HTTP Basic)")
    said = read_authorization(authorization)
    if said is None:
        raise unknown("the header Authorization does not read; send 'Basic' or 'Bearer'")
    return said


def unknown(message: str) -> Refused:
    """Return the refusal of a client that is nobody."""
    return Refused(HTTPStatus.UNAUTHORIZED, message)


def require(needed: Permission, user: User | None = None) -> None:
    """Check that somebody, by default whoever asks, may do something.

    Raises:
        Refused: They may not.
    """
    user = user or ASKING.get()
    if user is not None and user.permission < needed:
        raise Refused(
            HTTPStatus.FORBIDDEN,
            f"user {short(user.name)} may {user.permission.word}, and this needs {needed.word}; an operator changes it "
            f"with: carnac users set {quote(user.name)} --may {needed.word}",
        )


def asking(address: str = "") -> Client:
    """Return the client whose request is answered: a user, else the address."""
    return as_client(ASKING.get(), address)


def as_client(user: User | None, address: str) -> Client:
    """Return a client: a user, else an address, for which all datasources exist; it is empty if nobody knows it."""
    return Client(address) if user is None else Client(user.name, user.datasources)


def require_all_datasources(user: User | None) -> None:
    """Check that somebody is not limited to some datasources.

    Raises:
        Refused: They are.
    """
    if user is not None and not user.datasources.match_all:
        raise Refused(
            HTTPStatus.FORBIDDEN,
            f"user {short(user.name)} reads {short(str(user.datasources))} alone, and this may show other datasources; "
            "ask by SQL (POST /druid/v2/sql), native queries, JDBC, Flight SQL or Iceberg",
        )
