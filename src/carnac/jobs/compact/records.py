"""Records of segments that a rewrite made of rolled-up rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from carnac.core.segments.segment import Segment
from carnac.jobs.compact.shape import InputGroup
from carnac.ports import SegmentInput


def with_records(
    input_group: InputGroup, segments: Sequence[Segment], *, is_whole: bool
) -> tuple[Segment, ...]:
    """Return the records, with metrics as they are known and input rows that add up to those of the inputs."""
    if not input_group.shape.is_rollup:
        return tuple(segments)
    behind = round(sum(_input_rows(source) for source in input_group.inputs))
    merged = sum(segment.input_rows for segment in segments) or 1
    spec, so_far, given, records = input_group.rollup_spec(is_perfect=is_whole), 0, 0, []
    for segment in segments:
        so_far += segment.input_rows
        upto = round(behind * so_far / merged)
        records.append(replace(segment, rollup=spec, input_rows=max(upto - given, segment.rows)))
        given = upto
    return tuple(records)


def _input_rows(source: SegmentInput) -> float:
    """Return about how many input rows the visible part of a segment stands for."""
    segment = source.segment
    shown = sum(
        part.duration_ms
        for piece in source.visible
        if (part := piece.intersect(segment.span)) is not None
    )
    return segment.input_rows * shown / segment.span.duration_ms
