"""Which table a name in FROM means: a datasource, a lookup, or a table about tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.errors import NotFound
from carnac.ports import Catalog
from carnac.query.messages import did_you_mean
from carnac.query.scans import shown_columns
from carnac.query.syntax import Node

DATASOURCE_SCHEMAS = {"", "druid", "carnac", "main"}
INFORMATION_SCHEMA = "information_schema"
LOOKUP_SCHEMA = "lookup"
SCHEMA_NAME = "druid"


class Names:
    """The names of one catalog, looked up without regard to case where that is not ambiguous."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
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
            raise NotFound(
                f"there is no lookup '{name}'{did_you_mean(name, sorted(lookups))}", lookup=name
            )
        return lookups[name]

    def information(self, name: str) -> dict[str, list[Any]]:
        """Return a table of `information_schema` as columns.

        Raises:
            NotFound: There is no such table.
        """
        makers = {"tables": self._tables, "columns": self._all_columns, "schemata": self._schemata}
        if name.lower() not in makers:
            raise NotFound(
                f"there is no table '{INFORMATION_SCHEMA}.{name}'; there are schemata, tables and columns",
                table=name,
            )
        return makers[name.lower()]()

    def table_names(self) -> dict[str, list[Any]]:
        """Return what SHOW TABLES shows."""
        return {"name": sorted(self._catalog.datasource_names())}

    def _schemata(self) -> dict[str, list[Any]]:
        schemas = [SCHEMA_NAME, "INFORMATION_SCHEMA", LOOKUP_SCHEMA]
        return {"CATALOG_NAME": [SCHEMA_NAME] * len(schemas), "SCHEMA_NAME": schemas}

    def _tables(self) -> dict[str, list[Any]]:
        rows = [(SCHEMA_NAME, name) for name in sorted(self._catalog.datasource_names())]
        rows += [(LOOKUP_SCHEMA, name) for name in sorted(self._catalog.lookups())]
        rows += [("INFORMATION_SCHEMA", name) for name in ("COLUMNS", "SCHEMATA", "TABLES")]
        return {
            "TABLE_CATALOG": [SCHEMA_NAME] * len(rows),
            "TABLE_SCHEMA": [schema for schema, _ in rows],
            "TABLE_NAME": [name for _, name in rows],
            "TABLE_TYPE": [
                "SYSTEM_TABLE" if schema == "INFORMATION_SCHEMA" else "TABLE" for schema, _ in rows
            ],
        }

    def _all_columns(self) -> dict[str, list[Any]]:
        rows: list[tuple[str, str, int, str, str]] = []
        for name in sorted(self._catalog.datasource_names()):
            rows.append((name, TIME_COLUMN, 1, "NO", "TIMESTAMP"))
            for place, (column, kind) in enumerate(self.columns(name).items(), start=2):
                rows.append((name, column, place, "YES", SQL_TYPE[kind]))
        return {
            "TABLE_CATALOG": [SCHEMA_NAME] * len(rows),
            "TABLE_SCHEMA": [SCHEMA_NAME] * len(rows),
            "TABLE_NAME": [row[0] for row in rows],
            "COLUMN_NAME": [row[1] for row in rows],
            "ORDINAL_POSITION": [row[2] for row in rows],
            "IS_NULLABLE": [row[3] for row in rows],
            "DATA_TYPE": [row[4] for row in rows],
        }


def column_lookup(columns: Mapping[str, ColumnType]) -> dict[str, str]:
    """Return the names of a datasource's columns by their lower-case form, but not those that differ by case only."""
    found: dict[str, str] = {}
    doubled: set[str] = set()
    for name in (TIME_COLUMN, *columns):
        lower = name.lower()
        doubled |= {lower} if lower in found else set()
        found[lower] = name
    return {lower: name for lower, name in found.items() if lower not in doubled}
