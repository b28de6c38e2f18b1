"""Specs: descriptions of jobs, as data; pure, without I/O."""

from __future__ import annotations

from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.load import load_spec

__all__ = ["IngestSpec", "load_spec"]
