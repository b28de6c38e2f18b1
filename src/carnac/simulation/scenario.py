"""A scenario: the cluster, the data that arrives, what is asked, and what happens to the servers.

Everything that a simulation does follows from a scenario and a seed. Times are counted in hours: hour 0 is when the
strategy under test takes over; history runs before it, in negative hours.
"""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import Field, model_validator

from carnac.core.time.intervals import parse_instant
from carnac.core.words import counted
from carnac.specs.base import InstantText, SpecModel, problem

Strategy: TypeAlias = Literal["cost", "legacy", "legacy-linear", "random"]

HOUR_MS = 3_600_000
HOURS_BY_GRANULARITY = {"hour": 1, "six_hour": 6, "eight_hour": 8, "day": 24, "week": 168}
SEGMENTS_MAX = 20_000_000
SERVERS_MAX = 5_000


class Tier(SpecModel):
    """Servers of one kind."""

    name: str = Field("main", min_length=1, description="Names the tier.")
    servers: int = Field(ge=1, le=SERVERS_MAX, description="Servers when the history starts.")
    disk_gb: float = Field(1_000, gt=0, description="Disk of each server, in GB (10⁹ bytes).")


class LoadRule(SpecModel):
    """How many copies of a datasource's segments a tier holds, and for how long."""

    tier: str = Field("main", description="The tier.")
    replicas: int = Field(1, ge=1, le=10, description="Copies, each on another server.")
    days: int = Field(90, ge=1, le=3_650, description="Days that a segment stays after it arrives.")


class Datasources(SpecModel):
    """Some datasources of one kind."""

    name: str = Field(min_length=1, description="Datasources are called `name-0`, `name-1`, …")
    count: int = Field(1, ge=1, le=1_000, description="Number of datasources.")
    granularity: Literal["hour", "six_hour", "eight_hour", "day", "week"] = Field(
        "hour", description="Length of a segment's interval, counted from the start of the history."
    )
    partitions: float = Field(
        1, gt=0, le=10_000, description="Segments per interval, as a mean over these datasources."
    )
    skew: float = Field(
        0, ge=0, le=5, description="The n-th datasource has partitions in proportion to n^-skew."
    )
    size_mb: float = Field(500, gt=0, description="Size of a segment, in MB.")
    popularity: float = Field(
        1,
        ge=0,
        description="Frequency of queries over these datasources, in proportion to the others.",
    )
    load: tuple[LoadRule, ...] = Field(
        (LoadRule(),),
        min_length=1,
        description="Load rules: the tiers that hold the segments, and for how long.",
    )


class Span(SpecModel):
    """A length of time that queries cover."""

    hours: int = Field(ge=1, le=87_600, description="The length.")
    weight: float = Field(1, gt=0, description="Frequency, in proportion to the other spans.")


class Queries(SpecModel):
    """The trace of queries: which datasource, how long, how far back."""

    count: int = Field(1_000, ge=1, le=100_000, description="Queries in the trace.")
    spans: tuple[Span, ...] = Field(
        (
            Span(hours=1, weight=2),
            Span(hours=6, weight=3),
            Span(hours=24, weight=4),
            Span(hours=72, weight=2),
            Span(hours=168, weight=1),
        ),
        min_length=1,
        description="Lengths of the intervals.",
    )
    mean_age_hours: float = Field(
        72, ge=0, description="Mean of the exponential law of how long ago the intervals ended."
    )


class ServerEvent(SpecModel):
    """Something that happens to servers of a tier."""

    at_hour: int = Field(description="When; before hour 0 it belongs to the history.")
    kind: Literal["add", "fail", "replace", "decommission"] = Field(
        description=(
            "`add` new servers, `fail`: servers are lost, `replace`: lost, with empty ones in their place, "
            "`decommission`: servers get nothing new and are emptied by moves."
        )
    )
    tier: str = Field("main", description="The tier.")
    servers: int = Field(1, ge=1, description="Number of servers.")


class History(SpecModel):
    """How the cluster came to be what it is at hour 0."""

    days: int = Field(30, ge=1, le=3_650, description="Days of arrivals before hour 0.")
    strategy: Strategy = Field("legacy", description="Strategy that placed and moved segments.")
    moves_per_hour: int = Field(100, ge=0, description="The throttle of each tier.")


