"""Unrequested changes of a load: said in its report, or refused before anything is published."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from carnac.core.segments.evolution import (
    REJECTED_SHARE,
    compare_schemas,
    find_empty_columns,
    is_epoch,
)
from carnac.core.segments.segment import ColumnType
from carnac.core.words import share_text
from carnac.errors import Invalid
from carnac.ports import JobReport, JobResult
from carnac.store.writing import declarations

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.specs.ingest.spec import IngestSpec


_UNFIT = re.compile(f"not an? (?:{'|'.join(ColumnType)}): (.+)")
"""Why a cell was rejected that its column does not take; in it, the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Exceptions for a load from refusals.

    Attributes:
        type_change: Whether a column's type may change so that queries which compute with it break.
        missing: Whether a declared field that no row has is taken as null.
        keeps_types: Whether the types are those of an earlier load, since none are given for this one.
    """

    type_change: bool = False
    missing: bool = False
    keeps_types: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """The state that a load meets.

    Attributes:
        base: Revision that the load found.
        settings: Settings of the store.
        columns: Columns of the segments that stay beside its rows.
    """

    base: int
    settings: Mapping[str, str]
    columns: Mapping[str, ColumnType]


def allowed_for(allowed: tuple[bool, bool], *, is_remembered: bool) -> Allowed:
    """Return the exceptions for a load. Fields that only an earlier load declared may be missing."""
    type_change, missing = allowed
    return Allowed(
        type_change=type_change, missing=missing or is_remembered, keeps_types=is_remembered
    )


def load_met(metadata: MetadataStore, spec: IngestSpec, base: int | None) -> Met:
    """Return what a load meets that found revision `base`; None: that finds the newest one."""
    with metadata.one_state():
        base = metadata.head().revision if base is None else base
        return Met(
            base=base,
            settings=metadata.settings(),
            columns=columns_before(metadata, spec, base),
        )


def with_notes(spec: IngestSpec, result: JobResult, met: Met, allowed: Allowed) -> JobResult:
    """Return the result with notes in its report.

    Args:
        allowed: Beside what the spec allows.

    Raises:
        Invalid: A type would change so that queries break, or no row has a declared field, and the spec does not
            allow it.
    """
    evolution = compare_schemas(met.columns, result.segments)
    if evolution.breaking and not (allowed.type_change or spec.tuning.allow_type_change):
        raise Invalid(
            f"{'; '.join(evolution.breaking)}: queries that compute with it would break, and nothing was published;"
            " cast it in the spec, or allow it (--allow-type-change, tuningConfig.allowTypeChange)",
            datasource=spec.datasource,
        )
    missing = _missing(spec, result)
    if missing and not (allowed.missing or allows_missing(spec)):
        raise Invalid(
            f"{'; '.join(missing)}; nothing was published: correct the name, or take it as null"
            " (--allow-missing, tuningConfig.allowMissing)",
            datasource=spec.datasource,
            columns=list(result.missing),
        )
    notes = [*result.report.notes, *evolution.notes, *evolution.breaking]
    notes += [f"{one}; it is null" for one in missing]
    empty = find_empty_columns(spec.dimensions.names, result.segments)
    if empty := tuple(name for name in empty if name not in result.missing):
        notes.append(
            f"nothing but nulls in {', '.join(empty)}; if that is wrong, look what the input calls its fields"
        )
    if is_epoch(result.segments):
        notes.append(
            "all rows lie in the first weeks of 1970: if their times are seconds, say so (timestampSpec.format: posix)"
        )
    made_by = met.settings.get(declarations.granularity_key(spec.datasource))
    now = str(spec.granularity.segment_granularity)
    if met.columns and made_by is not None and made_by != now:
        notes.append(f"time chunks were made by {made_by} before, and are by {now} from now on")
    read, rejected = result.report.rows_read, result.report.rejected.count
    if read and rejected > read * REJECTED_SHARE:
        notes.append(_rejected_note(rejected, read))
    unfit = [
        one[1] for reason in result.report.rejected.by_reason if (one := _UNFIT.fullmatch(reason))
    ]
    if unfit and allowed.keeps_types:
        notes.append(
            f"the type of {', '.join(unfit)} is that of earlier loads, so what does not fit it was rejected; to"
            " change it, give a spec that says so (--spec-out FILE writes the present one) with --allow-type-change"
        )
    if not notes:
        return result
    return replace(result, report=replace(result.report, notes=tuple(notes)))


def _rejected_note(rejected: int, read: int) -> str:
    were = "was" if rejected == 1 else "were"
    return f"{rejected:,} of {read:,} rows {were} rejected, more than {share_text(REJECTED_SHARE, '.0%')}"


def lines_of(datasource: str, report: JobReport) -> Iterator[str]:
    """Yield what a log says of a load whose report nobody is given: its notes, and that rows were rejected."""
    for note in report.notes:
        yield f"{datasource}: {note}"
    rejected = report.rejected
    if rejected.count:
        yield (
            f"{rejected.count} of {report.rows_read} rows of {datasource} were rejected; see them with: "
            f"carnac quarantine {rejected.path}"
        )


def allows_missing(spec: IngestSpec) -> bool:
    """Whether a spec takes a declared field that no row has as null."""
    return spec.tuning.allow_missing or spec.context.get("allowMissing") is True


def _missing(spec: IngestSpec, result: JobResult) -> list[str]:
    """Return a sentence for each declared field that no row has; it names the one that may be meant."""
    from carnac.specs.problems import nearest

    declared = {field for fields in spec.declared_fields.values() for field in fields}
    others = [name for name in result.fields if name not in declared]
    sentences = []
    for name in result.missing:
        near = nearest(name, others)
        hint = "" if near is None else f" (did you mean '{near}'?)"
        sentences.append(f"no row has the declared column '{name}'{hint}")
    return sentences


def columns_before(
    metadata: MetadataStore, spec: IngestSpec, base: int
) -> Mapping[str, ColumnType]:
    """Return the columns that a load meets; none where it replaces all that there is."""
    if spec.mode == "replace":
        found = (one.interval for one in metadata.datasources() if one.name == spec.datasource)
        span = next(found, None)
        if span is None or spec.intervals.contains(span):
            return {}
        return metadata.columns(spec.datasource, revision=base)
    return metadata.columns(spec.datasource)  # an append keeps nobody from trimming its base
