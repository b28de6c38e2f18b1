"""Real processes: three historicals with one copy of each segment, one of which is killed while segments are replaced.

Flights of three months lie in segments of a day. They are replaced by segments of a month, which is taken back: so
taking that back again is a replacement in one commit that needs no Spark. It is done once for each moment of death,
while the broker is asked all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.replacement import AnswerKind, Course, Death, Second
from carnac.cli.demo.cluster.checks import Judged, judge
from carnac.cli.demo.cluster.load import Load, Sample
from carnac.cli.demo.cluster.processes import Servers, opened_in, wait_until
from carnac.cli.demo.flights import DATASOURCE, load_flights, make_spec, of_month
from carnac.cli.tables import number_text
from carnac.errors import CarnacError
from carnac.flight.client import FlightSegmentServer
from carnac.ports.serving import HoldState, Role

if TYPE_CHECKING:
    from carnac.cli.session import Session
    from carnac.metadata.store import MetadataStore
    from carnac.store import Store

WAY = "real processes: rollout, cold reads"
MONTHS = 3
HISTORICALS = 3
CAPACITY_BYTES = 2 << 30
TOTALS, PART = 0, 2
"""Indexes into `load.QUESTIONS`: the one without groups, and the one about some of the days."""
ONE_COPY = '[{"type": "loadForever", "tieredReplicants": {"_default_tier": 1}}]'
SECONDS = 24
PUBLISH_MS = 4_000
LOOK_MS = 100
ASK_TIMEOUT_MS = 1_000
SETTLE_TIMEOUT_MS = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The segments that running historicals had loaded at an instant, and the servers known to be alive."""

    at_ms: int
    loaded: Mapping[str, Set[str]]
    known: Set[str]

    @property
    def all_loaded(self) -> Set[str]:
        return {one for held in self.loaded.values() for one in held}


@dataclass(slots=True, kw_only=True)
class _Trial:
    """One replacement as it was written down. Times are epoch milliseconds."""

    death: Death
    started_ms: int
    old: Set[str]
    new: Set[str]
    rows: int
    revision: int = 0
    published_ms: int = 0
    died_ms: int | None = None
    victim: str = ""
    looks: list[_Look] = field(default_factory=list)
    samples: Sequence[Sample] = ()


