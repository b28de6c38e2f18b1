"""Tasks as data: what should be done to a store; Druid's own task specs are read as they are."""
