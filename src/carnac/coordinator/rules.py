"""The load rules in force, as they were last read from the metadata store."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from carnac.core.texts import check_nested
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, Corrupt, Invalid

if TYPE_CHECKING:
    from carnac.core.balancing.plan.rules import Rule, RuleSet
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock

DEFAULT = "_default"
"""The name under which the rules are kept that are tried after a datasource's own."""
READ_PERIOD_MS = 1_000
LIST_MAX = 1_000
"""Rules of one datasource."""

_log = logging.getLogger(__name__)


class Rules:
    """Reads rules and keeps the last that could be read.

    Args:
        aliases: Tiers by the name that stands for them in rules.

    Attributes:
        number: Grows with each change.
    """

    def __init__(
        self, metadata: MetadataStore, clock: Clock, aliases: Mapping[str, Sequence[str]]
    ) -> None:
        self._metadata, self._clock, self._aliases = metadata, clock, aliases
        self._read_at_ms: int | None = None
        self._texts: Mapping[str, str] | None = None
        self._set: RuleSet | None = None
        self.number = 0

    def texts(self) -> Mapping[str, str]:
        """Return what operators have set, by datasource; read anew after a while."""
        now_ms = self._clock.now_ms()
        if (
            self._texts is None
            or self._read_at_ms is None
            or is_over(self._read_at_ms, READ_PERIOD_MS, now_ms)
        ):
            texts = self._metadata.rules()
            self._read_at_ms = now_ms
            if texts != self._texts:
                self._texts, self._set = texts, None
                self.number += 1
        return self._texts

    def current(self) -> RuleSet:
        """Return the rules in force; a datasource's that cannot be read count as none, and that is logged."""
        texts = self.texts()
        if self._set is None:
            self._set = _read_all(
                texts, self._aliases, partial(_log.warning, "the rules of %r are left out: %s")
            )
        return self._set


def rules_in_force(
    texts: Mapping[str, str], on_unreadable: Callable[[str, str], object]
) -> dict[str, list[dict[str, object]]]:
    """Return the rules that are kept as texts as Druid's JSON, by datasource, `_default` last.

    Args:
        on_unreadable: Takes each datasource whose rules cannot be read, and the reason; these rules are left out.
    """
    from carnac.core.balancing.plan.rules import dump_rule

    rules = _read_all(texts, {}, on_unreadable)
    lists = {**rules.by_datasource, DEFAULT: rules.default}
    return {name: [dump_rule(one) for one in found] for name, found in lists.items()}


def _read_all(
    texts: Mapping[str, str],
    aliases: Mapping[str, Sequence[str]],
    on_unreadable: Callable[[str, str], object],
) -> RuleSet:
    from carnac.core.balancing.plan.rules import expand_tiers, rule_set

    found: dict[str, tuple[Rule, ...]] = {}
    for datasource, text in texts.items():
        try:
            found[datasource] = expand_tiers(read_rules(text), aliases)
        except CarnacError as error:
            on_unreadable(datasource, error.message)
    return rule_set(found)


def read_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules that are kept as a text.

    Raises:
        Corrupt, Invalid: Somebody else has written it.
    """
    from carnac.core.balancing.plan.rules import parse_rules

    try:
        raw = json.loads(text)
    except ValueError as error:
        raise Corrupt(f"they are no JSON: {error}; set them anew") from error
    if not isinstance(raw, list):
        raise Corrupt("they are no list; set them anew")
    return parse_rules(raw)


def rules_text(raw: object) -> str:
    """Return a list of rules, checked, as it is kept.

    Raises:
        Invalid: It is no list of rules, or too long a one.
    """
    from carnac.core.balancing.plan.rules import dump_rule, parse_rules

    check_nested(raw, "the rules")
    parsed = parse_rules(raw)
    if len(parsed) > LIST_MAX:
        raise Invalid(f"{len(parsed):,} rules are too many; at most {LIST_MAX:,} are taken")
    return json.dumps([dump_rule(rule) for rule in parsed])
