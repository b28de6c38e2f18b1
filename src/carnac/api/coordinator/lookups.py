"""`lookups…`: Druid's paths for lookups, which are commits here.

There is one tier, and the version of a lookup is the revision that set it: a version that a client gives is passed
over. Every process that answers queries reads lookups from the log, so one that is there is loaded everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from carnac.api.bodies import JsonObject, body_shown
from carnac.api.coordinator.shapes import PREFIX, Comment
from carnac.core.texts import short
from carnac.errors import Invalid, NotFound

if TYPE_CHECKING:
    from carnac.coordinator.lookups import Lookups

TIER = "__default"
_SPEC = {
    "version": "v1",
    "lookupExtractorFactory": {"type": "map", "map": {"UA": "United", "B6": "JetBlue"}},
}

Tier = Annotated[str, Path(description="`__default`: there is no other.")]
Name = Annotated[str, Path(description="The lookup's name.")]
Detailed = Annotated[bool, Query(description="With all that is known.")]


def make_router(lookups: Lookups) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=f"{PREFIX}/lookups", tags=["lookups"])
    _add_reading(router, lookups)
    _add_status(router, lookups)
    _add_writing(router, lookups)
    return router


def _add_reading(router: APIRouter, lookups: Lookups) -> None:
    @router.get("/config", summary="Return the tiers of lookups, of which there is one")
    def tiers() -> list[str]:
        return [TIER]

    @router.get("/config/all", summary="Return all lookups by tier and name")
    def every() -> dict[str, dict[str, Any]]:
        return {TIER: {name: _shown(*found) for name, found in lookups.all().items()}}

    @router.get(
        "/config/{tier}",
        summary="Return the names of lookups; with `detailed`, the lookups by name",
        response_model=None,
    )
    def names(tier: Tier, detailed: Detailed = False) -> list[str] | dict[str, Any]:
        _check_tier(tier)
        found = lookups.all()
        return {name: _shown(*one) for name, one in found.items()} if detailed else list(found)

    @router.get("/config/{tier}/{name}", summary="Return a lookup")
    def one(tier: Tier, name: Name) -> dict[str, Any]:
        _check_tier(tier)
        return _shown(*lookups.get(name))


def _add_status(router: APIRouter, lookups: Lookups) -> None:
    @router.get("/status", summary="Return which lookups are loaded: all")
    def statuses(detailed: Detailed = False) -> dict[str, dict[str, Any]]:
        return {TIER: {name: _loaded(detailed=detailed) for name in lookups.all()}}

    @router.get("/status/{tier}", summary="Return which lookups of a tier are loaded: all")
    def status_of_tier(tier: Tier, detailed: Detailed = False) -> dict[str, Any]:
        _check_tier(tier)
        return {name: _loaded(detailed=detailed) for name in lookups.all()}

    @router.get("/status/{tier}/{name}", summary="Return whether a lookup is loaded: it is")
    def status(tier: Tier, name: Name, detailed: Detailed = False) -> dict[str, Any]:
        _check_tier(tier)
        lookups.get(name)
        return _loaded(detailed=detailed)


def _add_writing(router: APIRouter, lookups: Lookups) -> None:
    @router.post(
        "/config",
        summary="Set lookups, all by one commit",
        status_code=HTTPStatus.ACCEPTED,
        openapi_extra=body_shown("object", {TIER: {"carriers": _SPEC}}),
    )
    def put_all(body: JsonObject, comment: Comment = "") -> dict[str, Any]:
        found: dict[str, Mapping[str, str]] = {}
        for tier, specs in body.items():
            _check_tier(tier)
            if not isinstance(specs, Mapping):
                raise Invalid(f"{TIER} must be an object of lookups by name")
            found |= {name: _mapping(name, spec) for name, spec in specs.items()}
        lookups.put(found, comment)
        return body

    @router.post(
        "/config/{tier}/{name}",
        summary="Set a lookup, by a commit; its version is the revision, whatever the client gives",
        status_code=HTTPStatus.ACCEPTED,
        openapi_extra=body_shown("object", _SPEC),
    )
    def put(tier: Tier, name: Name, body: JsonObject, comment: Comment = "") -> Response:
        _check_tier(tier)
        lookups.put({name: _mapping(name, body)}, comment)
        return _accepted()

    @router.delete(
        "/config/{tier}/{name}",
        summary="Remove a lookup, by a commit",
        status_code=HTTPStatus.ACCEPTED,
    )
    def remove(tier: Tier, name: Name, comment: Comment = "") -> Response:
        _check_tier(tier)
        lookups.remove(name, comment)
        return _accepted()


def _accepted() -> Response:
    return Response(status_code=HTTPStatus.ACCEPTED, media_type="application/json")


def _check_tier(tier: str) -> None:
    if tier != TIER:
        raise NotFound(f"there is no tier {short(tier)} of lookups; there is {TIER}")


def _shown(revision: int, mapping: Mapping[str, str]) -> dict[str, Any]:
    return {
        "version": str(revision),
        "lookupExtractorFactory": {"type": "map", "map": dict(mapping)},
    }


def _loaded(detailed: bool) -> dict[str, Any]:
    return {"loaded": True, "pendingNodes": []} if detailed else {"loaded": True}


def _mapping(name: object, spec: object) -> Mapping[str, str]:
    """Return the mapping of a lookup as Druid's clients write it.

    Raises:
        Invalid: It is of another type than `map`, or has none.
    """
    factory = spec.get("lookupExtractorFactory") if isinstance(spec, Mapping) else None
    if not isinstance(factory, Mapping):
        raise Invalid(f"lookup {short(name)} needs an object lookupExtractorFactory")
    if factory.get("type") != "map":
        raise Invalid(
            f"lookup {short(name)} is of the type {short(factory.get('type'))}, and only map is here: carnac lookups "
            "set NAME FILE takes the mapping from a file"
        )
    mapping = factory.get("map")
    if not isinstance(mapping, Mapping):
        raise Invalid(f"lookup {short(name)} needs an object map, of texts")
    return mapping
