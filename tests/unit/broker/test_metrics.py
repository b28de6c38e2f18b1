"""What Prometheus is told of a broker, and of a process that has one."""

from __future__ import annotations

import httpx
import pytest
from prometheus_client import CollectorRegistry

import carnac
from carnac.bootstrap.serving.broker import open_broker
from carnac.bootstrap.serving.process import open_process
from carnac.clock import StoreClock
from carnac.config import Settings
from carnac.errors import NotFound
from carnac.ports.serving import Role
from tests.unit.broker.conftest import rows_of, statement


def test_queries_are_counted_by_how_they_ended(settings: Settings, store: carnac.Store) -> None:
    registry = CollectorRegistry()
    with open_broker(settings, StoreClock(), registry=registry) as handle:
        rows_of(handle.queries.run(statement("SELECT n FROM events")))
        with pytest.raises(NotFound):
            handle.queries.run(statement("SELECT x FROM events"))
        running = handle.queries.run(statement("SELECT n FROM events"))
        assert running is not None

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, labels)

        assert value("carnac_queries_total", outcome="ok") == 1
        assert value("carnac_queries_total", outcome="not_found") == 1
        assert value("carnac_query_rows_total") == 72
        assert value("carnac_query_segments_total") == 3
        assert value("carnac_query_duration_seconds_count") == 1
        assert value("carnac_queries_running") == 1
        assert value("carnac_queries_waiting") == 0
        assert value("carnac_broker_kept_hits_total") == 0
        assert value("carnac_broker_kept_bytes") == 0
        assert value("carnac_planning_revision") == store.head().revision
        running.close()
        assert value("carnac_queries_running") == 0


@pytest.mark.http
def test_a_process_shows_its_metrics(settings: Settings) -> None:
    roles = [Role.OVERLORD, Role.BROKER]
    process = open_process(roles, settings=settings, host="127.0.0.1", port=0)
    process.start()
    try:
        shown = httpx.get(f"{process.url}/metrics")
    finally:
        process.close()
    assert shown.status_code == 200
    assert shown.headers["content-type"].startswith("text/plain")
    assert 'carnac_role{role="broker"} 1.0' in shown.text
    assert 'carnac_loop_turning{loop="compaction"} 1.0' in shown.text
    assert f'version="{carnac.__version__}"' in shown.text
    assert "carnac_queries_running 0.0" in shown.text
