"""`/iceberg/v1/…`: a catalog that is only read.

Source: `open-api/rest-catalog-open-api.yaml` of Apache Iceberg.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response

from carnac.api.access import asking
from carnac.api.iceberg.errors import IcebergRoute, NoNamespace, failed
from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.iceberg import LoadedTable, Tables

PREFIX = "/iceberg/v1"
NAMESPACE = "druid"
"""As SQL calls it: `SELECT … FROM druid.flights`."""
_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
_READ_ONLY = (
    "tables are only read here: rows are written by carnac append, carnac ingest, the tasks of an overlord or "
    "store.append in Python, and each commit is a new snapshot"
)

Namespace = Annotated[str, Path(description=f"`{NAMESPACE}`; there is no other.")]
Table = Annotated[str, Path(description="The datasource.")]


def make_router(tables: Tables) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["Iceberg's catalog"], route_class=IcebergRoute)

    @router.get("/config", summary="Return what clients are to know of the catalog")
    def config(
        warehouse: Annotated[str | None, Query(description="Ignored: there is one.")] = None,  # noqa: ARG001
    ) -> dict[str, object]:
        overrides = {"rest-metrics-reporting-enabled": "false"}
        return {"defaults": {}, "overrides": overrides, "endpoints": _ENDPOINTS}

    _add_namespaces(router)
    _add_tables(router, tables)
    _refuse_others(router)
    return router


def _add_namespaces(router: APIRouter) -> None:
    @router.get("/namespaces", summary="Return the one namespace")
    def namespaces(
        parent: Annotated[str, Query(description="Only those below; there are none.")] = "",
    ) -> dict[str, list[list[str]]]:
        if parent:
            _require_namespace(parent)
        return {"namespaces": [] if parent else [[NAMESPACE]]}

    @router.get("/namespaces/{namespace}", summary="Return a namespace")
    def namespace(namespace: Namespace) -> dict[str, object]:
        _require_namespace(namespace)
        return {"namespace": [NAMESPACE], "properties": {}}

    @router.head(
        "/namespaces/{namespace}",
        status_code=HTTPStatus.NO_CONTENT,
        summary="Say whether a namespace is there",
        response_class=Response,
    )
    def has_namespace(namespace: Namespace) -> None:
        _require_namespace(namespace)


def _add_tables(router: APIRouter, tables: Tables) -> None:
    @router.get(
        "/namespaces/{namespace}/tables",
        summary="Return the tables: the datasources that have rows",
    )
    def list_tables(namespace: Namespace) -> dict[str, list[dict[str, object]]]:
        _require_namespace(namespace)
        names = asking().datasources.matching(tables.names())
        return {"identifiers": [{"namespace": [NAMESPACE], "name": name} for name in names]}

    @router.get(
        "/namespaces/{namespace}/tables/{table}", summary="Return a table with its snapshots"
    )
    def load(
        namespace: Namespace,
        table: Table,
        snapshots: Annotated[
            Literal["all", "refs"],
            Query(description="`refs`: the newest one and those of tags; `all`."),
        ] = "all",
    ) -> dict[str, object]:
        _require_table(namespace, table, tables)
        return _loaded(tables.load(table), only_refs=snapshots == "refs")

    @router.head(
        "/namespaces/{namespace}/tables/{table}",
        status_code=HTTPStatus.NO_CONTENT,
        summary="Say whether a table is there",
        response_class=Response,
    )
    def has_table(namespace: Namespace, table: Table) -> None:
        _require_table(namespace, table, tables)
        tables.require(table)


def _refuse_others(router: APIRouter) -> None:
    @router.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def nothing(path: str) -> Response:
        return failed(
            HTTPStatus.NOT_FOUND,
            f"there is nothing at {PREFIX}/{path}: only tables are here, no views",
            "NotFoundException",
        )

    @router.api_route("/{path:path}", methods=["POST", "PUT", "DELETE"], include_in_schema=False)
    def write(path: str) -> Response:  # noqa: ARG001
        return failed(HTTPStatus.NOT_ACCEPTABLE, _READ_ONLY)


def _loaded(found: LoadedTable, *, only_refs: bool) -> dict[str, object]:
    metadata: dict[str, Any] = dict(found.metadata)
    if only_refs:
        ids = {one["snapshot-id"] for one in metadata["refs"].values()}
        metadata["snapshots"] = [one for one in metadata["snapshots"] if one["snapshot-id"] in ids]
    return {"metadata-location": found.location, "metadata": metadata, "config": {}}


def _require_namespace(name: str) -> None:
    if name != NAMESPACE:
        raise NoNamespace(f"there is no namespace '{name}': all tables are in {NAMESPACE}")


def _require_table(namespace: str, table: str, tables: Tables) -> None:
    """Refuse a table of another namespace, and one that does not exist for the user.

    Spark asks for `events.snapshots` in that way before it reads that of `events`.
    """
    if namespace != NAMESPACE:
        raise NotFound(
            f"there is no table '{table}' in '{namespace}': all tables are in {NAMESPACE}"
        )
    limits = asking().datasources
    if not limits.match_all and table not in (names := limits.matching(tables.names())):
        raise NotFound(
            f"there is no datasource '{table}'; there are {', '.join(names) or 'none yet'}",
            datasource=table,
        )
