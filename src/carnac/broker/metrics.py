"""The counters of a broker, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from carnac.broker.record import Outcome, QueryRecord

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from carnac.broker.waiting import QueryQueue

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper bounds of the histograms of time."""
_RAN = frozenset({Outcome.OK, Outcome.ABANDONED, Outcome.CANCELLED, Outcome.TIMED_OUT})


class BrokerMetrics:
    """Counts statements that are over, and shows those that are not.

    Args:
        planning_revision: Returns the revision that new statements are planned on; asked when metrics are.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        queue: QueryQueue,
        planning_revision: Callable[[], int],
    ) -> None:
        self._queries = Counter(
            "carnac_queries",
            "Queries that are over, by how they ended.",
            ["outcome"],
            registry=registry,
        )
        for outcome in Outcome:
            self._queries.labels(outcome.value)
        self._seconds = Histogram(
            "carnac_query_duration_seconds",
            "From the arrival of a query that ran to its end.",
            buckets=SECONDS,
            registry=registry,
        )
        self._waited = Histogram(
            "carnac_query_waiting_seconds",
            "How long a query that ran waited for its turn.",
            buckets=SECONDS,
            registry=registry,
        )
        self._rows = Counter("carnac_query_rows", "Rows handed over.", registry=registry)
        self._bytes = Counter(
            "carnac_query_bytes",
            "Bytes handed over, as Arrow has them in memory.",
            registry=registry,
        )
        self._segments = Counter(
            "carnac_query_segments", "Segments that queries needed.", registry=registry
        )
        self._incomplete = Counter(
            "carnac_query_incomplete",
            "Answers that were not complete, and said so.",
            registry=registry,
        )
        self._shown = (
            _gauge(registry, "carnac_queries_running", "Queries that run.", lambda: queue.running),
            _gauge(
                registry,
                "carnac_queries_waiting",
                "Queries that wait for their turn.",
                lambda: queue.waiting,
            ),
            _gauge(
                registry,
                "carnac_planning_revision",
                "The revision that new queries are planned on.",
                planning_revision,
            ),
        )

    def note(self, record: QueryRecord) -> None:
        """Count a statement that is over."""
        self._queries.labels(record.outcome.value).inc()
        if record.facts is None or record.outcome not in _RAN:
            return
        self._seconds.observe(record.duration_ms / 1000)
        self._waited.observe(record.waited_ms / 1000)
        self._rows.inc(record.rows)
        self._bytes.inc(record.size_bytes)
        self._segments.inc(record.facts.segments_expected)
        if record.outcome is Outcome.OK and not record.facts.is_complete:
            self._incomplete.inc()


def _gauge(registry: CollectorRegistry, name: str, what: str, value: Callable[[], int]) -> Gauge:
    gauge = Gauge(name, what, registry=registry)
    gauge.set_function(value)
    return gauge
