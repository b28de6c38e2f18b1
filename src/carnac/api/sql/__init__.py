"""SQL over HTTP: requests, answers and errors as Apache Druid's clients know them."""
