"""Tables that names in FROM mean: a datasource, a lookup, or a table about tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.errors import Invalid, NotFound
from carnac.ports import Catalog
from carnac.query.messages import did_you_mean
from carnac.query.scans import shown_columns
from carnac.query.schema.information import (
    INFORMATION_SCHEMA,
    columns,
    routines,
    schemata,
    tables,
)
from carnac.query.syntax import Node

if TYPE_CHECKING:
    import duckdb

DATASOURCE_SCHEMAS = {"", "druid", "carnac", "main"}


class Names:
    """The names of one catalog, looked up without regard to case where that is not ambiguous."""

    def __init__(self, catalog: Catalog, cursor: duckdb.DuckDBPyConnection) -> None:
        self._catalog = catalog
        self._cursor = cursor
        self._columns: dict[str, Mapping[str, ColumnType]] = {}

    def columns(self, datasource: str) -> Mapping[str, ColumnType]:
        """Return the columns of a datasource that a user sees, without `__time`."""
        if datasource not in self._columns:
            self._columns[datasource] = shown_columns(self._catalog.columns(datasource))
        return self._columns[datasource]

    def datasource(self, node: Node) -> str:
        """Return the datasource that a BASE_TABLE node means.

        Raises:
            NotFound: There is no such datasource in the revision.
        """
        name, schema = str(node["table_name"]), str(node["schema_name"])
        known: list[str] | None = None
        if schema.lower() in DATASOURCE_SCHEMAS and not node["catalog_name"]:
            if self.columns(name):  # cheaper than a list of all datasources
                return name
            known = sorted(self._catalog.datasource_names())
            folded = [one for one in known if one.lower() == name.lower()]
            if name in known or len(folded) == 1:
                return name if name in known else folded[0]
        known = known if known is not None else sorted(self._catalog.datasource_names())
        full = ".".join(part for part in (node["catalog_name"], schema, name) if part)
        hint = did_you_mean(name, known) or "; SHOW TABLES lists them"
        raise NotFound(
            f"there is no datasource '{full}' at revision {self._catalog.revision}{hint}",
            datasource=full,
            revision=self._catalog.revision,
        )

    def lookup(self, name: str) -> Mapping[str, str]:
        """Return the lookup of that name.

        Raises:
            NotFound: There is none in the revision.
        """
        lookups = self._catalog.lookups()
        if name not in lookups:
            remedy = f"; make it with carnac lookups set {quote(name)} FILE"
            raise NotFound(
                f"there is no lookup '{name}'{did_you_mean(name, sorted(lookups)) or remedy}",
                lookup=name,
            )
        return lookups[name]

    def information(self, name: str) -> dict[str, list[Any]]:
        """Return a table of `information_schema` as columns.

        Raises:
            NotFound: There is no such table.
        """
        match name.lower():
            case "schemata":
                return schemata()
            case "tables":
                return tables(self._catalog)
            case "columns":
                return columns(self._catalog, self.columns)
            case "routines":
                return routines(self._cursor)
        raise NotFound(
            f"there is no table '{INFORMATION_SCHEMA}.{name}'; there are schemata, tables, columns and routines",
            table=name,
        )

    def table_names(self) -> dict[str, list[Any]]:
        """Return what SHOW TABLES shows."""
        return {"name": sorted(self._catalog.datasource_names())}


def refuse_doubled(names: Iterable[str], datasource: str, columns: Iterable[str]) -> None:
    """Refuse names of which the datasource has several columns that differ by case only, as loads do not make them now.

    Raises:
        Invalid: One is such a name; names the columns.
    """
    asked = {name.lower() for name in names}
    meant: dict[str, list[str]] = {}
    for column in columns:
        meant.setdefault(column.lower(), []).append(column)
    for lower, several in meant.items():
        if lower in asked and len(several) > 1:
            listed = " and ".join(f"'{one}'" for one in several)
            raise Invalid(
                f"datasource {datasource} has the columns {listed}, which differ only in case, so queries cannot name"
                " either; load the rows of one of them anew under another name",
                datasource=datasource,
            )


def column_lookup(columns: Mapping[str, ColumnType]) -> dict[str, str]:
    """Return the names of a datasource's columns by their lower-case form, but not those that differ by case only."""
    found: dict[str, str] = {}
    doubled: set[str] = set()
    for name in (TIME_COLUMN, *columns):
        lower = name.lower()
        doubled |= {lower} if lower in found else set()
        found[lower] = name
    return {lower: name for lower, name in found.items() if lower not in doubled}
