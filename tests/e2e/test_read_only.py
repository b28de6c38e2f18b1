"""A store on a read-only place: everything that reads works, and what would write says why it cannot."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from carnac.bootstrap.store import METADATA_FILE, open_store
from carnac.ports.serving import Role
from tests.bound import run_bound
from tests.e2e.cli import ROWS, append_rows

READING = (
    ("sql", "SELECT count(*) AS n, sum(delay) AS s FROM flights", "--json"),
    ("sql", "SELECT count(*) AS n FROM flights", "--at", "1", "--json"),
    ("log", "--json"),
    ("show", "2", "--json"),
    ("diff", "1", "3", "--json"),
    ("datasources", "--json"),
    ("segments", "flights", "--json"),
    ("chunks", "flights", "--json"),
    ("late", "flights", "--json"),
    ("tags", "--json"),
    ("lookups", "list", "--json"),
    ("locks", "--json"),
    ("task", "list", "--json"),
    ("verify", "--json"),
    ("gc", "--dry-run", "--json"),
)
WRITING = (
    ("tag", "mine"),
    ("delete", "flights", "--interval", "2013-01-01/2013-01-02"),
    ("revert", "3"),
    ("gc",),
    ("overlord", "--port", "0"),
    *(("serve", "--port", "0", "--role", str(role)) for role in Role),
)
MANY = """
import contextlib, io, json, sys
from carnac.cli import main

found = []
for args in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(args)
    found.append([code, out.getvalue(), err.getvalue()])
