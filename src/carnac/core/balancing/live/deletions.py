"""Deletions by drop rules: one interval of each datasource at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.live.picture import LiveSegment, table_of
from carnac.core.balancing.plan.rules import NO_RULE, Action, RuleMatches, RuleSet, decide_rules
from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """One deletion by a drop rule.

    Attributes:
        interval: Whole time chunks, with none between them that is to stay.
        rule: The rule as a text.
    """

    datasource: str
    interval: Interval
    rule: str


def plan_deletions(
    chunks: Mapping[str, Sequence[Interval]], rules: RuleSet, *, now_ms: int
) -> tuple[Deletion, ...]:
    """Return the oldest stretch of each datasource that one drop rule matches, by datasource.

    A chunk that has not ended is left alone, even if a drop rule matches it: rows may still come.

    Args:
        chunks: The time chunks that show something, by datasource, disjoint.
        rules: Of all datasources.
        now_ms: The present, epoch milliseconds, UTC.
    """
    found = (
        _oldest_stretch(datasource, sorted(there), rules, now_ms)
        for datasource, there in sorted(chunks.items())
        if has_drops(rules, datasource)
    )
    return tuple(one for one in found if one is not None)


def has_drops(rules: RuleSet, datasource: str) -> bool:
    """Whether a drop rule is tried for the datasource."""
    return any(rule.action is Action.DROP for rule in rules.of(datasource))


def _oldest_stretch(
    datasource: str, chunks: Sequence[Interval], rules: RuleSet, now_ms: int
) -> Deletion | None:
    matches = _matches(datasource, chunks, rules, now_ms)
    drops = matches.by_action(Action.DROP) & (
        np.array([chunk.end_ms for chunk in chunks], np.int64) <= now_ms
    )
    first = int(np.argmax(drops)) if drops.any() else len(chunks)
    last = first
    while last < len(chunks) and drops[last] and matches.rule[last] == matches.rule[first]:
        last += 1
    if first == last or matches.rule[first] == NO_RULE:
        return None
    return Deletion(
        datasource=datasource,
        interval=Interval(chunks[first].start_ms, chunks[last - 1].end_ms),
        rule=str(matches.rules[int(matches.rule[first])]),
    )


def _matches(
    datasource: str, chunks: Sequence[Interval], rules: RuleSet, now_ms: int
) -> RuleMatches:
    rows = [
        LiveSegment(segment_id="", datasource=datasource, chunk=chunk, partition=0, size_bytes=0)
        for chunk in chunks
    ]
    return decide_rules(rules, table_of(rows, {datasource: 0}), now_ms)