class Scenario(SpecModel):
    """Everything that a simulation follows from, but the seed."""

    name: str = Field("scenario", min_length=1, description="Names the scenario.")
    start: InstantText = Field("2016-05-16", description="The instant of hour 0.")
    days: int = Field(7, ge=1, le=365, description="Days that are simulated after hour 0.")
    strategy: Strategy = Field(
        "cost", description="Strategy that places and moves segments from hour 0."
    )
    half_life_hours: float = Field(
        24, gt=0, description="Half-life of the cost function, in hours."
    )
    min_saving: float = Field(
        0.05,
        gt=0,
        description=(
            "With the exact cost a move must save more than this share of what a segment and a copy of itself on one "
            "server would cost each other."
        ),
    )
    moves_per_hour: int = Field(200, ge=0, description="The throttle of each tier.")
    plan_every_hours: int = Field(
        1,
        ge=1,
        le=168,
        description="Hours between two plans of moves from hour 0 on, with the throttle of so many hours.",
    )
    looks_per_move: int = Field(
        1,
        ge=1,
        le=100,
        description=(
            "Number of random segments that the old function may examine for each possible move; `cost` examines all."
        ),
    )
    reloads_per_hour: int = Field(
        0,
        ge=0,
        description="Number of lost copies that each tier loads again in an hour; 0: all at once.",
    )
    measure_every_hours: int = Field(
        6, ge=1, description="Hours between two measurements of the cluster."
    )
    history: History = Field(History(), description="The history before hour 0.")
    tiers: tuple[Tier, ...] = Field(min_length=1, description="The servers.")
    datasources: tuple[Datasources, ...] = Field(min_length=1, description="The data.")
    queries: Queries = Field(Queries(), description="The trace of queries.")
    events: tuple[ServerEvent, ...] = Field((), description="Events of the servers.")

    @property
    def history_hours(self) -> int:
        """Length of the history."""
        return self.history.days * 24

    @property
    def total_hours(self) -> int:
        """History and simulated time together."""
        return self.history_hours + self.days * 24

    @property
    def origin_ms(self) -> int:
        """The instant at which the history starts."""
        return parse_instant(self.start) - self.history_hours * HOUR_MS

    def servers_of(self, tier: Tier) -> int:
        """Return how many servers the tier ever has, those that are added later among them."""
        added = (e.servers for e in self.events if e.kind == "add" and e.tier == tier.name)
        return tier.servers + sum(added)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise problem("two tiers have one name; give each its own")
        kinds = [kind.name for kind in self.datasources]
        if len(set(kinds)) < len(kinds):
            raise problem("two groups of datasources have one name; give each its own")
        for tier in (
            *(r.tier for k in self.datasources for r in k.load),
            *(e.tier for e in self.events),
        ):
            if tier not in names:
                raise problem(f"there is no tier '{tier}'; the tiers are {', '.join(names)}")
        self._check_events()
        self._check_replicas()
        if not any(kind.popularity for kind in self.datasources):
            raise problem("no datasource is ever asked; give one a popularity above 0")
        return self

    def _check_events(self) -> None:
        low, high = -self.history_hours, self.days * 24
        for event in self.events:
            if not low <= event.at_hour < high:
                raise problem(
                    f"an event at hour {event.at_hour} is outside of the hours {low} to {high - 1}"
                )
        for tier in self.tiers:
            open_servers = tier.servers
            for event in sorted(self.events, key=lambda e: e.at_hour):
                if event.tier != tier.name:
                    continue
                if event.servers > open_servers and event.kind != "add":
                    raise problem(
                        f"{event.kind} {counted(event.servers, 'server')} of tier '{tier.name}' at hour "
                        f"{event.at_hour}: it has {open_servers} then"
                    )
                open_servers += {"add": 1, "replace": 0}.get(event.kind, -1) * event.servers
            if open_servers < 1:
                raise problem(f"tier '{tier.name}' ends without a server; let one stay")

    def _check_replicas(self) -> None:
        for kind in self.datasources:
            seen = [rule.tier for rule in kind.load]
            if len(set(seen)) < len(seen):
                raise problem(
                    f"datasources '{kind.name}' have two load rules for one tier; keep one"
                )
            for rule in kind.load:
                servers = next(tier.servers for tier in self.tiers if tier.name == rule.tier)
                if rule.replicas > servers:
                    raise problem(
                        f"datasources '{kind.name}' want {rule.replicas} replicas in tier '{rule.tier}', "
                        f"which has {counted(servers, 'server')}"
                    )
