"""Time: instants, half-open intervals, periods, zones, and the granularities that cut time into buckets."""
