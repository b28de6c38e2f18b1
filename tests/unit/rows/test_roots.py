"""Where files may be read: links, `..`, globs and URLs lead nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from carnac.errors import Invalid
from carnac.rows.read.inputs import resolve_input
from carnac.rows.read.roots import InputRoots
from carnac.specs.ingest.inputs import FilesInput


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that may be read, one beside it that may not, and links between them."""
    for name in ("in/a.json", "in/deep/b.json", "in/a[1].json", "inside.json", "out/secret.json"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "out" / "secret.json")
    (tmp_path / "in" / "round").symlink_to("round")
    (tmp_path / "in" / "own.json").symlink_to("a.json")
    (tmp_path / "door").symlink_to("in")
    monkeypatch.chdir(tmp_path / "in")
    return tmp_path


def found(tree: Path, *patterns: str, roots: Sequence[str] = (".",)) -> list[str]:
    source = FilesInput(paths=patterns, within=roots)
    return [str(Path(file.url).relative_to(tree)) for file in resolve_input(source).files]


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("a.json", ["in/a.json"]),
        ("deep", ["in/deep/b.json"]),
        ("deep/../a.json", ["in/deep/../a.json"]),
        ("./*/b.json", ["in/deep/b.json"]),
        ("a[[]1].json", ["in/a[1].json"]),
        ("a[1].json", ["in/a[1].json"]),
        ("own.json", ["in/own.json"]),
    ],
)
def test_what_lies_inside_is_found(tree: Path, pattern: str, files: list[str]) -> None:
    assert found(tree, pattern) == files
    through = found(tree, f"{tree}/door/{pattern}", roots=(f"{tree}/door",))
    assert [name.replace("door", "in") for name in through] == files


@pytest.mark.parametrize(
    "pattern",
    [
        "../out/secret.json",
        "../*/secret.json",
        "../inside.json",
        "..",
        "*/../../out/secret.json",
        "**/../../out/*.json",
        "*/../../out/nothing.json",  # nor is it told whether it is there
        "folder",
        "folder/secret.json",
        "folder/*.json",
        "*/secret.json",
        "link.json",
        "l*.json",
        "~/x.json",
        "/etc/passwd",
        "/",
        "/*",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "file://localhost/etc/passwd",
        "file:%2Fetc%2Fpasswd",
        "s3://bucket/a.json",
        "http://127.0.0.1/a.json",
        "memory://a.json",
        "local:///etc/passwd",
        "FILE:///etc/passwd",
        "a\0b",
    ],
)
def test_nothing_leads_outside(tree: Path, pattern: str) -> None:
    with pytest.raises(Invalid) as caught:
        found(tree, pattern, roots=("a.json", ".", f"{tree}/in"))
    assert "http_input_roots" in caught.value.message or "is no path" in caught.value.message
    with pytest.raises(Invalid):
        found(tree, pattern, roots=())


def test_a_home_folder_of_nobody_is_one_sentence() -> None:
    with pytest.raises(Invalid, match=r"there is no home folder for '~nobody-here/a\.json'"):
        InputRoots(()).check_pattern("~nobody-here/a.json")


@pytest.mark.parametrize(
    ("url", "is_inside"),
    [
        ("s3://bucket/data", True),
        ("s3://bucket/data/a.json", True),
        ("s3a://bucket/data/*/b.json", True),
        ("S3://bucket/data/2015-*", True),
        ("s3://bucket/data2/a.json", False),
        ("s3://bucket/*", False),
        ("s3://bucket/da*", False),
        ("s3://bucket", False),
        ("s3://bucket/data/../secret", False),
        ("s3://bucket/data/./a", False),
        ("s3://other/data/a.json", False),
        ("gs://bucket/data/a.json", False),
        ("s3://bucket/data/a::file:///etc/passwd", False),
        ("https://example.com/data", False),
    ],
)
def test_urls_are_compared_folder_by_folder(url: str, *, is_inside: bool) -> None:
    roots = InputRoots(("s3://bucket/data/", "/tmp/x"))
    if is_inside:
        roots.check_pattern(url)
        roots.check_file(url)
        return
    with pytest.raises(Invalid, match="is outside of what a task that comes over HTTP may read"):
        roots.check_pattern(url)
