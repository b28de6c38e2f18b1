"""Mailboxes: two processes' places in one folder, here in one process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.metadata.mailboxes import BOX_BYTES, Mailboxes, Request, Ring

SOON_MS, AT_ONCE_MS = 30_000, 0


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "metadata.db"
    path.touch()
    return path


@pytest.fixture
def guest(database: Path) -> Iterator[Mailboxes]:
    yield from _open(database)


@pytest.fixture
def holder(database: Path) -> Iterator[Mailboxes]:
    yield from _open(database)


@pytest.fixture
def folder(guest: Mailboxes) -> Path:
    return guest.folder


def _open(database: Path) -> Iterator[Mailboxes]:
    boxes = Mailboxes(database)
    yield boxes
    boxes.close()


def only(boxes: Mailboxes) -> Request:
    (request,) = boxes.collect(10)
    return request


def test_a_request_arrives_and_its_answer_comes_back(guest: Mailboxes, holder: Mailboxes) -> None:
    assert holder.collect(10) == [], "there is no folder yet"
    assert guest.post(b"please")
    request = only(holder)
    assert request.text == b"please"
    assert not holder.has_requests()
    guest.post(b"please")
    assert holder.has_requests()
    request = only(holder)
    holder.ring(request, Ring.ANSWERED, b"done")
    assert guest.wait(SOON_MS) == (Ring.ANSWERED, b"done")
    assert guest.wait(AT_ONCE_MS) is None


def test_requests_are_collected_in_order_and_no_more_than_asked_for(
    database: Path, holder: Mailboxes
) -> None:
    guests = [Mailboxes(database) for _ in range(5)]
    for number, one in enumerate(guests):
        assert one.post(f"{number}".encode())
    assert [request.text for request in holder.collect(3)] == [b"0", b"1", b"2"]
    assert holder.collect(0) == []
    assert [request.text for request in holder.collect(3)] == [b"3", b"4"]
    for one in guests:
        one.close()


def test_what_was_withdrawn_is_not_collected_and_never_answered(
    guest: Mailboxes, holder: Mailboxes
) -> None:
    guest.post(b"first")
    guest.withdraw()
    assert holder.collect(10) == []
    guest.post(b"second")
    second = only(holder)
    guest.withdraw()
    guest.post(b"third")
    holder.ring(second, Ring.ANSWERED, b"too late")
    assert guest.wait(AT_ONCE_MS) is None
    third = only(holder)
    assert third.text == b"third"
    holder.ring(third, Ring.ANSWERED, b"in time")
    assert guest.wait(SOON_MS) == (Ring.ANSWERED, b"in time")


def test_an_answer_that_was_overwritten_is_no_answer(guest: Mailboxes, holder: Mailboxes) -> None:
    guest.post(b"please")
    holder.ring(only(holder), Ring.ANSWERED, b"done")
    assert guest._own is not None
    guest._own._memory[BOX_BYTES // 2] ^= 1
    assert guest.wait(SOON_MS) == (Ring.BY_YOURSELF, b"")


def test_what_is_too_long_is_not_asked_and_not_answered(
    guest: Mailboxes, holder: Mailboxes
) -> None:
    assert not guest.post(b"x" * BOX_BYTES)
    assert holder.collect(10) == []
    guest.post(b"please")
    holder.ring(only(holder), Ring.ANSWERED, b"x" * BOX_BYTES)
    assert guest.wait(SOON_MS) == (Ring.BY_YOURSELF, b"")


def test_who_is_woken_asks_on(guest: Mailboxes, holder: Mailboxes) -> None:
    guest.post(b"please")
    holder.wake_one()
    assert guest.wait(SOON_MS) == (Ring.LOOK, b"")
    assert only(holder).text == b"please"


def test_a_folder_that_others_can_write_is_not_used(
    database: Path, folder: Path, guest: Mailboxes, holder: Mailboxes
) -> None:
    guest.post(b"please")
    folder.parent.chmod(0o770)
    assert holder.collect(10) == [], "one who can write there would have anything published"
    assert not Mailboxes(database).post(b"please")


def test_where_no_folder_can_be_made_nothing_is_asked(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(database))
    assert not Mailboxes(database).post(b"please")


def test_another_file_has_another_folder(tmp_path: Path, guest: Mailboxes) -> None:
    other = tmp_path / "other.db"
    other.touch()
    guest.post(b"please")
    boxes = Mailboxes(other)
    assert boxes.collect(10) == []
    assert boxes.folder != guest.folder
    again = tmp_path / "link.db"
    again.hardlink_to(tmp_path / "metadata.db")
    assert only(Mailboxes(again)).text == b"please", "it is the file that counts, not its name"


def test_nothing_is_left_when_the_last_one_goes_and_others_can_come_again(
    folder: Path, guest: Mailboxes, holder: Mailboxes
) -> None:
    guest.post(b"please")
    only(holder)
    guest.close()
    assert not folder.exists()
    guest.post(b"again")
    assert only(holder).text == b"again", "the inbox is another one"


def test_an_inbox_that_nobody_empties_fills_up_and_is_no_way_then(guest: Mailboxes) -> None:
    sent = 0
    while guest.post(b"please"):
        sent += 1
    assert sent > 1000


def test_boxes_of_those_who_are_gone_are_removed_and_others_stay(
    database: Path, folder: Path, guest: Mailboxes, holder: Mailboxes
) -> None:
    guest.post(b"please")
    pid = os.fork()
    if pid == 0:  # asks, and dies without a word
        Mailboxes(database).post(b"gone")
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(folder.glob("*.box"))) == 2
    holder.post(b"I am new here")
    assert len(list(folder.glob("*.box"))) == 2
    assert [request.text for request in holder.collect(10)] == [b"please", b"I am new here"]
    guest.close()
    assert len(list(folder.glob("*.box"))) == 1


def test_an_answer_to_one_who_is_gone_is_nothing(
    folder: Path, guest: Mailboxes, holder: Mailboxes
) -> None:
    guest.post(b"please")
    request = only(holder)
    guest.close()
    holder.ring(request, Ring.ANSWERED, b"done")
    holder.ring(request, Ring.ANSWERED, b"done")
    assert not list(folder.glob("*.b*"))


def test_of_a_database_elsewhere_the_name_counts_and_a_folder_without_boxes_goes(
    database: Path,
) -> None:
    one, same, other = Mailboxes("host/db"), Mailboxes("host/db"), Mailboxes("host/other")
    assert one.make_folder() == same.folder != other.folder
    (one.folder / "lock").touch()
    assert same.post(b"please")
    assert only(one).text == b"please"
    one.close()
    assert same.folder.exists(), "somebody has a box in it"
    same.close()
    assert not same.folder.exists()


def test_no_folder_is_made_where_others_can_write(database: Path) -> None:
    boxes = Mailboxes("host/db")
    boxes.folder.parent.mkdir(mode=0o700)
    boxes.folder.parent.chmod(0o777)
    with pytest.raises(PermissionError, match="not this user's alone"):
        boxes.make_folder()
    assert not boxes.folder.exists()