@dataclass(slots=True, kw_only=True)
class RealReplacements:
    """The replacements, in a folder.

    Attributes:
        say: Shows a line for each event.
        judged: Every query and its verdict; filled when the run has ended.
    """

    session: Session
    folder: Path
    say: Callable[[str], None]
    judged: list[Judged] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether every query was answered, and with what its revision holds."""
        return bool(self.judged) and all(one.verdict == "right" for one in self.judged)

    def run(self) -> tuple[Course, ...]:
        """Return a course for each moment of death.

        Raises:
            Unavailable: A server did not start, or the cluster did not settle.
        """
        with ExitStack() as steps:
            opened = steps.enter_context(
                opened_in(self.folder, self.session.settings, self.session.clock)
            )
            store, metadata, servers = opened.store, opened.metadata, opened.servers
            trials = _Trials(run=self, store=store, metadata=metadata, servers=servers)
            steps.callback(trials.close)
            trials.start()
            found = [trials.play(death) for death in Death]
            servers.close()
            self.say("holding the answers against their revisions")
            courses = tuple(self._course(store, trial) for trial in found)
            right = sum(one.verdict == "right" for one in self.judged)
            self.say(f"{number_text(right)} of {number_text(len(self.judged))} answers are right")
            return courses

    def _course(self, store: Store, trial: _Trial) -> Course:
        judged = judge(store, trial.samples)
        self.judged += judged

        def second(at_ms: int | None) -> int | None:
            return None if at_ms is None else (at_ms - trial.started_ms) // 1000

        news = (one.at_ms for one in trial.samples if (one.revision or 0) >= trial.revision)
        dropped = (one.at_ms for one in trial.looks if not one.all_loaded & trial.old)
        noticed = (
            one.at_ms
            for one in trial.looks
            if trial.died_ms is not None
            and one.at_ms > trial.died_ms
            and trial.victim not in one.known
        )
        by_second: list[list[Judged]] = [[] for _ in range(SECONDS)]
        for one in judged:
            at = (one.sample.at_ms - trial.started_ms) // 1000
            if 0 <= at < SECONDS:
                by_second[at].append(one)
        return Course(
            way=WAY,
            death=trial.death.value,
            seconds=[_second(found, trial) for found in by_second],
            published_s=second(trial.published_ms),
            switched_s=second(next(news, None)),
            dropped_s=second(next(dropped, None)),
            died_s=second(trial.died_ms),
            noticed_s=second(next(noticed, None)),
        )


def _second(judged: Sequence[Judged], trial: _Trial) -> Second:
    """Return the worst that a query of a second saw; nothing was answered in a second without a query."""
    verdicts = {one.verdict for one in judged}
    is_new = any((one.sample.revision or 0) >= trial.revision for one in judged)
    if not judged or "failed" in verdicts:
        return Second(kind=AnswerKind.REFUSED, share=0.0, is_new=is_new)
    if verdicts != {"right"}:
        return Second(kind=AnswerKind.SHORT, share=_share(judged, trial), is_new=is_new)
    if any(_is_cold(one.sample, trial) for one in judged):
        return Second(kind=AnswerKind.COLD, is_new=is_new)
    return Second(kind=AnswerKind.NEW if is_new else AnswerKind.OLD, is_new=is_new)


def _share(judged: Sequence[Judged], trial: _Trial) -> float:
    """Return the least share of the flights that an answer of a second counted, as far as its question says."""
    counted = [_flights(one.sample) for one in judged]
    return min((count / trial.rows for count in counted if count is not None), default=0.0)


def _flights(sample: Sample) -> int | None:
    """Return how many flights an answer counts in all; None: its question is about a part of them."""
    if sample.question == PART:
        return None
    column = 0 if sample.question == TOTALS else 1
    counts = [row[column] for row in sample.rows]
    return sum(count for count in counts if isinstance(count, int))


def _is_cold(sample: Sample, trial: _Trial) -> bool:
    """Whether no historical that ran had loaded something that the answer's revision needs, at the last look before."""
    needed = trial.new if (sample.revision or 0) >= trial.revision else trial.old
    before = [one for one in trial.looks if one.at_ms <= sample.at_ms]
    return bool(before) and not before[-1].all_loaded >= needed


