"""Access to a served store: users with passwords, the permission of each, and the permission that a request needs.

While there is no user, everybody may do everything. A user may be limited to some datasources: for that user there are
no others. A password is kept as its scrypt hash. A token is a signature over a user's name and that hash: it holds
until the password changes or the user is removed, and no server keeps it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from hashlib import scrypt

from carnac.core.texts import check_name
from carnac.errors import Invalid

PASSWORD_MIN = 8
PASSWORD_MAX = 1_000
"""Characters of a password."""
SALT_BYTES = 16
_COST, _BLOCK, _LANES = 1 << 14, 8, 1
"""16 MiB and some 40 ms for each try (RFC 7914 calls them N, r and p)."""
_HASH_BYTES = 32
_SERVERS = "servers"
"""The text that processes of the cluster sign. The signed text of a user differs from it: it has two lines."""


class Permission(IntEnum):
    """A user's permission. Each one includes those before it."""

    READ = 1
    WRITE = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """As people write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class DatasourcePatterns:
    """The datasources that somebody may read: names, in which a `*` stands for any characters.

    Attributes:
        patterns: Without any, no datasource is among them.
    """

    patterns: tuple[str, ...]

    @property
    def match_all(self) -> bool:
        """Whether every datasource is among them."""
        return EVERY in self.patterns

    def matches(self, name: str) -> bool:
        """Whether a datasource is among them."""
        return self.match_all or any(_pattern(one).fullmatch(name) for one in self.patterns)

    def matching(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of some datasources that are among them."""
        return names if self.match_all else [one for one in names if self.matches(one)]

    def __str__(self) -> str:
        """Return the patterns as a sentence names them."""
        return ", ".join(self.patterns)


EVERY = "*"
ALL_DATASOURCES = DatasourcePatterns((EVERY,))
NO_DATASOURCES = DatasourcePatterns(())
PATTERNS_MAX = 100
"""Patterns of one user."""


@lru_cache(1_000)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split(EVERY))))


