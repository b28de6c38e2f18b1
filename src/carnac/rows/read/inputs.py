"""From the input of a spec to a list of files; and from a file anywhere to one on this machine."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from carnac.core.texts import first_line
from carnac.errors import Invalid, NotFound, Unavailable
from carnac.ports.temporary import make_private
from carnac.rows.read.arrays import HEAD_BYTES
from carnac.rows.read.roots import GLOB, InputRoots, local_path
from carnac.specs.ingest.inputs import (
    UNSUPPORTED_COMPRESSIONS,
    FilesInput,
    InlineInput,
    InputFormat,
    infer_compression,
    infer_format,
)

if TYPE_CHECKING:
    from carnac.rows.read.messages import MessageSource
    from carnac.specs.ingest.inputs import InputSource


Compression = Literal["gzip", "zstd"]

INLINE_URL = "inline:"
MAX_FILES = 1_000_000
"""More files than this in one job are a mistake in a glob."""

_COPY_BYTES = 4 << 20
_WEB = re.compile(r"(https?|ftp)://", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file to read, or a range of its records. Picklable.

    Attributes:
        url: Absolute path, or URL that fsspec opens; `inline:` for text of the spec.
        size_bytes: As it is stored.
        compression: None if the bytes are read as they are.
        start_byte: Records that start before it belong to another range.
        end_byte: Records that start at it or after it belong to another range; None: up to the end.
        start_line: Number of the line at `start_byte`; None: it is not known.
        columns: Names of the columns of CSV, of a range without the header of its file.
        data: The bytes, for `inline:`.
        messages: A part of a stream, which is no file.
    """

    url: str
    size_bytes: int
    compression: Compression | None = None
    start_byte: int = 0
    end_byte: int | None = None
    start_line: int | None = 1
    columns: tuple[str, ...] = ()
    data: bytes | None = None
    messages: MessageSource | None = None

    @property
    def read_bytes(self) -> int:
        """How much of it is read, in stored bytes; tasks are balanced by it."""
        end = self.size_bytes if self.end_byte is None else self.end_byte
        return end - self.start_byte


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedInput:
    """The files of a job, sorted by URL, none twice, and the one format that all are read as."""

    files: tuple[InputFile, ...]
    format: InputFormat


def resolve_input(source: InputSource) -> ResolvedInput:
    """Find the files that a spec's input means.

    Credentials and endpoints of object stores come from the environment and fsspec's own configuration
    (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, `FSSPEC_S3_ENDPOINT_URL`, `~/.config/fsspec`).

    Raises:
        NotFound: A path or pattern matches nothing; names it.
        Invalid: The formats of the files differ or cannot be told; a file is not readable, or outside of `within`.
        Unavailable: The object store does not answer.
    """
    if isinstance(source, InlineInput):
        data = source.data.encode()
        inline = InputFile(url=INLINE_URL, size_bytes=len(data), data=data)
        return ResolvedInput(files=(inline,), format=source.format)
    if not isinstance(source, FilesInput):
        raise Invalid("the rows of this spec are handed over in memory; it names no files")
    found: dict[str, InputFile] = {}
    roots = None if source.within is None else InputRoots(source.within)
    for pattern in source.paths:
        if roots is not None:
            roots.check_pattern(pattern)
        matched = list(_find(pattern, source.filter))
        if not matched:
            hint = f" with names like {source.filter}" if source.filter else ""
            raise NotFound(f"no input file matches '{pattern}'{hint}", pattern=pattern)
        if roots is not None:
            for file in matched:
                roots.check_file(file.url)
        found.update((file.url, file) for file in matched)
        if len(found) > MAX_FILES:
            raise Invalid(f"'{pattern}' matches more than {MAX_FILES:,} files; narrow it")
    files = tuple(found[url] for url in sorted(found))
    _check_compressions(files)
    return ResolvedInput(files=files, format=source.format or _common_format(files))


def head_of(file: InputFile) -> bytes:
    """Return the first bytes of a file that is not compressed; none if it cannot be read, as its reader will tell."""
    path = local_path(file.url)
    try:
        if path is not None:
            with path.open("rb") as stream:
                return stream.read(HEAD_BYTES)
        system, name = _filesystem(file.url)
        return bytes(system.read_block(name, 0, HEAD_BYTES))
    except OSError:
        return b""


@contextmanager
def local_file(file: InputFile, scratch_dir: str) -> Iterator[Path]:
    """Yield a path on this machine; a remote file is copied into `scratch_dir` and deleted afterwards.

    Raises:
        NotFound: It is not there any more.
        Unavailable: The object store does not answer, or the disk is full.
    """
    path = local_path(file.url)
    if path is not None:
        yield path
        return
    scratch = make_private(Path(scratch_dir))
    target = scratch / ("input-" + re.sub(r"[^\w.-]+", "_", file.url)[-100:])
    try:
        _copy(file.url, target)
        yield target
    finally:
        target.unlink(missing_ok=True)


