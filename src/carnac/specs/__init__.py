"""Specs: descriptions of jobs, as data; pure, without I/O.

Each kind of job has one form, frozen and checked when it is made: `ingest` (loads), `compaction`, `tasks`,
`supervisors`. What others write becomes that form: Druid's JSON in `druid`, SQL that loads rows in `sql`. Transforms
and filters are Spark SQL, of which `spark_sql` reads the part that DuckDB computes as Spark does, or Druid's.

| Where is it decided … | |
|---|---|
| whether a text is JSON, YAML, SQL or Druid's, and what becomes of it? | `load.py` |
| what every block refuses, and how a mistake is told with its line? | `base.py`, `problems.py`, `lines.py` |
| what a field, a filter, an expression of Druid's becomes? | `druid` |
| what a task that came over HTTP may not do? | `tasks/admission.py` |
| which spec is made of rows without one? | `ingest/inference.py` |
"""

from __future__ import annotations

from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.load import load_spec

__all__ = ["IngestSpec", "load_spec"]