@dataclass(slots=True, kw_only=True)
class _Trials:
    """The trials on one cluster."""

    run: RealReplacements
    store: Store
    metadata: MetadataStore
    servers: Servers
    _ids: dict[str, str] = field(default_factory=dict)
    _clients: dict[str, FlightSegmentServer] = field(default_factory=dict)
    _broker: str = ""

    def start(self) -> None:
        """Load, replace, take that back, and start all servers."""
        import pyarrow as pa

        flights = load_flights()
        spec = {key: value for key, value in make_spec(Path()).items() if key != "input"}
        months = [of_month(flights, month) for month in range(1, 1 + MONTHS)]
        for rows in months:
            self.store.append(DATASOURCE, rows, spec=spec)
        self.run.say("three months of flights are replaced by themselves, and that is taken back")
        by_month = {"segmentGranularity": "month", "queryGranularity": "none"}
        self.store.ingest(
            {**spec, "granularitySpec": by_month, "mode": "replace"}, pa.concat_tables(months)
        )
        self.store.revert(self.store.head().revision)
        self.metadata.put_rules("_default", ONE_COPY)
        self.run.say(
            "1 coordinator, 1 broker and 3 historicals start, with one copy of each segment"
        )
        self.servers.start("coordinator", Role.COORDINATOR)
        for number in range(1, HISTORICALS + 1):
            self._start_historical(f"historical-{number}")
        self._broker = self.servers.start("broker", Role.BROKER).url

    def play(self, death: Death) -> _Trial:
        """Replace, kill at the moment, watch; then put all back as it was."""
        clock = self.run.session.clock
        old = self._visible()
        self._settle(old)
        load = Load(self._broker, clock)
        load.start()
        rows = sum(one.segment.rows for one in self.store.segments(DATASOURCE))
        trial = _Trial(death=death, started_ms=clock.now_ms(), old=old, new=frozenset(), rows=rows)
        try:
            self._watch(trial, trial.started_ms + PUBLISH_MS)
            self.store.revert(self.store.head().revision)
            trial.published_ms = clock.now_ms()
            trial.revision = self.store.head().revision
            trial.new = self._visible()
            if death is Death.LOADING:
                self._kill("historical-1", trial)
            self._watch(trial, trial.started_ms + SECONDS * 1000)
        finally:
            trial.samples = load.stop()
        if trial.victim:
            self._start_historical(self._name_of(trial.victim))
        self._settle(trial.new)
        self.store.revert(trial.revision)
        return trial

    def close(self) -> None:
        """Close what looks at historicals."""
        for name in list(self._clients):
            self._clients.pop(name).close()

    def _watch(self, trial: _Trial, until_ms: int) -> None:
        clock = self.run.session.clock
        while clock.now_ms() < until_ms:
            look = self._look()
            trial.looks.append(look)
            if trial.new and not trial.victim and self._is_time(trial, look):
                holders = [name for name, held in look.loaded.items() if held & trial.new]
                if holders:
                    self._kill(holders[0], trial)
            clock.sleep_ms(LOOK_MS)

    def _is_time(self, trial: _Trial, look: _Look) -> bool:
        told = self.metadata.told()
        is_told = told is not None and told.revision >= trial.revision
        return is_told and (trial.death is Death.SWITCHED or not look.all_loaded & trial.old)

    def _kill(self, name: str, trial: _Trial) -> None:
        self.run.say(f"{name} is killed {trial.death.value}")
        trial.died_ms = self.run.session.clock.now_ms()
        trial.victim = self._ids[name]
        self.servers.kill(name)
        self._clients.pop(name).close()

    def _look(self) -> _Look:
        at_ms = self.run.session.clock.now_ms()
        loaded: dict[str, Set[str]] = {}
        for name, client in self._clients.items():
            with suppress(CarnacError):  # the next look is soon
                holdings = client.inventory().holdings
                loaded[name] = {one.segment_id for one in holdings if one.state is HoldState.LOADED}
        known = {one.server_id for one in self.metadata.servers(Role.HISTORICAL)}
        return _Look(at_ms=at_ms, loaded=loaded, known=known)

    def _settle(self, needed: Set[str]) -> None:
        """Wait until brokers plan on the head, and historicals have loaded exactly what it needs."""
        head = self.store.head().revision

        def is_calm() -> bool | None:
            planned = [one.planning_revision or 0 for one in self.metadata.servers(Role.BROKER)]
            is_planned = bool(planned) and min(planned) >= head
            return True if is_planned and self._look().all_loaded == needed else None

        what = f"the servers to hold revision {head}"
        wait_until(self.run.session.clock, is_calm, SETTLE_TIMEOUT_MS, what)

    def _visible(self) -> Set[str]:
        return {one.entry.segment_id for one in self.store.segments(DATASOURCE)}

    def _name_of(self, server_id: str) -> str:
        return next(name for name, known in self._ids.items() if known == server_id)

    def _start_historical(self, name: str) -> None:
        folder = self.run.folder / name
        options = ["--folder", str(folder), "--capacity", str(CAPACITY_BYTES)]
        server = self.servers.start(name, Role.HISTORICAL, options=options)
        self._ids[name] = server.server_id
        self._clients[name] = FlightSegmentServer(server.url, call_timeout_ms=ASK_TIMEOUT_MS)
