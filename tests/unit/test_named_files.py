"""Files that a person names: whole or not at all, and never a store's own."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import carnac
from carnac.cli.demo.story import prepare_folder
from carnac.console.balance_story import make_folder
from carnac.console.export import write_chart
from carnac.errors import DiskFull, Invalid, NotFound
from carnac.named_files import make_named_folder, named_file, open_named, write_named

CHART = {"mark": "point", "data": {"values": []}}
Write = Callable[[Path], object]
WRITES: list[Write] = [
    lambda place: write_named(place, "new"),
    open_named,
    lambda place: write_chart(CHART, place),
]


@pytest.mark.parametrize("write", WRITES)
def test_a_store_s_file_is_refused_by_any_name(tmp_path: Path, write: Write) -> None:
    carnac.open(tmp_path / "store", create=True).close()
    metadata, link = tmp_path / "store" / "metadata.db", tmp_path / "a.svg"
    link.symlink_to(metadata)
    before = metadata.read_bytes()
    with pytest.raises(Invalid, match="where nothing is written over"):
        write(link)
    assert metadata.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.svg", "store"]


@pytest.mark.parametrize("write", WRITES)
def test_another_file_is_replaced_and_a_folder_is_not(tmp_path: Path, write: Write) -> None:
    place = tmp_path / "a.svg"
    place.write_text("old")
    file = write(place)
    if hasattr(file, "close"):
        file.close()
    assert place.read_text() != "old"
    (tmp_path / "b.svg").mkdir()
    with pytest.raises(Invalid, match="is a folder"):
        write(tmp_path / "b.svg")
    with pytest.raises(NotFound, match="there is no folder"):
        write(tmp_path / "no" / "a.svg")
    with pytest.raises(Invalid, match="too long for a file"):
        write(tmp_path / f"{'9' * 300}.svg")


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "a.svg"
    place.write_text("old")

    def fail() -> None:
        with named_file(place, overwrite=True) as file:
            file.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskFull):
        fail()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.svg", "old")]
    with pytest.raises(Invalid, match="is there already"):
        write_named(place, "new", overwrite=False)
    assert place.read_text() == "old"


@pytest.mark.parametrize("make", [make_named_folder, make_folder, prepare_folder])
@pytest.mark.parametrize("place", ["/proc/x", "file/x"])
def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, make: Callable[[Path], None], place: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match=f"{place} cannot be made"):
        make(tmp_path / place)
    make(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder").is_dir()


def test_a_folder_that_takes_no_files_is_not_said_to_be_missing() -> None:
    with pytest.raises(
        Invalid, match=r"^/proc/x\.csv cannot be written there; name another place$"
    ):
        write_named(Path("/proc/x.csv"), "new")
