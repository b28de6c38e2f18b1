"""A signal in the middle of a commit is raised when it is known what became of it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from carnac.core.log.commits import CommitKind, LookupChange, Publication
from carnac.metadata import open_metadata
from carnac.unbroken import LEDGER, Handler, unbroken
from tests.support.clock import FakeClock, SequentialIds


class Ended(BaseException):
    """What SIGTERM raises here."""


def end(_number: int, _frame: FrameType | None) -> None:
    raise Ended


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, end)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Ended)]
)
def test_a_signal_waits_for_the_end_of_the_block(number: int, raised: type[BaseException]) -> None:
    done = []
    with pytest.raises(raised), unbroken() as from_here:  # noqa: PT012
        from_here()
        signal.raise_signal(number)
        done.append(1)
    assert done == [1]
    with pytest.raises(raised):
        signal.raise_signal(number)


def test_before_the_block_says_so_a_signal_is_raised_at_once() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), unbroken():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        done.append(1)
    assert done == []


def test_a_block_inside_of_another_holds_for_both() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), unbroken():  # noqa: PT012
        with unbroken() as from_here:
            from_here()
            signal.raise_signal(signal.SIGINT)
        done.append(1)
    assert done == [1]


def test_a_second_signal_is_raised_at_once() -> None:
    done = []
    with pytest.raises(Ended), unbroken() as from_here:  # noqa: PT012
        from_here()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        done.append(1)
    assert done == []
    assert signal.getsignal(signal.SIGTERM) is end


def test_a_signal_that_comes_while_the_handlers_are_put_back_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyboardInterrupt), unbroken() as from_here:  # noqa: PT012
        from_here()
        put_back = _signal.signal

        def interrupted(number: int, handler: Handler) -> object:
            monkeypatch.setattr(_signal, "signal", put_back)
            signal.raise_signal(signal.SIGINT)
            return put_back(number, handler)

        monkeypatch.setattr(_signal, "signal", interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is end


def test_other_threads_hold_nothing_back() -> None:
    def run() -> None:
        with unbroken() as from_here:
            from_here()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is end


def lookup(name: str) -> Publication:
    change = LookupChange(name=name, mapping={"a": "b"})
    return Publication(kind=CommitKind.LOOKUP, changes=(), lookups=(change,))


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO commits", "COMMIT"])
def test_a_publication_that_is_interrupted_says_so_and_is_in_the_ledger(
    tmp_path: Path, statement: str
) -> None:
    said: list[str] = []

    def interrupt(sql: str) -> None:
        if sql.upper().lstrip().startswith(statement.upper()) and not said:
            said.append(sql)
            signal.raise_signal(signal.SIGINT)

    url = f"sqlite:///{tmp_path}/metadata.db"
    open_metadata(url, clock=FakeClock(), ids=SequentialIds()).close()
    store = open_metadata(url, clock=FakeClock(), ids=SequentialIds(), on_statement=interrupt)
    mark = len(LEDGER.revisions)
    with pytest.raises(KeyboardInterrupt) as caught:
        store.publish(lookup("x"))
    assert said, "the statement was met"
    notes = getattr(caught.value, "__notes__", [])
    if store.head().revision:
        assert notes == ["revision 1 was published before the interruption"]
        assert list(LEDGER.since(mark)) == [1]
    else:
        assert (notes, list(LEDGER.since(mark))) == ([], [])
    store.close()
