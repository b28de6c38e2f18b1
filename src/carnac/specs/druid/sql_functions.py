"""Functions of Druid's SQL that are not here, each with the form of DuckDB that does it."""

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
    "millis_to_timestamp": "to_timestamp(1709542800000 / 1000)",
    "timestamp_to_millis": "epoch_ms(__time)",
    "timestampadd": "__time + INTERVAL '1 day'",
    "timestampdiff": "date_diff('day', TIMESTAMPTZ '2024-03-04', __time)",
    # aggregates
    "approx_count_distinct_builtin": "approx_count_distinct(page)",
    "approx_distinct": "approx_count_distinct(page)",
    "earliest": "arg_min(page, __time)",
    "earliest_by": "arg_min(page, __time)",
    "latest": "arg_max(page, __time)",
    "latest_by": "arg_max(page, __time)",
    "approx_quantile_fixed_buckets": "approx_quantile(added, 0.5)",
    "array_concat_agg": "flatten(list(tags))",
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
    "btrim": "trim(page, ' ')",
    "textcat": "page || '?'",
    "string_format": "printf('%s: %d', page, added)",
    "str_position": "strpos(page, 'hir')",
    "regexp_like": "regexp_matches(page, '^M')",
    "contains_string": "contains(page, 'hir')",
    "icontains_string": "contains(lower(page), lower('HIR'))",
    "string_to_mv": "string_split(page, ',')",
    "decode_base64_utf8": "decode(from_base64('TWVuaGly'))",
    "parse_long": "TRY_CAST(page AS BIGINT)",
    "human_readable_binary_byte_format": "format_bytes(added)",
    "human_readable_decimal_byte_format": "formatReadableDecimalSize(added)",
    "human_readable_decimal_format": "printf('%.2f K', added / 1000)",
    "decode_base64_complex": "from_base64('TWVuaGly')",
    "complex_decode_base64": "from_base64('TWVuaGly')",
    "nvl": "coalesce(page, 'none')",
    "ipv4_parse": "list_reduce(list_transform(string_split('10.0.0.1', '.'), lambda part: CAST(part AS BIGINT)),"
    " lambda high, low: high * 256 + low)",
    "ipv4_stringify": "concat_ws('.', added >> 24, (added >> 16) & 255, (added >> 8) & 255, added & 255)",
    "ipv4_match": "starts_with(page, '10.0.')",
    "ipv6_match": "starts_with(page, '2001:db8:')",
    # numbers
    "div": "added // 2",
    "safe_divide": "added / nullif(added, 0)",
    "truncate": "trunc(added)",
    "bitwise_and": "added & 1",
    "bitwise_or": "added | 1",
    "bitwise_xor": "xor(added, 1)",
    "bitwise_complement": "~added",
    "bitwise_convert_double_to_long_bits": "CAST(CAST(CAST(added AS DOUBLE) AS BIT) AS BIGINT)",
    "bitwise_convert_long_bits_to_double": "CAST(CAST(added AS BIT) AS DOUBLE)",
    "bitwise_shift_left": "added << 1",
    "bitwise_shift_right": "added >> 1",
    # several values
    "mv_to_array": "tags",
    "array_to_mv": "tags",
    "mv_contains": "list_has_all(tags, ['a', 'b'])",
    "mv_overlap": "list_has_any(tags, ['a', 'b'])",
    "array_overlap": "list_has_any(tags, ['a', 'b'])",
    "scalar_in_array": "list_contains(tags, 'a')",
    "mv_length": "len(tags)",
    "mv_offset": "tags[0 + 1]",
    "array_offset": "tags[0 + 1]",
    "mv_ordinal": "tags[1]",
    "array_ordinal": "tags[1]",
    "mv_offset_of": "list_position(tags, 'a') - 1",
    "array_offset_of": "list_position(tags, 'a') - 1",
    "mv_ordinal_of": "list_position(tags, 'a')",
    "array_ordinal_of": "list_position(tags, 'a')",
    "mv_append": "list_append(tags, 'c')",
    "mv_prepend": "list_prepend('c', tags)",
    "mv_concat": "list_concat(tags, ['c'])",
    "mv_slice": "list_slice(tags, 1, 2)",
    "mv_to_string": "array_to_string(tags, ',')",
    "mv_filter_only": "list_filter(tags, lambda t: t IN ('a', 'b'))",
    "mv_filter_none": "list_filter(tags, lambda t: t NOT IN ('a', 'b'))",
    "mv_filter_regex": "list_filter(tags, lambda t: regexp_matches(t, '^a'))",
    "mv_filter_prefix": "list_filter(tags, lambda t: starts_with(t, 'a'))",
    # JSON
    "json_query": "json_extract(doc, '$.a')",
    "json_query_array": "json_extract(doc, '$.a[*]')",
    "parse_json": "CAST('{}' AS JSON)",
    "try_parse_json": "TRY_CAST(page AS JSON)",
    "to_json_string": "CAST(to_json(tags) AS VARCHAR)",
}
"""By the function's name in lower case: an expression over `__time`, `page`, `added`, `tags` and `doc` to write after.

Source: Druid's documentation of its SQL functions, those of its extensions included. A test runs each form.
"""


def find_form(name: str) -> str | None:
    """Return the form that does what a function of Druid does; None: it is no function of Druid, or is here."""
    return FORMS.get(name.lower())
