"""Time: instants, half-open intervals, periods, zones, and the granularities that cut time into buckets.

An interval is `[start_ms, end_ms)`, in milliseconds since 1970, UTC (`intervals`). A granularity cuts all of time into
buckets without gap or overlap (`granularity`): of equal length, or by the calendar of a zone, where a day has 23 or 25
hours when clocks change (`zones`). `periods` reads `P1M`, `nesting` says which granularities cut which, and
`leases` when a lease is over by clocks of which one may be wrong.
"""
