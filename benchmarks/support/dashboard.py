"""The statements that engines are compared by: nine of a dashboard, and those that Druid's ten add.

The texts are DuckDB's, which the embedded engine takes; `clickhouse` and `druid` stand where a dialect differs. `{t}`
is the table, `{n}` counts events, `{wide}` is the widest dimension: a rollup has other ones (`over`).
"""

from __future__ import annotations

from dataclasses import dataclass

TOP_D5 = "d5_f4dbdf21"
"""The most frequent value of `d5`; `TOP_D50` of `d50`."""
TOP_D50 = "d50_f4dbdf21"
WEEK = "__time >= TIMESTAMP '2026-09-07 00:00:00' AND __time < TIMESTAMP '2026-09-14 00:00:00'"
DAY = "__time >= TIMESTAMP '2026-09-10 00:00:00' AND __time < TIMESTAMP '2026-09-11 00:00:00'"
LAST_HOUR = "__time >= TIMESTAMP '2026-09-30 23:00:00'"
ROLLUP_DIMENSIONS = ("d5", "d50", "d500", "d5k")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement.

    Attributes:
        clickhouse, druid: None: the same text.
        is_nine: Whether it is one of the nine that means are taken over.
        is_light: Whether it reads little, so that a percentile of its time is worth a limit.
        is_of_druids: Whether it is one of the ten that are asked of Druid.
        is_of_raw: Whether only raw rows can answer it.
    """

    text: str
    clickhouse: str | None = None
    druid: str | None = None
    is_nine: bool = True
    is_light: bool = False
    is_of_druids: bool = True
    is_of_raw: bool = False


STATEMENTS = {
    "hourly series": Statement(
        text="SELECT date_trunc('hour', __time) AS h, {n} AS n, sum(m_i1) AS s FROM {t} GROUP BY 1 ORDER BY 1",
        clickhouse="SELECT toStartOfHour(__time) AS h, {n} AS n, sum(m_i1) AS s FROM {t} GROUP BY h ORDER BY h",
        druid="SELECT FLOOR(__time TO HOUR) AS h, {n} AS n, sum(m_i1) AS s FROM {t} GROUP BY 1 ORDER BY 1",
    ),
    "hourly series of a day": Statement(
        text=f"SELECT date_trunc('hour', __time) AS h, sum(m_i1) AS s FROM {{t}} WHERE {DAY} GROUP BY 1 ORDER BY 1",
        clickhouse=f"SELECT toStartOfHour(__time) AS h, sum(m_i1) AS s FROM {{t}} WHERE {DAY} GROUP BY h ORDER BY h",
        druid=f"SELECT FLOOR(__time TO HOUR) AS h, sum(m_i1) AS s FROM {{t}} WHERE {DAY} GROUP BY 1 ORDER BY 1",
        is_light=True,
    ),
    "top 10 with a filter": Statement(
        text=f"SELECT d5k, sum(m_i1) AS s FROM {{t}} WHERE d5 = '{TOP_D5}' GROUP BY d5k ORDER BY s DESC LIMIT 10",
    ),
    "two dimensions, having": Statement(
        text="SELECT d5, d50, {n} AS n, sum(m_d1) AS s FROM {t} GROUP BY d5, d50"
        " HAVING {n} > 10 ORDER BY n DESC LIMIT 100",
    ),
    "distinct values, exact": Statement(
        text="SELECT count(DISTINCT {wide}) AS n FROM {t}",
        clickhouse="SELECT uniqExact({wide}) AS n FROM {t}",
    ),
    "rows of a day that match": Statement(
        text=f"SELECT __time, d5, d50, d500, d5k, m_i1, m_i2, m_d1, m_d2 FROM {{t}} WHERE {DAY} AND m_i2 > 5000"
        " ORDER BY __time LIMIT 100",
        is_light=True,
        is_of_druids=False,
    ),
    "quantile of a week": Statement(
        text=f"SELECT d5, approx_quantile(m_d2, 0.95) AS q FROM {{t}} WHERE {WEEK} GROUP BY d5",
        clickhouse=f"SELECT d5, quantileTDigest(0.95)(m_d2) AS q FROM {{t}} WHERE {WEEK} GROUP BY d5",
        is_of_druids=False,
    ),
    "filters over a week": Statement(
        text=f"SELECT {{n}} AS n, sum(m_d1) AS s FROM {{t}} WHERE {WEEK}"
        f" AND d50 LIKE 'd50_a%' AND d5 <> '{TOP_D5}' AND m_i1 IN (1, 2, 3, 50)",
        is_of_druids=False,
    ),
    "last hour": Statement(
        text=f"SELECT {{n}} AS n FROM {{t}} WHERE {LAST_HOUR}",
        is_light=True,
    ),
    "distinct values, approximate": Statement(
        text="SELECT approx_count_distinct({wide}) AS n FROM {t}",
        clickhouse="SELECT uniqCombined({wide}) AS n FROM {t}",
        is_nine=False,
    ),
    "newest 100 that match two dimensions": Statement(
        text=f"SELECT __time, d5, d50, d5k, m_i1, m_d1 FROM {{t}} WHERE d5 = '{TOP_D5}' AND d50 = '{TOP_D50}'"
        " ORDER BY __time DESC LIMIT 100",
        is_nine=False,
        is_light=True,
    ),
    "two quantiles": Statement(
        text="SELECT approx_quantile(m_d2, 0.5) AS q50, approx_quantile(m_d2, 0.95) AS q95 FROM {t}",
        clickhouse="SELECT quantileTDigest(0.5)(m_d2) AS q50, quantileTDigest(0.95)(m_d2) AS q95 FROM {t}",
        druid="SELECT APPROX_QUANTILE_DS(m_d2, 0.5) AS q50, APPROX_QUANTILE_DS(m_d2, 0.95) AS q95 FROM {t}",
        is_nine=False,
        is_of_raw=True,
    ),
    "filters on four columns": Statement(
        text=f"SELECT {{n}} AS n, sum(m_d1) AS s FROM {{t}} WHERE d5 IN ('{TOP_D5}', 'd5_83dcefb7')"
        f" AND d50 <> '{TOP_D50}' AND d5k LIKE 'd5k_a%' AND m_i2 > 500",
        is_nine=False,
    ),
}


def over(text: str, table: str, *, is_rollup: bool) -> str:
    """Return a text over a table of raw events, or of their rollup."""
    count = "sum(events)" if is_rollup else "count(*)"
    return text.format(t=table, n=count, wide="d5k" if is_rollup else "d500k")
