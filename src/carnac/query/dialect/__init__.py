"""Functions of Druid's SQL, which become expressions of DuckDB's before a statement is looked at."""
