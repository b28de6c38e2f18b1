"""Names by which an address may be asked, and pages that may ask it; pages of other sites in a browser are kept out.

A page of `evil.example.com` may let its name point to 127.0.0.1 (DNS rebinding). The browser then takes this server for
that page's own, but still sends the name, as `Host`. A client that asks by a numeric address was led here by no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

_NETLOC = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?")
_DEFAULT_PORTS: Mapping[str, str] = {"http": "80", "https": "443"}
ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound
"""Addresses on which a server answers at every address of its machine."""
NAMES_KEPT = 64
"""Names of which it is remembered whether they are of the loopback interface."""
_OWN_SITE = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` for a page of our own, and for a typed address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The names under which a server may be asked.

    Attributes:
        names: Beside those of the loopback interface, without ports, in lower case.
        trusted: Those of them whose pages may change something, whatever name the request bears: a proxy in front may
            ask by another one.
        has_any_address: Whether each address in figures is one of them, as it listens at all.
    """

    names: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()
    has_any_address: bool = False

    def is_known(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        found = _NETLOC.fullmatch(host)
        if found is None:
            return False
        name = (found[1] or found[2]).lower().rstrip(".")
        return name in self.names or is_loopback(name) or (self.has_any_address and _is_ip(name))

    def is_own_page(self, origin: str, host: str) -> bool:
        """Whether an `Origin` header names a page of the server that was asked as `host`."""
        try:
            found = urlsplit(origin)
            named, port = found.hostname or "", found.port
        except ValueError:
            return False
        if found.scheme not in _DEFAULT_PORTS or not named:
            return False
        asked = _NETLOC.fullmatch(host)
        if asked is None:
            return False
        ports = {
            str(port or _DEFAULT_PORTS[found.scheme]),
            asked[3] or _DEFAULT_PORTS[found.scheme],
        }
        return named in self.trusted or (
            named == (asked[1] or asked[2]).lower() and len(ports) == 1
        )


def is_own_site(fetch_site: str) -> bool:
    """Whether a `Sec-Fetch-Site` header says that no other site's page asks."""
    return fetch_site.lower() in _OWN_SITE


def hosts_of(bound: str, *, url: str | None = None, more: Iterable[str] = ()) -> Hosts:
    """Return the names of a server.

    Args:
        bound: The address that it listens at.
        url: Where others are told to ask it.
        more: Names that somebody configured, without ports.
    """
    trusted = frozenset(name.lower().strip("[]").rstrip(".") for name in more)
    told = urlsplit(url).hostname if url else None
    names = {bound.lower().strip("[]")} - ANY_ADDRESS | ({told} if told else set())
    return Hosts(names=trusted | names, trusted=trusted, has_any_address=bound in ANY_ADDRESS)


@lru_cache(NAMES_KEPT)
def is_loopback(name: str) -> bool:
    """Whether a name or address is one of the loopback interface."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_ip(name) and ip_address(name).is_loopback


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
