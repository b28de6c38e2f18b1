"""How a datasource is to be compacted, as data."""
