"""The demo, the README's tour and the tutorial are run as they stand, and must print what they say they print."""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.cli import Ran, run_process

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE_TITLE = (
    "336,776 flights in 365 time chunks: loaded, appended to, corrected, deleted from, restored"
)
MASKS = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?!\.)", "TIME"),
    (r"\d+(?:\.\d)? (?:[kM]|[KM]i)?B\b", "SIZE"),
    (r"─+", "─"),
    (r" +", " "),
)
"""What differs from run to run, or from one version of a library to the next."""
STARTS = 8
"""A command without Spark takes less CPU than so many times `carnac --version`: about three times in the README."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page, and what the page says it prints."""

    language: str
    text: str
    prints: str | None


def blocks(page: Path) -> list[Block]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    following = [*found[1:], ("", "")]
    return [
        Block(language, text, after if kind == "text" else None)
        for (language, text), (kind, after) in zip(found, following, strict=True)
        if language in {"sh", "python"}
    ]


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def run_blocks(some: Iterable[Block], cwd: Path, env: dict[str, str]) -> Iterator[Block]:
    """Run blocks in order, in one shell's environment; check what each prints, and yield it.

    A line with `…` on a page stands for lines that it leaves out.
    """
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    for block in some:
        command = ["sh", "-e", "-c", block.text]
        if block.language == "python":
            command = [sys.executable, "-c", block.text]
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, f"{block.text}\n{done.stderr}"
        exported = re.search(r"^export (\w+)=(\S+)$", block.text, re.MULTILINE)
        if exported:
            env[exported[1]] = exported[2]
        if block.prints is not None:
            printed = "\n".join(line for line in done.stdout.splitlines() if line)
            expected = "\n".join(line for line in block.prints.splitlines() if line)
            for part in re.split(r"^…$", expected, flags=re.MULTILINE):
                assert masked(part) in masked(printed), block.text
        yield block


def run_page(page: Path, cwd: Path) -> None:
    for _ in run_blocks(blocks(page), cwd, dict(os.environ)):
        pass


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """The demo, run once in a directory of its own."""
    cwd = tmp_path_factory.mktemp("demo")
    return cwd, run_process(["demo"], cwd=cwd, timeout=600)


def test_the_demo_tells_its_story_and_every_count_equals_the_source(demo: tuple[Path, Ran]) -> None:
    cwd, done = demo
    assert done.code == 0, done.err
    assert "all 16 checks agree with the source" in done.out
    assert "DIFFERENT" not in done.out
    assert [line.partition("]")[0] for line in done.out.splitlines() if line.startswith("[")] == [
        f"[{number}/10" for number in range(1, 11)
    ]
    assert (cwd / "demo-output" / "flights.svg").read_text().startswith("<svg")


def test_the_picture_of_the_readme_is_the_one_that_the_demo_draws(demo: tuple[Path, Ran]) -> None:
    cwd, _ = demo
    line = ["picture", "flights", "--at", "5", "--store", "demo-output/store", "-o", "again.svg"]
    assert run_process([*line, "--title", PICTURE_TITLE], cwd=cwd).code == 0
    committed = ROOT / "docs" / "images" / "flights.svg"
    check_same_picture(cwd / "again.svg", committed)


def check_same_picture(drawn: Path, committed: Path) -> None:
    """Both pictures are the same, but for the sizes of files."""
    sizes = re.compile(r"kB: [\d.,]+")
    texts = [sizes.sub("kB", path.read_text(encoding="utf-8")) for path in (drawn, committed)]
    assert texts[0] == texts[1], f"{committed.name} is not what its command draws"


def test_the_next_three_commands_work_when_they_are_pasted(demo: tuple[Path, Ran]) -> None:
    cwd, done = demo
    lines = [line for line in done.out.partition("Next, try:")[2].splitlines() if line.strip()]
    assert len(lines) == 3
    for line in lines:
        ran = subprocess.run(
            shlex.split(line), cwd=cwd, capture_output=True, text=True, check=False, timeout=120
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.count("\n") > 2


@pytest.mark.nightly("starts Spark once for each of its commands")
def test_the_tutorial_runs_as_it_stands_and_draws_its_pictures(demo: tuple[Path, Ran]) -> None:
    cwd, done = demo
    assert done.code == 0, done.err
    page = ROOT / "docs" / "tutorial.md"
    run_page(page, cwd)
    pictures = re.findall(r"\(images/tutorial-(\w+)\.svg\)", page.read_text(encoding="utf-8"))
    assert pictures == ["before", "after", "future"]
    for name in pictures:
        committed = ROOT / "docs" / "images" / f"tutorial-{name}.svg"
        check_same_picture(cwd / "demo-output" / f"{name}.svg", committed)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_tour_of_the_readme_runs_as_it_stands_and_waits_for_spark_alone(tmp_path: Path) -> None:
    """Before the step that starts Spark no Java is started, and no command does much more than `carnac --version`."""
    mark, java = tmp_path / "started", tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    java.chmod(0o755)
    paths = f"{java.parent}{os.pathsep}{os.environ['PATH']}"
    no_java = {**os.environ, "JAVA_HOME": str(java.parent.parent), "PATH": paths}
    begun = cpu_of_children()
    assert run_process(["--version"], cwd=tmp_path).code == 0
    least = cpu_of_children() - begun
    steps = blocks(ROOT / "README.md")
    (spark,) = (number for number, block in enumerate(steps) if "carnac ingest" in block.text)
    begun = cpu_of_children()
    for block in run_blocks(steps[:spark], tmp_path, no_java):
        cpu = cpu_of_children() - begun
        commands = len(re.findall(r"^carnac ", block.text, re.MULTILINE))
        print(f"{commands} commands, {cpu / least:.1f} times that of --version")
        assert cpu < least * (STARTS * commands + 1), block.text
        begun = cpu_of_children()
    assert not mark.exists(), "a step before the one that needs Spark starts Java"
    with pytest.raises(AssertionError):
        next(run_blocks(steps[spark : spark + 1], tmp_path, no_java))
    assert mark.exists(), "Java would have been seen"
    with_java = {**os.environ, "CARNAC_STORE": no_java["CARNAC_STORE"]}
    assert len([*run_blocks(steps[spark:], tmp_path, with_java)]) == len(steps) - spark


def test_the_demo_does_not_touch_a_folder_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("three years of work")
    done = run_process(["demo", "--keep", "mine"], cwd=tmp_path)
    assert done.code == 2
    assert "give another with --keep" in done.err
    assert (tmp_path / "mine" / "thesis.txt").is_file()
