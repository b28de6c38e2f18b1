"""Files in object stores: what their clients raise becomes an error of ours, whoever reads or writes."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from carnac.core.redaction import show_url
from carnac.core.texts import first_line
from carnac.errors import CarnacError, DiskFull, NotFound, Unavailable

_CLIENTS = frozenset({"aiobotocore", "botocore", "aiohttp", "gcsfs", "azure"})
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def is_of_client(error: BaseException) -> bool:
    """Whether a client of an object store raised it where it got no answer: of answers fsspec makes an `OSError`.

    What is wrong with a setting of theirs they tell by errors of Python, too.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return any(name.partition(".")[0] in _CLIENTS for name in (type(error).__module__, raised_in))


def storage_error(error: OSError, action: str, root: str) -> CarnacError:
    """Return the error that tells the caller of deep storage at `root` what to do about `error`."""
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return NotFound(f"cannot {action}: there is no such file in deep storage {root}", root=root)
    if error.errno in _FULL:
        return DiskFull(
            f"cannot {action}: the disk of deep storage {root} is full; free some space and retry"
        )
    return Unavailable(
        f"cannot {action}: deep storage {root} answers: {reason_of(error)}", root=root
    )


def reason_of(error: OSError) -> str:
    """Return what a system or a store says is wrong, as a phrase."""
    if error.strerror:
        return error.strerror.lower()
    return first_line(error).rstrip(".") or type(error).__name__


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise an `OSError` where a client of an object store gets no answer, as it does of an answer that is an error."""
    try:
        yield
    except Exception as error:
        if not is_of_client(error):
            raise
        raise ConnectionError(first_line(error)) from error


@contextmanager
def clear_errors(action: str, root: str) -> Iterator[None]:
    """Raise `storage_error` in place of what the file system, or a client of an object store, raises."""
    try:
        with client_errors():
            yield
    except OSError as error:
        raise storage_error(error, action, root) from error


class FarFile(io.RawIOBase):
    """A file of an object store that is open for reading; blocks are fetched as they are asked for.

    Args:
        action, root: As for `clear_errors`.
    """

    def __init__(self, file: Any, action: str, root: str) -> None:
        super().__init__()
        self._file, self._action, self._root = file, action, root

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, as many as were asked for unless the file ends; None, -1: all.

        Raises:
            Unavailable: The object store does not answer. NotFound: The file is gone.
        """
        with clear_errors(self._action, self._root):
            return cast("bytes", self._file.read(-1 if size is None else size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to another place."""
        return cast("int", self._file.seek(offset, whence))

    def tell(self) -> int:
        """Return the place."""
        return cast("int", self._file.tell())

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._file.close()
        super().close()


def open_far(root_url: str, path: str) -> BinaryIO:
    """Open a file below the URL of a folder in an object store for reading.

    Raises:
        NotFound: There is no such file. Unavailable: The object store does not answer.
    """
    import fsspec

    action, root = f"read '{path}'", show_url(root_url)
    with clear_errors(action, root):
        filesystem, base = fsspec.core.url_to_fs(root_url)
        file = filesystem.open(f"{base.rstrip('/')}/{path}", "rb")
    return cast("BinaryIO", FarFile(file, action, root))


def is_far(root_url: str, path: str) -> bool:
    """Whether there is a file below the URL of a folder in an object store.

    Raises:
        Unavailable: The object store does not answer.
    """
    try:
        open_far(root_url, path).close()
    except NotFound:
        return False
    return True
