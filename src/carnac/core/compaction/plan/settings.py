"""How a datasource is to be compacted, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.time.periods import Period
from carnac.errors import Invalid

MIB = 1 << 20
DEFAULT_TARGET_BYTES = 500 * MIB
"""Bytes that a segment aims at, unless told otherwise (Druid recommends 300 to 700 MB)."""
OVERSIZE_PERCENT = 150
"""A segment above this share of its target is too large (Druid lets ranges grow to 1.5 times their target)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """The cost of a group in bytes: the bytes it reads, and fixed costs per group and segment.

    Attributes:
        group_bytes: For the commit and the start of the work.
        segment_bytes: For opening an input.
    """

    group_bytes: int = 8 * MIB
    segment_bytes: int = MIB // 4

    def cost(self, segments: int, size_bytes: int) -> int:
        """Return what reading and writing so many segments and bytes costs."""
        return self.group_bytes + segments * self.segment_bytes + size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeRule:
    """The target of time chunks that are older than a given age."""

    older_than: Period
    target: CompactionTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """How a datasource is to be compacted.

    Raises:
        Invalid: Some targets have a segment granularity and others have none.

    Attributes:
        target: Of chunks that no age rule is about.
        age_rules: Youngest first: each is about what is older than it says, up to the next one.
        skip_offset: Chunks that end later than this before the end of the newest data are left alone; None: none are.
        slack: How many segments more than the target size asks for a chunk may have and be stable.
        input_bytes_max: A chunk with more is left alone (Druid's `inputSegmentSizeBytes`).
        task_cost_max: Larger tasks are split at chunk boundaries; in bytes of the cost model.
        task_cost_small: Neighbouring tasks below it become one.
        task_groups_max: At most so many groups are combined to one task.
        write_amplification_max: A chunk is not rewritten while compaction has written, or then would have, more than
            so many times what has arrived in it.
        priority: Among datasources: the higher one goes first.
    """

    target: CompactionTarget = field(
        default_factory=lambda: CompactionTarget(target_bytes=DEFAULT_TARGET_BYTES)
    )
    age_rules: tuple[AgeRule, ...] = ()
    skip_offset: Period | None = None
    slack: int = 1
    input_bytes_max: int = 100_000_000_000_000
    task_cost_max: int = 4 * DEFAULT_TARGET_BYTES
    task_cost_small: int = 64 * MIB
    task_groups_max: int = 100
    write_amplification_max: float = 20.0
    priority: int = 0
    cost: CostModel = field(default_factory=CostModel)

    def __post_init__(self) -> None:
        targets = (self.target, *(rule.target for rule in self.age_rules))
        if len({target.segment_granularity is None for target in targets}) > 1:
            raise Invalid(
                "age rules meet at the borders of time chunks: give all targets a segmentGranularity, or none"
            )
