"""Files that were found intact: what is remembered, for how long, and how the reading of them ends."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from carnac.errors import Corrupt
from carnac.query.intact import IntactFiles, Interrupted, Located
from tests.unit.query.test_cache import NEVER, segment


@pytest.fixture
def files(tmp_path: Path) -> list[Located]:
    found = []
    for number in range(4):
        place = tmp_path / f"s{number}"
        place.write_bytes(bytes([number]) * 100)
        found.append((segment(number), place))
    return found


def unread(intact: IntactFiles, files: list[Located]) -> list[str]:
    """Which of the files would be read again."""
    return [one.segment_id for one, place in files if not intact._is_known(one, place)]


def test_what_was_found_intact_is_not_read_again(files: list[Located]) -> None:
    intact = IntactFiles(threads=2)
    assert unread(intact, files) == ["s0", "s1", "s2", "s3"]
    intact.check(files, NEVER)
    assert unread(intact, files) == []


def test_only_so_many_are_remembered_and_the_newest_ones(files: list[Located]) -> None:
    intact = IntactFiles(threads=1, files_max=2)
    intact.check(files, NEVER)
    assert unread(intact, files) == ["s0", "s1"]


def test_nothing_is_read_on_for_a_query_that_was_stopped(files: list[Located]) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        IntactFiles().check(files, stop)


def test_another_record_of_the_same_file_is_compared_anew(files: list[Located]) -> None:
    intact = IntactFiles()
    intact.check(files, NEVER)
    (one, place), *_ = files
    other = replace(one, checksum=f"sha256:{hashlib.sha256(b'other').hexdigest()}")
    with pytest.raises(Corrupt, match="s0"):
        intact.check([(other, place)], NEVER)


@pytest.mark.parametrize("checksum", ["", "md17:00", "sha256"])
def test_a_record_whose_checksum_is_damaged_is_corrupt(files: list[Located], checksum: str) -> None:
    (one, place), *_ = files
    with pytest.raises(Corrupt, match="s0"):
        IntactFiles().check([(replace(one, checksum=checksum), place)], NEVER)