json.dump(found, sys.stdout)
"""


def run_all(commands: Sequence[Sequence[str]], store: Path) -> list[tuple[int, str, str]]:
    """Run command lines in one process that permission bits bind; return code, output and errors of each."""
    lines = [[*args, "--store", str(store)] for args in commands]
    done = run_bound(["-c", MANY], cwd=store.parent, stdin=json.dumps(lines))
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@contextmanager
def read_only(store: Path) -> Iterator[None]:
    """Take the right to write away from all of a store."""
    places = [store, *store.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    try:
        yield
    finally:
        for place in places:
            if place.exists():
                place.chmod(0o755 if place.is_dir() else 0o644)


def count_rows(store: Path) -> int:
    ((code, out, err),) = run_all([("sql", "SELECT count(*) AS n FROM flights", "--json")], store)
    assert code == 0, err
    return int(json.loads(out)["rows"][0]["n"])


def test_reading_gives_what_it_gives_where_one_may_write(store: Path) -> None:
    before = run_all(READING, store)
    files = sorted(store.rglob("*"))
    with read_only(store):
        after = run_all(READING, store)
    assert [code for code, _, _ in after] == [0] * len(READING)
    assert after == before
    assert sorted(store.rglob("*")) == files


def test_what_would_write_says_why_it_cannot(store: Path) -> None:
    with read_only(store):
        for code, out, err in run_all(WRITING, store):
            assert (code, out) == (2, "")
            assert err == (
                f"error: the store can only be read here, because {store / METADATA_FILE} is not writable\n"
            )


def test_doctor_says_that_a_store_can_only_be_read(store: Path) -> None:
    with read_only(store):
        ((_, out, err),) = run_all([("doctor", "--json")], store)
    checks = [check for check in json.loads(out)["checks"] if check["name"] == "writing"]
    assert [check["state"] for check in checks] == ["note"], err
    assert "can only be read here" in checks[0]["detail"]


def test_doctor_says_that_no_segment_can_be_written(store: Path) -> None:
    deep = store / "deep-storage"
    deep.chmod(0o555)
    ((code, out, err),) = run_all([("doctor", "--json")], store)
    deep.chmod(0o755)
    assert code == 0, err
    notes = {
        check["name"]: check["detail"]
        for check in json.loads(out)["checks"]
        if check["state"] == "note"
    }
    assert notes["deep storage"] == f"file://{deep}: this user cannot write there, or nobody can"


def test_commits_of_somebody_who_may_write_are_seen_from_their_log(store: Path) -> None:
    with open_store(store) as writer:
        writer.tag("held")
        append_rows(store, [{"__time": "2013-01-09T01:00:00Z", "carrier": "UA", "delay": 1}])
        assert Path(f"{store / METADATA_FILE}-wal").stat().st_size > 0
        with read_only(store):
            assert count_rows(store) == ROWS + 1


@pytest.mark.parametrize("beside", [("-wal",), ("-wal", "-shm")])
def test_the_image_of_a_store_that_was_at_work_is_read_with_its_log(
    store: Path, tmp_path: Path, beside: Sequence[str]
) -> None:
    image = tmp_path / "image"
    with open_store(store) as writer:
        writer.tag("held")
        append_rows(store, [{"__time": "2013-01-09T01:00:00Z", "carrier": "UA", "delay": 1}])
        shutil.copytree(store, image, ignore=shutil.ignore_patterns("*-wal", "*-shm"))
        for end in beside:
            shutil.copy(f"{store / METADATA_FILE}{end}", image)
    with read_only(image):
        assert count_rows(image) == ROWS + 1
        back_up_from(image, tmp_path / "kept")
    assert count_rows(tmp_path / "kept") == ROWS + 1


def back_up_from(store: Path, kept: Path) -> None:
    """Back a store up that can only be read, as the page about it says, and leave nothing else."""
    kept.mkdir()
    ((code, _, err),) = run_all([("backup", str(kept / METADATA_FILE))], store)
    assert code == 0, err
    assert [one.name for one in kept.iterdir()] == [METADATA_FILE]
    shutil.copytree(store / "deep-storage", kept / "deep-storage")
    for one in [kept / "deep-storage", *(kept / "deep-storage").rglob("*")]:
        one.chmod(0o755 if one.is_dir() else 0o644)


def test_a_store_that_can_only_be_read_can_be_backed_up(store: Path, tmp_path: Path) -> None:
    with read_only(store):
        back_up_from(store, tmp_path / "kept")
    with open_store(tmp_path / "kept") as kept:
        kept.tag("mine")
    assert count_rows(tmp_path / "kept") == ROWS


def test_a_backup_that_cannot_be_written_is_not_the_store_s_fault(
    store: Path, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    places = (
        closed / "b.db",
        tmp_path / "nowhere" / "b.db",
        store / METADATA_FILE,
        Path("/dev/null"),
    )
    found = run_all([("backup", str(place)) for place in places], store)
    assert [(code, err) for code, _, err in found] == [
        (2, f"error: {places[0]} cannot be written (permission denied); choose a place that this user can write to\n"),
        (5, f"error: there is no folder {places[1].parent} to write b.db to\n"),
        (2, f"error: {places[2]} is there already; name another file\n"),
        (2, "error: /dev/null is no file; name a new file in a folder that is there\n"),
    ]  # fmt: skip
    assert list(closed.iterdir()) == []


def test_an_empty_log_beside_the_file_is_in_nobodys_way(store: Path) -> None:
    Path(f"{store / METADATA_FILE}-wal").touch()
    with read_only(store):
        assert count_rows(store) == ROWS


def test_what_may_not_even_be_read_is_told_as_that(store: Path, tmp_path: Path) -> None:
    metadata, deep = store / METADATA_FILE, store / "deep-storage" / "segments"
    metadata.chmod(0o000)
    backup = ("backup", str(tmp_path / "b.db"))
    for code, _, err in run_all([("log",), ("tag", "mine"), backup], store):
        assert code == 2
        assert f"because this user may not read {metadata}; run as its owner" in err
    metadata.chmod(0o644)
    deep.chmod(0o000)
    ((code, _, err),) = run_all([("gc",)], store)
    deep.chmod(0o755)
    assert (code, "cannot list folder 'segments'" in err) == (4, True), err
