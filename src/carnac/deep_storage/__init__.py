"""Deep storage: a local directory, or an object store by URL. `open_deep_storage` chooses by the URL."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from carnac.core.redaction import show_url
from carnac.errors import Invalid
from carnac.ports import DeepStorage
from carnac.ports.temporary import own_folder

__all__ = ["open_deep_storage"]


def open_deep_storage(url: str, options: Mapping[str, object] | None = None) -> DeepStorage:
    """Return the deep storage at `url`, which need not exist yet.

    Args:
        url: A path, `file:///…`, `memory://…` (a temporary folder: empty at first, gone with the process), or what
            fsspec opens: `s3://…`.
        options: Handed to fsspec for object stores (`endpoint_url`, `key`, `secret` of S3 and the like).

    Raises:
        Invalid: The URL names no kind of storage that is installed.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "file", url
    if (not rest.strip("/") and scheme not in {"memory", "file"}) or not url:
        raise Invalid(
            f"deep storage url '{show_url(url)}' names no bucket or folder; write it like s3://bucket/folder",
            url=show_url(url),
        )
    if scheme == "file":
        from carnac.deep_storage.local import LocalDeepStorage

        return LocalDeepStorage(Path(unquote(urlsplit(url).path) if separator else rest))
    if scheme == "memory":
        from carnac.deep_storage.local import LocalDeepStorage

        return LocalDeepStorage(Path(tempfile.mkdtemp(dir=own_folder("store"))))
    from carnac.deep_storage.objects import ObjectDeepStorage

    return ObjectDeepStorage(url, options or {})
