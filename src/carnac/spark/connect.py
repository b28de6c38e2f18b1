"""Sessions of Spark Connect: Spark that others run, somewhere else."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from carnac.core.redaction import show_url
from carnac.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.client.retries import RetryPolicy

REACH_TIMEOUT_S = 10
PATIENCE = {"max_retries": 7, "max_backoff": 5_000}
"""Waits of 0.05 s, 0.2 s, 0.8 s, 3.2 s and then 5 s each, 20 s in all, before a call fails. Spark's own ten minutes are
of no use: a server that comes back has forgotten our session. Calls after one that failed so wait no more."""
MISSING = "Spark Connect needs further packages: pip install 'carnac[connect]'"


def require_reachable(url: str) -> None:
    """Refuse an address that nobody listens at; Spark itself would go on trying for ten minutes.

    Raises:
        Invalid: `url` is no URL of Spark Connect, or the packages for it are not installed.
        Unavailable: Nobody listens there.
    """
    from pyspark.errors import PySparkException

    shown = show_url(url)
    try:
        from pyspark.sql.connect.client import DefaultChannelBuilder

        endpoint = DefaultChannelBuilder(url).endpoint
    except ImportError as error:
        raise Invalid(f"{MISSING} ({error})", url=shown) from error
    except (PySparkException, ValueError) as error:
        raise Invalid(
            f"'{shown}' is no address of Spark Connect; it looks like sc://host:15002", url=shown
        ) from error
    host, port = endpoint.rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_TIMEOUT_S).close()
    except OSError as error:
        raise Unavailable(
            f"Spark Connect at {shown} does not answer: {error.strerror or error}", url=shown
        ) from error


def connect(url: str, config: Mapping[str, str]) -> SparkSession:
    """Return a session, which gives up on a server that is gone after 20 s.

    Raises:
        Invalid, Unavailable: As `require_reachable`.
    """
    from pyspark.sql import SparkSession

    require_reachable(url)
    builder = SparkSession.builder.remote(url)
    for key, value in config.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    client: SparkConnectClient = session.client
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the error says it
    client.set_retry_policies([_patience()])
    return session


def _patience() -> RetryPolicy:
    """Return how calls of one session are tried again: once one has found the server gone, no other waits for it."""
    from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicyState

    class State(RetryPolicyState):  # type: ignore[misc]
        def next_attempt(self, exception: BaseException | None = None) -> int | None:
            wait_ms = None if policy.max_retries == 0 else super().next_attempt(exception)
            if wait_ms is None:
                policy.max_retries = 0
            return wait_ms

    class Patience(DefaultPolicy):  # type: ignore[misc]
        def to_state(self) -> RetryPolicyState:
            return State(self)

    policy = Patience(**PATIENCE)
    return policy
