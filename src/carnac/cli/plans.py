"""The plan of a spec, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.cli.tables import interval_text, number_text
from carnac.core.json_form import some_of

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec


def plan_facts(spec: IngestSpec) -> list[tuple[str, str]]:
    """Return names and values that say what the spec would do."""
    facts = [
        ("datasource", spec.datasource),
        ("mode", _mode(spec)),
        ("input", _input(spec)),
        ("time", f"{spec.timestamp.column} ({spec.timestamp.format}, {spec.timestamp.time_zone})"),
        ("dimensions", _dimensions(spec)),
    ]
    if spec.metrics:
        facts.append(("metrics", ", ".join(f"{item.name} ({item.type})" for item in spec.metrics)))
    transforms = spec.transforms.transforms
    if transforms:
        facts.append(("transforms", ", ".join(item.name for item in transforms)))
    if spec.transforms.filter is not None:
        facts.append(("filter", str(spec.transforms.filter)))
    facts += [
        ("time chunks", str(spec.granularity.segment_granularity)),
        ("query granularity", str(spec.granularity.query_granularity)),
        ("rollup", spec.rollup.replace("_", " ")),
        (
            "segments",
            f"{spec.partitions.type}, {number_text(spec.partitions.rows_per_segment)} rows",
        ),
        ("sorted by", ", ".join(spec.sort_columns)),
    ]
    if spec.intervals:
        facts.append(("intervals", ", ".join(interval_text(item) for item in spec.intervals)))
    limit = spec.tuning.max_parse_exceptions
    facts.append(("bad rows", "any number" if limit is None else f"at most {number_text(limit)}"))
    facts += [("ignored", f"{item.path}: {item.reason}") for item in spec.ignored]
    return facts


def plan_json(spec: IngestSpec) -> dict[str, object]:
    """Return the spec in Carnac's own form, what it resolves to, and the fields that have no effect."""
    return {
        **some_of(spec, "datasource mode replace_scope rollup intervals"),
        "segment_granularity": str(spec.granularity.segment_granularity),
        "query_granularity": str(spec.granularity.query_granularity),
        "fingerprint": spec.fingerprint(),
        "ignored": [{"path": item.path, "reason": item.reason} for item in spec.ignored],
        "spec": spec.to_json_dict(),
    }


def _mode(spec: IngestSpec) -> str:
    if spec.mode == "append":
        return "append"
    if spec.replace_scope == "intervals":
        return "replace all rows of the intervals"
    return "replace the time chunks that new rows fall into"


def _input(spec: IngestSpec) -> str:
    source = spec.input
    if source.type == "files":
        kind = "" if source.format is None else f" ({source.format.type})"
        return ", ".join(source.paths) + kind
    if source.type == "inline":
        return f"{number_text(len(source.data.splitlines()))} inline lines ({source.format.type})"
    if source.type == "query":
        return "a SELECT statement, on Spark"
    return f"a {source.frame} in memory"


def _dimensions(spec: IngestSpec) -> str:
    named = ", ".join(f"{item.name} ({item.type})" for item in spec.dimensions.dimensions)
    if not spec.dimensions.discovers:
        return named or "none"
    return f"{named}, and all others found" if named else "all that are found"
