"""Every argument of every public method, given what nobody should give: one sentence, never an error from within.

The methods are taken from the classes, so a new one is asked by being there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_records
from carnac.config import Settings
from carnac.core.arguments import shape_of
from carnac.core.compaction.control.states import ChunkState
from carnac.core.compaction.plan.planning import CompactionPlan
from carnac.core.log.positions import OffsetRange
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.model import RetryPolicy
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Invalid
from carnac.overlord import TaskService
from carnac.overlord.compactor.service import CompactionService
from carnac.ports import Lease
from carnac.store import Store
from carnac.store.compacting.reports import CompactionReport
from carnac.store.results import Result
from scripts.docs.python_page import VALUES
from tests.overlords import DELETE, Bench
from tests.support.clock import FakeClock
from tests.unit.store.events import NOW_MS, append, rows_of, spec

NOBODY = object()
WRONG: tuple[object, ...] = (
    NOBODY,
    5,
    -1,
    10**30,
    2.5,
    None,
    True,
    "",
    " ",
    "nope",
    "a\0b",
    "\ud800",
    b"events",
    [],
    [5],
    [None],
    ["nope", 5],
    [object()],
    {},
    {5: object()},
    ("a",),
    ("a", "b", "c"),
    (5, 5),
)
STREAMED = {"dataSource": "events", "timestampSpec": {"column": "t"}, "dimensions": ["d"]}
GIVEN: Mapping[str, object] = {
    "datasource": "events",
    "groups": (),
    "name": "good",
    "mapping": {"a": "b"},
    "at": 1,
    "text": "SELECT 1",
    "after": 0,
    "first": 0,
    "payload": DELETE,
    "retention_ms": 0,
    "source": {"dataSource": "events"},
    "task_id": "over",
    "at_ms": 0,
    "failures": 1,
    "where": "id > 5",
    "offsets": OffsetRange(writer="w", end={"s": "1"}),
}
"""What a method must be given, in order to come to the argument that is wrong."""
FOR_ONE: Mapping[str, Mapping[str, object]] = {
    "untag": {"name": "there"},
    "ingest": {"spec": spec(), "rows": rows_of([(2, 2)])},
    "append": {"rows": rows_of([(2, 2)]), "spec": spec()},
    "stream": {"spec": dict(STREAMED), "events": object(), "writer": "w"},
    "contains": {"other": Interval(0, 1)},
    "overlaps": {"other": Interval(0, 1)},
    "wait": {"timeout_ms": 0},
}


@dataclass
class World:
    """One of each thing that people get, with what belongs to it."""

    store: Store
    bench: Bench
    service: CompactionService

    def owner(self, kind: type) -> object:
        """Return the one of a class."""
        interval = Interval(0, 10)
        found: dict[type, object] = {
            Store: self.store,
            TaskService: self.bench.tasks,
            CompactionService: self.service,
            CompactionReport: CompactionReport(groups=(), seconds=0),
            Interval: interval,
            RetryPolicy: RetryPolicy(),
        }
        if kind is CompactionPlan:
            return self.service.plan("events")
        return found[kind]


INTERVAL_WORDS = "an interval (a text like '2013-01-01/2013-02-01' or a carnac.Interval)"
KINDS = (
    Store,
    TaskService,
    CompactionService,
    CompactionReport,
    CompactionPlan,
    Interval,
    RetryPolicy,
)
"""What has public methods that take arguments (`test_no_other_value_takes_arguments`)."""


def methods_of(kind: type) -> dict[str, Callable[..., object]]:
    return {
        name: member
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


ARGUMENTS = [
    pytest.param(kind, method, name, id=f"{kind.__name__}.{method}({name})")
    for kind in KINDS
    for method, member in methods_of(kind).items()
    for name in list(inspect.signature(member).parameters)[1:]
    if name != "rows"  # the real pipeline looks at them (tests/unit/jobs/test_frames.py)
]


@pytest.fixture
def world(store: Store, folder: Path) -> Iterator[World]:
    append(store, (1, 1))
    store.tag("there")
    records = open_records(settings=Settings(store=str(folder)), clock=FakeClock(NOW_MS))
    with closing(Bench()) as bench, CompactionService(records, FakeClock(NOW_MS)) as service:
        bench.tasks.submit({**DELETE, "id": "over"})
        bench.tasks.cancel("over")
        yield World(store=store, bench=bench, service=service)


@pytest.mark.parametrize(("kind", "method", "name"), ARGUMENTS)
def test_what_is_given_by_mistake_is_one_sentence(
    world: World, kind: type, method: str, name: str
) -> None:
    call = getattr(world.owner(kind), method)
    signature = inspect.signature(call)
    known = {**GIVEN, **FOR_ONE.get(method, {})}
    needed = {
        other: known[other]
        for other, parameter in signature.parameters.items()
        if other != name
        and (parameter.default is parameter.empty or other in FOR_ONE.get(method, {}))
    }
    for value in WRONG:
        revision = world.store.head().revision
        try:
            given = call(**{**needed, name: value})
            list(given) if inspect.isgenerator(given) else None
        except CarnacError:
            assert world.store.head().revision == revision, "refused before anything was done"
        else:
            assert value is not NOBODY, "this fits no argument"


def test_no_other_value_takes_arguments() -> None:
    taking = {
        kind
        for kind in (Store, Result, TaskService, CompactionService, *VALUES)
        for member in methods_of(kind).values()
        if len(inspect.signature(member).parameters) > 1
    }
    assert taking <= {*KINDS, ChunkState, Leadership, Lease}, "ask the new ones, too"


@pytest.mark.parametrize(
    ("hint", "fitting", "other", "words"),
    [
        ("str", "a", 5, "a text"),
        ("int", 0, -1, "a whole number from 0 to 9223372036854775807"),
        ("int", 7, True, "a whole number from 0 to 9223372036854775807"),
        ("bool", False, 0, "True or False"),
        ("int | str | datetime | None", None, 2.5, "a revision, a time or the name of a tag"),
        ("Sequence[str] | None", ["a"], "a", "a list (a text each)"),
        ("Sequence[str]", (), ["a", 5], "a list (a text each)"),
        ("Sequence[object]", [object()], 5, "a list"),
        ("tuple[str, str] | None", ("a", "b"), ("a",), "2 values (a text, a text)"),
        ("Mapping[str, str]", {}, [], "a mapping"),
        ("Callable[[int, int], None] | None", print, 5, "a function"),
        (
            "Interval | str | None",
            Interval(0, 1),
            5,
            "an interval (a text like '2013-01-01/2013-02-01' or a carnac.Interval)",
        ),
        ("RetryPolicy", RetryPolicy(), Interval(0, 1), "a RetryPolicy"),
    ],
)
def test_an_annotation_says_what_fits(
    hint: str, fitting: object, other: object, words: str
) -> None:
    shape = shape_of(hint)
    assert shape.words == words
    assert shape.fits(fitting)
    assert not shape.fits(other)


def test_the_sentence_names_method_argument_and_value(store: Store) -> None:
    with pytest.raises(Invalid) as caught:
        store.plan_compaction("events", target=5)  # type: ignore[arg-type]
    assert caught.value.message == "plan_compaction(target=…) takes a CompactionTarget, not 5"
    with pytest.raises(
        Invalid, match=r"^compact\(groups=…\) takes a list \(a CompactionGroup each\)"
    ):
        store.compact([range(1_000_000)])  # type: ignore[list-item]
    with pytest.raises(Invalid) as caught:
        store.sql("SELECT 1", parameters="x" * 10_000)
    assert len(caught.value.message) < 200, "however long the value is"
