"""Functions that a query may call besides DuckDB's own."""

from __future__ import annotations

from carnac.query.rewriting.documents import DOCUMENT_FUNCTIONS, names_documents
from carnac.query.rewriting.sketching import SKETCH_FUNCTIONS, names_sketches

OWN_FUNCTIONS = SKETCH_FUNCTIONS | DOCUMENT_FUNCTIONS
"""Their names in lower case."""


def names_own(sql: str) -> bool:
    """Whether the text may call one of these."""
    return names_sketches(sql) or names_documents(sql)