def read_patterns(texts: Sequence[str]) -> DatasourcePatterns:
    """Return the patterns that an operator names; one that matches everything stands for all of them.

    Raises:
        Invalid: There are none, or too many, or one is no name.
    """
    found = tuple(sorted({check_name(one.strip(), "a datasource") for one in texts}))
    if not all(found):
        raise Invalid("the name of a datasource is empty; '*' stands for all datasources")
    if not 0 < len(found) <= PATTERNS_MAX:
        raise Invalid(
            f"a user has 1 to {PATTERNS_MAX} names of datasources, not {len(found)}; let a * stand for several"
        )
    return ALL_DATASOURCES if EVERY in found else DatasourcePatterns(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who may ask.

    Attributes:
        datasources: Those that exist for the user.
        password: The hash of it, as `hash_password` writes it.
        created_at_ms: Epoch milliseconds, UTC.
    """

    name: str
    permission: Permission
    datasources: DatasourcePatterns = ALL_DATASOURCES
    password: str = field(repr=False)
    created_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Everybody who may ask, and the key by which tokens are signed.

    Attributes:
        users: By name; none: everybody may do everything.
        key: Empty: there is none, and no token holds.
    """

    users: Mapping[str, User]
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The name and the secret that a client sends.

    Attributes:
        name: None if a token's name cannot be decoded.
        secret: A password, or the signature of a token.
    """

    name: str | None
    secret: str = field(repr=False)
    is_token: bool = False


def hash_password(password: str, salt: bytes) -> str:
    """Return what is kept of a password: method, cost, salt and hash."""
    found = _scrypt(password, salt, _COST, _BLOCK, _LANES)
    return f"scrypt${_COST}${_BLOCK}${_LANES}${salt.hex()}${found.hex()}"


def is_password(password: str, kept: str) -> bool:
    """Whether a password is the one that was kept; takes as long whether or not it is."""
    _, cost, block, lanes, salt, found = kept.split("$")
    tried = _scrypt(password, bytes.fromhex(salt), int(cost), int(block), int(lanes))
    return hmac.compare_digest(tried, bytes.fromhex(found))


def _scrypt(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    maxmem = 256 * cost * block  # twice what it takes
    text = password.encode(errors="surrogatepass")
    return scrypt(text, salt=salt, n=cost, r=block, p=lanes, maxmem=maxmem, dklen=_HASH_BYTES)


def token_of(user: User, key: bytes) -> str:
    """Return the token of a user, which stands in place of name and password."""
    name = base64.urlsafe_b64encode(user.name.encode()).decode().rstrip("=")
    return f"{name}.{_signature(_of_user(user), key)}"


def is_token_of(user: User, secret: str, key: bytes) -> bool:
    """Whether a signature is that of the user's token."""
    return _is_signed(_of_user(user), secret, key)


def server_token(key: bytes) -> str:
    """Return the token that processes of the cluster show one another."""
    return _signature(_SERVERS, key)


def is_server_token(secret: str, key: bytes) -> bool:
    """Whether a secret is the token of the cluster's processes."""
    return _is_signed(_SERVERS, secret, key)


def _of_user(user: User) -> str:
    return f"{user.name}\n{user.password}"


def _signature(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode(errors="surrogatepass"), "sha256").hexdigest()


def _is_signed(text: str, secret: str, key: bytes) -> bool:
    own = _signature(text, key)
    return bool(key) and hmac.compare_digest(own.encode(), secret.encode(errors="replace"))


def read_authorization(header: str) -> Credentials | None:
    """Return the credentials of an `Authorization` header (RFC 7617, RFC 6750); None: it has none that can be read."""
    kind, _, rest = header.strip().partition(" ")
    match kind.lower():
        case "basic":
            text = _decoded(rest.strip(), b"+/")
            if text is None or ":" not in text:
                return None
            name, _, password = text.partition(":")
            return Credentials(name, password)
        case "bearer":
            encoded, _, signature = rest.strip().partition(".")
            return Credentials(_decoded(encoded, b"-_"), signature, is_token=True)
        case _:
            return None


def _decoded(text: str, letters: bytes) -> str | None:
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        data = base64.b64decode(padded, altchars=letters, validate=True)
    except (binascii.Error, UnicodeError):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:  # as clients in Python write it, pydruid among them
        return data.decode("latin-1")


_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = frozenset({"/status/health"})
"""Paths that anybody may ask: a load balancer has no user."""
_PROXIES = ("/proxy/overlord", "/proxy/coordinator")
_READ = (
    "/druid/v2",
    "/druid/indexer/v1/taskStatus",
    "/druid/indexer/v1/lockedIntervals",
    "/druid/indexer/v1/activeLocks",
)
"""Beginnings of paths that are asked by POST, or where a DELETE stops a query."""
_WRITE = (
    "/druid/v2/sql/task",
    "/druid/indexer/v1/task",
    "/druid/indexer/v1/supervisor",
    "/druid/indexer/v1/datasources",
    "/druid/coordinator/v1/datasources",
    "/druid/coordinator/v1/lookups",
    "/carnac/v1/allocations",
)


def needed_permission(method: str, path: str) -> Permission | None:
    """Return the permission that a request needs; None: none. A path not listed needs `ADMIN` for all but reads."""
    path = path.rstrip("/") or "/"
    for before in _PROXIES:
        if path.startswith(f"{before}/"):
            path = path[len(before) :]
    if method in _READING:
        return None if path in _OPEN else Permission.READ
    if _begins(path, _READ) and not _begins(path, _WRITE):
        return Permission.READ
    return Permission.WRITE if _begins(path, _WRITE) else Permission.ADMIN


_OF_DATASOURCES = (
    "/druid/v2",
    "/iceberg/v1",
    "/status",
    "/proxy/enabled",
    "/docs",
    "/openapi.json",
)
"""Beginnings of paths that show a user who is limited to some datasources nothing of others."""
_OF_ALL = ("/druid/v2/sql/task", "/druid/v2/sql/statements")
"""Beginnings of paths below these that do: tasks read the store whoever submits them."""


def shows_others(path: str) -> bool:
    """Whether what is at a path may be about any datasource; so it is of each path that nobody thought of."""
    path = path.rstrip("/") or "/"
    return not _begins(path, _OF_DATASOURCES) or _begins(path, _OF_ALL)


def _begins(path: str, beginnings: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in beginnings)
