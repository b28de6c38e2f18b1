"""Parts of requests of Avatica's, read strictly: a value that no driver would send is refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carnac.api.avatica.connections import ConnectionKey
from carnac.core.texts import short
from carnac.errors import Invalid
from carnac.ports.answers import Client

ID_MAX = 200
"""Characters of the id of a connection, which the driver makes."""
INT_MAX = (1 << 31) - 1
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        body: As it came.
        client: The client that sent it.
    """

    body: Mapping[str, object]
    client: Client

    @property
    def connection(self) -> ConnectionKey:
        """The key of the connection: another client that may read other datasources has not opened it.

        Raises:
            Invalid: The id is none.
        """
        return ConnectionKey(self.connection_id, self.client.datasources)

    @property
    def connection_id(self) -> str:
        """The id of the connection.

        Raises:
            Invalid: It is none.
        """
        handle = self._handle
        text = (handle or self.body).get("connectionId")
        if not isinstance(text, str) or not 0 < len(text) <= ID_MAX:
            raise Invalid(
                f"connectionId must be a text of 1 to {ID_MAX} characters, not {short(text)}"
            )
        return text

    @property
    def statement_id(self) -> int:
        """The id of the statement.

        Raises:
            Invalid: It is none.
        """
        handle = self._handle
        return self.number("statementId") if handle is None else _number(handle.get("id"), "id")

    @property
    def _handle(self) -> Mapping[str, object] | None:
        handle = self.body.get("statementHandle")
        if handle is None:
            return None
        if not isinstance(handle, Mapping):
            raise Invalid(f"statementHandle must be an object, not {short(handle)}")
        return handle

    @property
    def prepared_sql(self) -> str | None:
        """The text of a statement that was prepared, as the driver keeps it; None: it is not said."""
        said = (self._handle or {}).get("signature")
        text = said.get("sql") if isinstance(said, Mapping) else None
        return text if isinstance(text, str) else None

    def number(self, name: str, default: int | None = None) -> int:
        """Return a whole number.

        Raises:
            Invalid: It is none.
        """
        value = self.body.get(name)
        return default if value is None and default is not None else _number(value, name)

    def text(self, name: str) -> str | None:
        """Return a text; None: it is not said.

        Raises:
            Invalid: It is another value.
        """
        value = self.body.get(name)
        if value is not None and not isinstance(value, str):
            raise Invalid(f"{name} must be a text or null, not {short(value)}")
        return value

    def texts(self, name: str) -> list[str] | None:
        """Return a list of texts; None: it is not said.

        Raises:
            Invalid: It is another value.
        """
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise Invalid(f"{name} must be a list of texts or null, not {short(value)}")
        return value

    def rows_max(self) -> int | None:
        """Return how many rows the statement may give; None: all."""
        wanted = self.number("maxRowCount", UNLIMITED)
        return None if wanted < 0 else wanted


def _number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INT_MAX:
        raise Invalid(f"{name} must be a whole number of 32 bits, not {short(value)}")
    return value
