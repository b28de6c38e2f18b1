"""Where the archive of Java classes is, and who is told to use it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from carnac.spark.class_archive import (
    archive_path,
    use_archive,
    write_archive,
)
from carnac.spark.java import JAVA_OPTIONS, JavaRuntime

JAVA = JavaRuntime(home=Path("/opt/java"), version="17.0.15", source="PATH")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path)}


def make(environ: dict[str, str]) -> Path:
    path = archive_path(JAVA, environ)
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_each_java_has_its_own(environ: dict[str, str]) -> None:
    others = [
        replace(JAVA, version="21.0.1"),
        replace(JAVA, home=Path("/opt/other")),
        replace(JAVA, jdk_home=Path("/opt/wheel")),
    ]
    assert len({archive_path(java, environ) for java in [JAVA, *others]}) == 4


def test_lies_in_the_cache_of_the_user(tmp_path: Path) -> None:
    own = archive_path(JAVA, {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""})
    assert own.parent == tmp_path / ".cache" / "carnac"
    assert own.name.startswith("spark-")
    assert archive_path(JAVA, {}).parent == Path.home() / ".cache" / "carnac"


def test_settings_stay_as_they_are_where_there_is_none(environ: dict[str, str]) -> None:
    assert use_archive({"a": "b"}, JAVA, environ) == {"a": "b"}


def test_options_of_the_user_come_last_so_that_they_win(environ: dict[str, str]) -> None:
    path = make(environ)
    assert use_archive({}, JAVA, environ) == {JAVA_OPTIONS: f"-XX:SharedArchiveFile={path}"}
    given = {JAVA_OPTIONS: "-Xshare:off"}
    assert use_archive(given, JAVA, environ)[JAVA_OPTIONS].endswith(f"{path} -Xshare:off")
    assert given == {JAVA_OPTIONS: "-Xshare:off"}


def test_who_writes_one_does_not_use_one(environ: dict[str, str]) -> None:
    make(environ)
    writing = write_archive({JAVA_OPTIONS: "-Da=b"}, Path("new.jsa"))
    assert writing[JAVA_OPTIONS] == "-XX:ArchiveClassesAtExit=new.jsa -Da=b"
    assert use_archive(writing, JAVA, environ) == writing


@pytest.mark.parametrize("name", ["with space", "100%"])
def test_a_place_with_a_space_is_one_option(tmp_path: Path, name: str) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / name)}
    path = make(environ)
    assert shlex.split(use_archive({}, JAVA, environ)[JAVA_OPTIONS]) == [
        f"-XX:SharedArchiveFile={path}"
    ]
