"""Folders of other users are not trusted with a new store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from carnac import durable
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


def test_a_name_is_synced_once_by_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable, "sync", synced.append)
    durable.make_folders(tmp_path / "segments" / "edits" / "1")
    assert synced == [tmp_path.parent, tmp_path, tmp_path / "segments", tmp_path / "segments/edits"]
    synced.clear()
    durable.make_folders(tmp_path / "segments" / "edits" / "2")
    assert synced == [tmp_path / "segments/edits"], "the names above are on the disk"


def test_ours_and_the_administrators_are_trusted_and_what_is_not_there(tmp_path: Path) -> None:
    assert [find_stranger(one) for one in (tmp_path, Path("/"), tmp_path / "none")] == [None] * 3
