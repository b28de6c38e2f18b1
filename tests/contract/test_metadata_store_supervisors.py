"""One behaviour for every metadata store: specs of supervisors, and those that were before them."""

from __future__ import annotations

from carnac.metadata.records.stream_records import VERSIONS_KEPT
from tests.contract.conftest import Store


def test_the_newest_spec_of_each_supervisor_is_in_force(store: Store) -> None:
    assert store.supervisors() == ()
    first = store.put_supervisor("b", '{"a": 1}')
    store.put_supervisor("a", "{}")
    second = store.put_supervisor("b", '{"a": 2}')
    assert second.number > first.number
    assert [(one.supervisor_id, one.spec) for one in store.supervisors()] == [
        ("a", "{}"),
        ("b", '{"a": 2}'),
    ]
    assert [one.spec for one in store.supervisor_history()] == ['{"a": 2}', "{}", '{"a": 1}']


def test_one_that_ended_is_known_as_such(store: Store) -> None:
    store.put_supervisor("a", "{}")
    ended = store.put_supervisor("a", "")
    assert store.supervisors() == (ended,)
    assert ended.is_terminated
    assert not store.put_supervisor("a", "{}").is_terminated


def test_history_has_an_end(store: Store) -> None:
    for number in range(VERSIONS_KEPT + 3):
        store.put_supervisor("a", str(number))
    store.put_supervisor("b", "{}")
    found = [one.spec for one in store.supervisor_history() if one.supervisor_id == "a"]
    assert len(found) == VERSIONS_KEPT
    assert found[0] == str(VERSIONS_KEPT + 2)
