"""How many copies of segments rules want, by tier: for those who ask what is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carnac.core.balancing.live.picture import LiveSegment, codes_of, table_of
from carnac.core.balancing.plan.rules import NO_RULE, Action, RuleSet, decide_rules


def wanted_copies(
    segments: Sequence[LiveSegment],
    rules: RuleSet,
    *,
    now_ms: int,
    servers: Mapping[str, int],
    is_limited: bool,
) -> dict[str, dict[str, int]]:
    """Return the copies that are wanted of each segment, by its id and by tier; tiers that want none are left out.

    Args:
        segments: Each once.
        rules: Of all datasources.
        now_ms: The present, epoch milliseconds, UTC.
        servers: How many servers each tier has.
        is_limited: Whether no more copies are wanted than there are servers.
    """
    matches = decide_rules(rules, table_of(segments, codes_of(segments)), now_ms)
    by_rule = []
    for rule in matches.rules:
        asked = dict(servers) if rule.action is Action.BROADCAST else dict(rule.replicas)
        if is_limited:
            asked = {tier: min(count, servers.get(tier, 0)) for tier, count in asked.items()}
        by_rule.append({tier: count for tier, count in asked.items() if count})
    found: dict[str, dict[str, int]] = {}
    for one, rule_number in zip(segments, matches.rule.tolist(), strict=True):
        found[one.segment_id] = {} if rule_number == NO_RULE else by_rule[rule_number]
    return found
