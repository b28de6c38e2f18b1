"""Lookups under Druid's paths: what a Druid 33 answers, and a commit for each that is set."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from carnac.api.app import make_app
from carnac.api.coordinator.lookups import make_router
from carnac.api.hosts import hosts_of
from carnac.bootstrap.serving.coordinator import publish_lookups
from carnac.coordinator.lookups import Lookups
from carnac.core.log.commits import CommitKind
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from tests.support.clock import FakeClock, SequentialIds
from tests.unit.api.conftest import InProcessClient

CONFIG = "/druid/coordinator/v1/lookups/config"
STATUS = "/druid/coordinator/v1/lookups/status"
COUNTRY = {"type": "map", "map": {"FR": "Fra", "DE": "Deu"}}


@pytest.fixture
def metadata() -> Iterator[MetadataStore]:
    found = open_metadata("memory://", clock=FakeClock(), ids=SequentialIds())
    yield found
    found.close()


@pytest.fixture
def http(metadata: MetadataStore) -> InProcessClient:
    lookups = Lookups(metadata, partial(publish_lookups, metadata))
    return InProcessClient(make_app([make_router(lookups)], hosts=hosts_of("one")))


def put(http: InProcessClient, factory: object, version: str = "v1") -> Any:
    body = {"version": version, "lookupExtractorFactory": factory}
    headers = {"content-type": "application/json", "x-druid-comment": "Länder".encode()}
    return http.post(f"{CONFIG}/__default/country", json=body, headers=headers)


def test_what_is_set_is_shown_with_the_revision_as_its_version(
    http: InProcessClient, metadata: MetadataStore
) -> None:
    assert http.get(f"{CONFIG}?discover=true").json() == ["__default"]
    assert http.get(f"{CONFIG}/all").json() == {"__default": {}}
    answer = put(http, COUNTRY)
    assert (answer.status_code, answer.content) == (202, b"")
    commit = metadata.commit(1)
    assert (commit.kind, commit.message) == (CommitKind.LOOKUP, "Länder")
    shown = {"version": "1", "lookupExtractorFactory": COUNTRY}
    assert http.get(f"{CONFIG}/all").json() == {"__default": {"country": shown}}
    assert http.get(f"{CONFIG}/__default").json() == ["country"]
    assert http.get(f"{CONFIG}/__default?detailed=true").json() == {"country": shown}
    assert http.get(f"{CONFIG}/__default/country").json() == shown
    assert http.get(STATUS).json() == {"__default": {"country": {"loaded": True}}}
    assert http.get(f"{STATUS}/__default/country").json() == {"loaded": True}
    detailed = {"country": {"loaded": True, "pendingNodes": []}}
    assert http.get(f"{STATUS}/__default?detailed=true").json() == detailed


def test_the_same_mapping_is_no_new_commit_and_another_one_is(
    http: InProcessClient, metadata: MetadataStore
) -> None:
    put(http, COUNTRY)
    assert put(http, COUNTRY, "v0").status_code == 202
    assert metadata.head().revision == 1
    put(http, {"type": "map", "map": {"FR": "France"}}, "v0")
    assert metadata.lookups_with_revisions() == {"country": (2, {"FR": "France"})}
    assert metadata.lookups_with_revisions(1) == {"country": (1, COUNTRY["map"])}


def test_many_are_set_at_once_and_one_is_removed(
    http: InProcessClient, metadata: MetadataStore
) -> None:
    assert http.post(CONFIG, json={}).status_code == 202  # by which Druid's clients initialise them
    body = {
        "__default": {name: {"version": "v0", "lookupExtractorFactory": COUNTRY} for name in "ab"}
    }
    answer = http.post(CONFIG, json=body)
    assert (answer.status_code, answer.json()) == (202, body)
    assert list(metadata.lookups()) == ["a", "b"]
    assert metadata.head().revision == 1
    assert http.request("DELETE", f"{CONFIG}/__default/a").status_code == 202
    assert list(metadata.lookups()) == ["b"]
    gone = http.request("DELETE", f"{CONFIG}/__default/a")
    assert (gone.status_code, gone.json()["error"]) == (404, "there is no lookup 'a'; there are b")


@pytest.mark.parametrize(("name", "mapping"), [("b", {"x": 1}), ("", {}), ("..", {}), ("b/c", {})])
def test_of_many_all_are_set_or_none(
    http: InProcessClient, metadata: MetadataStore, name: str, mapping: object
) -> None:
    wrong = {"lookupExtractorFactory": {"type": "map", "map": mapping}}
    body = {"__default": {"a": {"lookupExtractorFactory": COUNTRY}, name: wrong}}
    assert http.post(CONFIG, json=body).status_code == 400
    assert metadata.head().revision == 0


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ({"type": "cachedNamespace"}, "only map is here: carnac lookups set NAME FILE"),
        ({"type": "map"}, "needs an object map"),
        ("map", "needs an object lookupExtractorFactory"),
        ({"type": "map", "map": {"a": 1}}, "maps texts to texts, and 1 is none"),
    ],
)
def test_what_is_no_map_is_refused(
    http: InProcessClient, metadata: MetadataStore, factory: object, words: str
) -> None:
    answer = put(http, factory)
    assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.text
    assert metadata.head().revision == 0


def test_unknown_tiers_and_lookups_are_not_found(http: InProcessClient) -> None:
    for path in (f"{CONFIG}/cold", f"{CONFIG}/cold/a", f"{STATUS}/cold", f"{STATUS}/cold/a"):
        answer = http.get(path)
        assert (answer.status_code, "there is no tier 'cold'" in answer.json()["error"]) == (
            404,
            True,
        )
    assert http.get(f"{CONFIG}/__default/a").status_code == 404
    assert http.get(f"{STATUS}/__default/a").status_code == 404
    assert http.post(CONFIG, json={"cold": {}}).status_code == 404
    assert http.post(CONFIG, json={"__default": []}).status_code == 400
