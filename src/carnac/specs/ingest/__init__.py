"""The ingestion spec: where rows come from (`inputs`), what they are (`schema`), how they are laid out (`layout`).

`spec` joins these blocks to `IngestSpec`, says in which order the steps of a row come, and checks what two blocks say
together. `transforms` compiles expressions and filters, `json_paths` reads the paths of fields, and `inference` decides
on the time column, types and time chunks of rows that come without a spec.
"""
