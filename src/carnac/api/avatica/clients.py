"""Who sends a request: the user of its header, else the one with whose properties its connection was opened.

Druid's driver sends no header: `user` and `password` are properties of a connection. Whoever knows the id of such a
connection asks as its user, whose password is checked again with each request. A request that says nothing of a user
is refused before anything is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from carnac.api.access import Access, as_client, unknown
from carnac.api.avatica.asked import Asked
from carnac.api.problems import Refused
from carnac.core.access import Credentials
from carnac.errors import Invalid
from carnac.ports.answers import Client

if TYPE_CHECKING:
    from carnac.api.avatica.connections import Connections

CREDENTIALS = ("user", "password")
"""Names of the properties."""


def credentials_of(body: Mapping[str, object]) -> Credentials | None:
    """Return the user whom the properties of a connection name; None: they name none."""
    info = body.get("info")
    if not isinstance(info, Mapping) or body.get("request") != "openConnection":
        return None
    name, password = (info.get(one) for one in CREDENTIALS)
    if not isinstance(name, str) or not isinstance(password, str):
        return None
    return Credentials(name, password)


class Clients:
    """Tells who sends a request without a header. Safe for threads."""

    def __init__(self, access: Access, connections: Connections) -> None:
        self._access = access
        self._connections = connections

    def client(self, body: Mapping[str, object], address: str) -> Client:
        """Return who sends a request.

        Raises:
            Refused: It says nothing of a user, and there are users.
            NoConnection: It is of a connection that is not open, or that was opened with a header.
            Invalid: The user of its connection is nobody, or has another password now.
            Unavailable: As of `Access`.
        """
        if not self._access.accounts().users:
            return as_client(None, address)
        said = credentials_of(body)
        if body.get("request") != "openConnection":
            said = self._connections.credentials(
                Asked(body, as_client(None, address)).connection_id
            )
        if said is None:
            raise unknown(
                "this store has users; send a name and a password (HTTP Basic), or the properties user and password"
                " of the connection"
            )
        try:
            user = self._access.user_of(said)
        except Refused as refusal:  # the driver shows its user no text of a status but 500
            raise Invalid(refusal.message) from None
        return as_client(user, address)  # every user may read
