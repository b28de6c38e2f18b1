"""Where files may be read: folders and URLs, wherever globs, `..` and links lead."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from carnac.errors import Invalid

GLOB = re.compile(r"[*?\[]")
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)
_SAME_AS: dict[str, str] = {"s3a": "s3", "s3n": "s3"}


class InputRoots:
    """Folders and URLs that may be read, with all that is below them.

    Args:
        roots: Paths, relative ones from the working directory, and URLs. None at all: nothing may be read.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(roots)
        paths = [local_path(root) for root in roots]
        self._folders = tuple(_real(path) for path in paths if path is not None)
        self._urls = tuple(
            _plain_url(root) for root, path in zip(roots, paths, strict=True) if path is None
        )

    def check_pattern(self, pattern: str) -> None:
        """Check a path, glob or URL before anything is looked for.

        Raises:
            Invalid: It leads outside, or might.
        """
        path = local_path(pattern)
        if path is None:
            self._check_url(pattern, pattern)
            return
        parts = path.parts
        globs = [at for at, part in enumerate(parts) if GLOB.search(part)]
        first = globs[0] if globs else len(parts)
        if ".." in parts[first:] or not self._has(Path(*parts[:first])):
            raise self._outside(pattern)

    def check_file(self, url: str) -> None:
        """Check a file that was found, and the file that it links to.

        Raises:
            Invalid: It lies outside.
        """
        path = local_path(url)
        if path is None:
            self._check_url(url, url)
        elif not self._has(path):
            raise self._outside(url)

    def _has(self, path: Path) -> bool:
        real = _real(path)
        return any(real.is_relative_to(folder) for folder in self._folders)

    def _check_url(self, url: str, shown: str) -> None:
        plain = _plain_url(url)
        fixed = plain[: found.start()] if (found := GLOB.search(plain)) else plain
        is_odd = "::" in plain or {".", ".."} & set(plain.split("/"))
        if is_odd or not any(fixed == root or fixed.startswith(f"{root}/") for root in self._urls):
            raise self._outside(shown)

    def _outside(self, shown: str) -> Invalid:
        known = ", ".join(self._roots) or "nothing"
        return Invalid(
            f"input {shown!a:.200} is outside of what a task that comes over HTTP may read ({known}); the overlord's "
            "setting http_input_roots names more",
            setting="http_input_roots",
        )


def local_path(url: str) -> Path | None:
    """Return the absolute path of a plain path or `file://` URL; None for other URLs.

    Raises:
        Invalid: It is no path: a `~` of nobody.
    """
    if url.startswith("file:"):
        return Path(unquote(urlsplit(url).path))
    if _URL.fullmatch(url):
        return None
    try:
        return Path(url).expanduser().absolute()
    except RuntimeError:
        raise Invalid(f"there is no home folder for '{url}'", path=url) from None


def _real(path: Path) -> Path:
    """Return a path without links, as far as it exists.

    Raises:
        Invalid: It cannot be one.
    """
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        raise Invalid(f"{str(path)!a:.200} is no path") from None


def _plain_url(url: str) -> str:
    found = _URL.fullmatch(url)
    if found is None:
        return url
    scheme = found[1].lower()
    return f"{_SAME_AS.get(scheme, scheme)}://{found[2]}".rstrip("/")
