"""The counters of a broker, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

from carnac.broker.record import Outcome, QueryRecord

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper bounds of the histograms of time."""
_RAN = frozenset({Outcome.OK, Outcome.ABANDONED, Outcome.CANCELLED, Outcome.TIMED_OUT})


class BrokerMetrics:
    """Counts statements that are over."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
