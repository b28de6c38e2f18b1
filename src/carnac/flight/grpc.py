"""gRPC below Flight: where a server of ours listens, and what gRPC writes of its own."""

from __future__ import annotations

import os

ENCRYPTED = "grpc+tls"
"""The scheme of a server's URL if what is sent to it is encrypted; else it is `grpc+tcp`."""


def url_of(host: str, port: int, *, is_encrypted: bool) -> str:
    """Return the URL of a server at a host, which may be an address of IPv6."""
    scheme = ENCRYPTED if is_encrypted else "grpc+tcp"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def silence_grpc() -> None:
    """Have gRPC write nothing to stderr that it tells as an error, too, unless `GRPC_VERBOSITY` says otherwise.

    To be called before the first client or server of a process is made.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
