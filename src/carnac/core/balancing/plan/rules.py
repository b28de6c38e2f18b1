"""Load and drop rules: which segments are served, in which tiers, in how many replicas.

Types, fields and defaults are Druid's (Source: its documentation of rules, and the behaviour of its code): a segment
goes by the first rule that matches, of its datasource's rules, then of the default rules. Periods count back from now
on the calendar, in UTC.

| type | matches a segment whose interval |
|---|---|
| `loadForever`, `dropForever`, `broadcastForever` | is any |
| `loadByInterval`, `broadcastByInterval` | overlaps `interval` |
| `dropByInterval` | lies in `interval` |
| `loadByPeriod`, `broadcastByPeriod` | overlaps the period before now, and the future unless `includeFuture` is false |
| `dropByPeriod` | lies in the period before now, and the future unless `includeFuture` is false |
| `dropBeforeByPeriod` | ended before the period began |

Departure: a field that a rule does not know is refused, because a misspelt `includeFuture` would drop data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Flags, Ints
from carnac.core.balancing.plan.cluster import DEFAULT_TIER, SegmentTable
from carnac.core.time.intervals import MAX_MS, Interval, parse_interval
from carnac.core.time.periods import Period, add_period, parse_period
from carnac.errors import Invalid

DEFAULT_REPLICAS = 2
MAX_REPLICAS = 1000
"""A rule with more is taken for a mistake."""

NO_RULE = -1


class Action(StrEnum):
    """The effect of a rule on the segments that it matches."""

    LOAD = "load"
    DROP = "drop"
    BROADCAST = "broadcast"


class Match(StrEnum):
    """The criterion of a rule; the end of its type's name."""

    FOREVER = "Forever"
    INTERVAL = "ByInterval"
    PERIOD = "ByPeriod"
    BEFORE_PERIOD = "BeforeByPeriod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. Build it with `parse_rule`, or one of `load_forever`, `drop_forever`.

    Attributes:
        interval: Set for `Match.INTERVAL`.
        period: Set for the two kinds of period.
        include_future: Whether a period reaches beyond now.
        replicas: Tier → replicas, for `Action.LOAD`; empty serves nothing, but keeps the data.
    """

    action: Action
    match: Match
    interval: Interval | None = None
    period: Period | None = None
    include_future: bool = True
    replicas: Mapping[str, int] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The name in JSON."""
        return f"{self.action}{self.match}"

    def __str__(self) -> str:
        detail = self.interval or self.period
        return self.type if detail is None else f"{self.type} {detail}"

    def matches(self, start_ms: Ints, end_ms: Ints, now_ms: int) -> Flags:
        """Return which of the intervals it matches."""
        if self.match is Match.FOREVER:
            return np.ones(len(start_ms), np.bool_)
        if self.interval is not None:
            low, high = self.interval.start_ms, self.interval.end_ms
        else:
            low = now_ms if self.period is None else add_period(now_ms, self.period, -1)
            if self.match is Match.BEFORE_PERIOD:
                return end_ms <= low
            high = MAX_MS if self.include_future else now_ms
        if self.action is Action.DROP:
            return (low <= start_ms) & (end_ms <= high)
        return (start_ms < high) & (low < end_ms)


def load_forever(replicas: Mapping[str, int] | None = None) -> Rule:
    """Return the rule that loads everything: two replicas in the default tier, unless told otherwise."""
    return Rule(
        action=Action.LOAD,
        match=Match.FOREVER,
        replicas={DEFAULT_TIER: DEFAULT_REPLICAS} if replicas is None else dict(replicas),
    )


def expand_tiers(rules: Sequence[Rule], aliases: Mapping[str, Sequence[str]]) -> tuple[Rule, ...]:
    """Return the rules with the tiers that names stand for in place of them, each with as many replicas.

    A tier that is named beside its alias has the more of the two.

    Args:
        rules: As they were set.
        aliases: Tiers by the name that stands for them.
    """
    return tuple(replace(rule, replicas=_expanded(rule.replicas, aliases)) for rule in rules)


def _expanded(
    replicas: Mapping[str, int], aliases: Mapping[str, Sequence[str]]
) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for name, count in replicas.items():
        for tier in aliases.get(name, (name,)):
            found[tier] = max(count, found.get(tier, 0))
    return found


_TYPES: Mapping[str, tuple[Action, Match]] = {
    f"{action}{match}": (action, match)
    for action in Action
    for match in Match
    if match is not Match.BEFORE_PERIOD or action is Action.DROP
}


def parse_rules(raw: object) -> tuple[Rule, ...]:
    """Return the rules of a JSON array.

    Raises:
        Invalid: It is no array, or one of the rules is wrong; the message says which.
    """
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
        raise Invalid("rules must be an array of objects, in the order in which they are tried")
    rules = []
    for number, item in enumerate(raw, start=1):
        try:
            rules.append(parse_rule(item))
        except Invalid as error:
            raise Invalid(f"rule {number} of {len(raw)}: {error.message}", **error.ids) from None
    return tuple(rules)


