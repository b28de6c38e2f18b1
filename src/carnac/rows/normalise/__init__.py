"""From records to typed columns: the timestamp, the declared types, the shape that segments will have."""
