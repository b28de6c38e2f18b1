"""A cluster of two historicals, and its coordinator over HTTP."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import FastAPI

from carnac.api.app import make_app
from carnac.api.coordinator import make_routers
from carnac.api.hosts import hosts_of
from carnac.coordinator.view import ClusterView
from tests.clusters_live import LiveCluster, live_cluster
from tests.logs import append, segment
from tests.unit.api.conftest import Current, InProcessClient

V1 = "/druid/coordinator/v1"


@dataclass
class Stage:
    """A cluster and what its coordinator answers."""

    cluster: LiveCluster
    http: InProcessClient

    def get(self, path: str) -> object:
        """Return the JSON of an answer that must be 200."""
        answer = self.http.get(f"{V1}{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()


@functools.cache
def shared_app() -> tuple[FastAPI, Current]:
    """The application, over a view that is put in place by each test."""
    view: Any = Current()
    return make_app(make_routers(view), hosts=hosts_of("one")), view


def stage_of(cluster: LiveCluster, *, serves_itself: bool = False) -> Stage:
    app, view = shared_app()
    view.service = ClusterView(
        cluster.metadata,
        cluster.coordinator,
        url="http://one:8081",
        serves_itself=serves_itself,
        delete=cluster._delete,
    )
    return Stage(cluster, InProcessClient(app))


@pytest.fixture
def stage() -> Iterator[Stage]:
    with live_cluster("h1", "h2") as cluster:
        append(cluster.metadata, segment("a1", "2013-01-01/2013-01-02", rows=10))
        append(cluster.metadata, segment("a2", "2013-01-01/2013-01-02", rows=20))
        append(cluster.metadata, segment("b1", "2013-01-02/2013-01-03", rows=30))
        cluster.settle()
        yield stage_of(cluster)