def _copy(url: str, target: Path) -> None:
    system, path = _filesystem(url)
    try:
        with system.open(path, "rb") as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, _COPY_BYTES)
    except FileNotFoundError:
        raise NotFound(f"input file {url} does not exist any more", url=url) from None
    except Exception as error:  # clients of object stores have errors of their own
        raise Unavailable(f"copying {url} failed: {first_line(error)}", url=url) from error


def _find(pattern: str, name_filter: str | None) -> Iterator[InputFile]:
    local = local_path(pattern)
    if local is not None:
        yield from _find_local(pattern, local, name_filter)
    else:
        yield from _find_remote(pattern, name_filter)


def _find_local(pattern: str, path: Path, name_filter: str | None) -> Iterator[InputFile]:
    if path.exists():
        yield from _expand_local(path, name_filter)
        return
    if not GLOB.search(str(path)):
        return
    anchor = Path(path.anchor)
    try:
        matches = sorted(anchor.glob(str(path.relative_to(anchor))))
    except (ValueError, NotImplementedError) as error:
        raise Invalid(f"'{pattern}' is not a glob: {error}", pattern=pattern) from None
    for match in matches:
        if not _is_hidden_from(str(path), match.parts):
            yield from _expand_local(match, name_filter)


def _expand_local(path: Path, name_filter: str | None) -> Iterator[InputFile]:
    if not path.is_dir():
        yield _local_input(path)
        return
    # a folder that goes while it is looked for is not there
    found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for child in sorted(found):
        inner = child.relative_to(path).parts
        if child.is_file() and _is_wanted(inner, name_filter):
            yield _local_input(child)


def _local_input(path: Path) -> InputFile:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Invalid(
                f"input file {path} is a pipe or a device, and input is read more than once; write it to a file, and "
                "name that",
                path=str(path),
            )
        with path.open("rb"):
            size = status.st_size
    except OSError as error:
        raise Invalid(
            f"input file {path} cannot be read: {error.strerror}", path=str(path)
        ) from None
    return InputFile(url=str(path), size_bytes=size, compression=infer_compression(path.name))


def _find_remote(pattern: str, name_filter: str | None) -> Iterator[InputFile]:
    system, path = _filesystem(pattern)
    try:
        if GLOB.search(path):
            found: dict[str, Any] = system.glob(path, detail=True)
        else:
            found = system.find(path, detail=True)
    except FileNotFoundError:
        return
    except Exception as error:  # clients of object stores have errors of their own
        raise Unavailable(f"listing {pattern} failed: {first_line(error)}", url=pattern) from error
    for name, info in sorted(found.items()):
        is_glob = bool(GLOB.search(path))
        if is_glob and _is_hidden_from(path, PurePosixPath(name).parts):
            continue
        if info["type"] == "directory":
            if is_glob:
                yield from _find_remote(system.unstrip_protocol(name.rstrip("/")), name_filter)
            continue
        inner = PurePosixPath(name.removeprefix(path.rstrip("/")).lstrip("/")).parts
        if name != path and not is_glob and not _is_wanted(inner, name_filter):
            continue
        yield InputFile(
            url=system.unstrip_protocol(name),
            size_bytes=int(info.get("size") or 0),
            compression=infer_compression(name),
        )


def _filesystem(url: str) -> tuple[Any, str]:
    import fsspec

    if _WEB.match(url):
        raise Invalid(
            f"{url} cannot be read: files come from this machine or from an object store; download it first",
            url=url,
        )
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise Invalid(f"{url} cannot be opened: {first_line(error)}", url=url) from None
    except OSError as error:
        raise Unavailable(f"opening {url} failed: {first_line(error)}", url=url) from error
    return system, str(path)


def _is_wanted(parts: Iterable[str], name_filter: str | None) -> bool:
    names = list(parts)
    if any(_is_hidden(name) for name in names):
        return False
    return name_filter is None or fnmatch(names[-1], name_filter)


def _is_hidden_from(pattern: str, parts: Iterable[str]) -> bool:
    """Whether a match lies in something hidden that the pattern does not name, as `_temporary` under `**`."""
    asked = [part for part in pattern.split("/") if _is_hidden(part)]
    return any(
        _is_hidden(part) and not any(fnmatchcase(part, one) for one in asked) for part in parts
    )


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _check_compressions(files: Sequence[InputFile]) -> None:
    for file in files:
        name = file.url.lower()
        if name.endswith(UNSUPPORTED_COMPRESSIONS):
            raise Invalid(
                f"input file {file.url} is compressed in a way that Carnac does not read; "
                "use gzip or zstd",
                url=file.url,
            )


def _common_format(files: Sequence[InputFile]) -> InputFormat:
    first_of: dict[str, str] = {}
    formats: list[InputFormat] = []
    for file in files:
        inferred = infer_format(file.url)
        if inferred is None:
            raise Invalid(
                f"the name of {file.url} does not say its format; give inputFormat",
                url=file.url,
            )
        first_of.setdefault(inferred.type, file.url)
        formats.append(inferred)
    if len(first_of) > 1:
        mixed = ", ".join(f"{kind} ({url})" for kind, url in sorted(first_of.items()))
        raise Invalid(f"the input files are of several formats: {mixed}; ingest each by itself")
    return formats[0]