def parse_rule(raw: object) -> Rule:
    """Return the rule of a JSON object.

    Raises:
        Invalid: The type is unknown, a field is missing, unknown or wrong.
    """
    if not isinstance(raw, Mapping):
        raise Invalid("a rule must be an object with a type")
    fields = dict(raw)
    name = fields.pop("type", None)
    if not isinstance(name, str) or name not in _TYPES:
        raise Invalid(
            f"'{name}' is not a type of rule; it must be one of {', '.join(_TYPES)}", type=name
        )
    action, match = _TYPES[name]
    interval = period = None
    include_future = True
    if match is Match.INTERVAL:
        interval = parse_interval(_text(fields, "interval", name))
    if match in {Match.PERIOD, Match.BEFORE_PERIOD}:
        period = parse_period(_text(fields, "period", name))
    if match is Match.PERIOD:
        include_future = _flag(fields, "includeFuture", name)
    replicas = _replicas(fields, name) if action is Action.LOAD else {}
    if action is Action.BROADCAST and fields.pop("colocatedDataSources", None):
        raise Invalid(
            f"{name} with colocatedDataSources is not supported; leave the field out to broadcast to every server"
        )
    if fields:
        raise Invalid(f"{name} has no field {min(map(str, fields))!r}", type=name)
    return Rule(
        action=action,
        match=match,
        interval=interval,
        period=period,
        include_future=include_future,
        replicas=replicas,
    )


def _text(fields: dict[str, object], name: str, rule: str) -> str:
    value = fields.pop(name, None)
    if not isinstance(value, str):
        raise Invalid(f"{rule} needs the field '{name}', as text", type=rule)
    return value


def _flag(fields: dict[str, object], name: str, rule: str) -> bool:
    value = fields.pop(name, None)
    if value is not None and not isinstance(value, bool):
        raise Invalid(f"'{name}' of {rule} must be true or false", type=rule)
    return True if value is None else value


def _replicas(fields: dict[str, object], rule: str) -> dict[str, int]:
    use_default = _flag(fields, "useDefaultTierForNull", rule)
    value = fields.pop("tieredReplicants", None)
    if value is None:
        return {DEFAULT_TIER: DEFAULT_REPLICAS} if use_default else {}
    if not isinstance(value, Mapping):
        raise Invalid(
            f"'tieredReplicants' of {rule} must be an object of tiers and numbers", type=rule
        )
    for tier, count in value.items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_REPLICAS:
            raise Invalid(
                f"{rule} asks for {count!r} replicas in tier '{tier}'; it must be a whole number from 0 "
                f"to {MAX_REPLICAS}",
                tier=tier,
            )
    return dict(value)


def dump_rule(rule: Rule) -> dict[str, object]:
    """Return the JSON object of a rule; `parse_rule` reads it back."""
    raw: dict[str, object] = {"type": rule.type}
    if rule.interval is not None:
        raw["interval"] = str(rule.interval)
    if rule.period is not None:
        raw["period"] = str(rule.period)
    if rule.match is Match.PERIOD:
        raw["includeFuture"] = rule.include_future
    if rule.action is Action.LOAD:
        raw["tieredReplicants"] = dict(rule.replicas)
        raw["useDefaultTierForNull"] = True
    return raw


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """The rules of all datasources.

    Attributes:
        by_datasource: Datasource → its own rules, tried first.
        default: The rules tried after them, for every datasource. Druid: `_default`.
    """

    by_datasource: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    default: tuple[Rule, ...] = field(default_factory=lambda: (load_forever(),))

    def of(self, datasource: str) -> tuple[Rule, ...]:
        """Return the rules that are tried for a datasource, in order."""
        return (*self.by_datasource.get(datasource, ()), *self.default)


def rule_set(lists: Mapping[str, tuple[Rule, ...]]) -> RuleSet:
    """Return the rules of lists by datasource; without one of `_default`, everything is loaded."""
    own = dict(lists)
    default = own.pop("_default", None)
    return (
        RuleSet(by_datasource=own)
        if default is None
        else RuleSet(by_datasource=own, default=default)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleMatches:
    """The rule of each segment.

    Attributes:
        rules: Rules by index.
        rule: Index by segment; `NO_RULE` where none matches: such a segment is left as it is.
    """

    rules: tuple[Rule, ...]
    rule: Codes

    def by_action(self, action: Action) -> Flags:
        """Return which segments go by a rule of an action."""
        is_it = np.array([rule.action is action for rule in self.rules] + [False], np.bool_)
        actions: Flags = is_it[self.rule]
        return actions

    def replicas_in(self, tier: str) -> Codes:
        """Return how many replicas each segment should have in a tier; 0 where its rule loads nothing there."""
        counts = [rule.replicas.get(tier, 0) for rule in self.rules]
        return np.array([*counts, 0], np.int32)[self.rule]


def decide_rules(rules: RuleSet, segments: SegmentTable, now_ms: int) -> RuleMatches:
    """Return the first rule that matches, for every segment."""
    matched = np.full(len(segments), NO_RULE, np.int32)
    flat: list[Rule] = []
    order = np.argsort(segments.datasource, kind="stable")
    bounds = np.searchsorted(segments.datasource[order], np.arange(len(segments.datasources) + 1))
    for code, name in enumerate(segments.datasources):
        rows = order[bounds[code] : bounds[code + 1]]
        for rule in rules.of(name):
            open_rows = rows[matched[rows] == NO_RULE]
            if not len(open_rows):
                break
            hit = rule.matches(segments.start_ms[open_rows], segments.end_ms[open_rows], now_ms)
            matched[open_rows[hit]] = len(flat)
            flat.append(rule)
    return RuleMatches(rules=tuple(flat), rule=matched)


def used_tiers(matches: RuleMatches) -> tuple[str, ...]:
    """Return the tiers that some rule names, sorted."""
    return tuple(sorted({tier for rule in matches.rules for tier in rule.replicas}))
