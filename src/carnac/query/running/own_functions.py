"""Functions that a connection has besides DuckDB's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.query.distributed.partials import macros, may_call_macros
from carnac.query.rewriting.documents import names_documents, register_documents
from carnac.query.rewriting.sketching import names_sketches, register_sketches

if TYPE_CHECKING:
    import duckdb


class OwnFunctions:
    """Makes them in a connection once a statement calls them: to make all takes half as long as to open it."""

    def __init__(self) -> None:
        self._has_sketches = self._has_documents = self._has_macros = False

    def provide(self, connection: duckdb.DuckDBPyConnection, sql: str, *, is_split: bool) -> None:
        """Make the functions that a statement calls before its transaction begins, which would not see them later.

        Args:
            is_split: The statement is taken apart, or is a part, so that it may call functions that its text does not
                name.
        """
        if not self._has_sketches and names_sketches(sql):
            register_sketches(connection)
            self._has_sketches = True
        if not self._has_documents and names_documents(sql):
            register_documents(connection)
            self._has_documents = True
        if not self._has_macros and (is_split or may_call_macros(sql)):
            connection.execute("; ".join(macros()))
            self._has_macros = True
