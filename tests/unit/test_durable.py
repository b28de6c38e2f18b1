"""Folders of other users are not trusted with a new store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_store
from carnac.config import Settings
from carnac.durable import find_stranger
from carnac.errors import Invalid

OTHER, NOBODY = 1234, 65_534


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator gives folders away")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_store_is_not_made_in_a_folder_of_another_user(kind: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        refuse(kind, Path(name) / "real", Path(name) / "store")


def refuse(kind: str, folder: Path, place: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    if kind == "link":
        place.symlink_to(folder)
        os.chown(place, OTHER, OTHER, follow_symlinks=False)
    else:
        place = folder
        os.chown(folder, OTHER, OTHER)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(Invalid, match=rf"folder of another user \(uid {OTHER}\)"):
            open_store(place, create=True, settings=Settings())
    finally:
        os.seteuid(0)
    assert list(folder.iterdir()) == []


def test_ours_and_the_administrators_are_trusted_and_what_is_not_there(tmp_path: Path) -> None:
    assert [find_stranger(one) for one in (tmp_path, Path("/"), tmp_path / "none")] == [None] * 3
