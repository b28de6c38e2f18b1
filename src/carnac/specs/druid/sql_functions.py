"""Functions of Druid's SQL that are not here, or with some arguments alone, and the form of DuckDB that does it."""

from __future__ import annotations

from collections.abc import Mapping

FORMS: Mapping[str, str] = {
    # times
    "time_floor": "date_trunc('hour', __time), or time_bucket(INTERVAL '15 minutes', __time)",
    "time_ceil": "date_trunc('hour', __time - INTERVAL '1 microsecond') + INTERVAL '1 hour'",
    "time_shift": "__time + INTERVAL '1 day'",
    "time_extract": "date_part('hour', __time)",
    "time_parse": "strptime('2024-03-04', '%Y-%m-%d')",
    "time_format": "strftime(__time, '%Y-%m-%d %H:%M')",
    "time_in_interval": "__time >= TIMESTAMPTZ '2024-03-04' AND __time < TIMESTAMPTZ '2024-03-05'",
    "timestampadd": "__time + INTERVAL '1 day'",
    "timestampdiff": "date_diff('day', TIMESTAMPTZ '2024-03-04', __time)",
    # aggregates
    "approx_quantile_fixed_buckets": "approx_quantile(added, 0.5)",
    "ds_get_quantiles": "[DS_GET_QUANTILE(DS_QUANTILES_SKETCH(added), 0.5)]",
    "ds_quantile_summary": "DS_GET_QUANTILE(DS_QUANTILES_SKETCH(added), 0.5)",
    "tdigest_generate_sketch": "DS_QUANTILES_SKETCH(added)",
    "tdigest_quantile": "DS_GET_QUANTILE(DS_QUANTILES_SKETCH(added), 0.5)",
    "hll_sketch_estimate_with_error_bounds": "HLL_SKETCH_ESTIMATE(DS_HLL(page))",
    "hll_sketch_to_string": "HLL_SKETCH_ESTIMATE(DS_HLL(page))",
    "theta_sketch_estimate_with_error_bounds": "THETA_SKETCH_ESTIMATE(DS_THETA(page))",
    "bloom_filter": "list(DISTINCT page)",
    "bloom_filter_test": "page IN (SELECT page FROM edits)",
    **dict.fromkeys(
        ("ds_tuple_doubles", "ds_tuple_doubles_metrics_sum_estimate"),
        "THETA_SKETCH_ESTIMATE(DS_THETA(page)), or sum(added)",
    ),
    "ds_tuple_doubles_union": "count(DISTINCT page) FILTER (added = 3 OR added = 5)",
    "ds_tuple_doubles_intersect": "len(list_intersect(list(page), list(page) FILTER (added = 3)))",
    "ds_tuple_doubles_not": "count(DISTINCT page) FILTER (added <> 3)",
    # lookups
    "lookup": "(SELECT v FROM lookup.pages WHERE k = page), or a join with lookup.pages",
    # texts
    "string_format": "printf('%s: %d', page, added)",
    "decode_base64_complex": "from_base64('TWVuaGly')",
    "complex_decode_base64": "from_base64('TWVuaGly')",
    "ipv4_match": "starts_with(page, '10.0.')",
    "ipv6_match": "starts_with(page, '2001:db8:')",
}
"""By the function's name in lower case: an expression over `__time`, `page`, `added`, `tags` and `doc` to write after.

Source: Druid's documentation of its SQL functions, those of its extensions included. A test runs each form.
"""


def find_form(name: str) -> str | None:
    """Return the form that does what a function of Druid does; None: it needs none, or is none."""
    return FORMS.get(name.lower())
