"""Tasks as data: the work to be done on a store. Druid's own task specs are read as they are."""
