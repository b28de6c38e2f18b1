"""Many clients that ask a server at once, from processes of their own, so that many can ask."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from benchmarks.support.harness import percentiles_ms, run_processes

PROCESSES = 2


def ask_at_once(
    url: str, statements: Sequence[str], *, clients: int, seconds: int
) -> dict[str, Any]:
    """Ask the statements in turn from each client until the time is over; return throughput, percentiles and errors."""
    each = clients // PROCESSES
    parts = run_processes(_ask, [((url, statements), each, seconds) for _ in range(PROCESSES)])
    took = [one for latencies, _ in parts for one in latencies]
    errors = [one for _, some in parts for one in some]
    return {
        "seconds": seconds,
        "queries_per_s": round(len(took) / seconds, 1),
        **percentiles_ms(took or [0.0]),
        "errors": len(errors),
        **({"first_error": errors[0]} if errors else {}),
    }


def _ask(
    asked: tuple[str, Sequence[str]], clients: int, seconds: int, barrier: Any, answers: Any
) -> None:
    url, statements = asked
    place = urlsplit(url)
    took: list[float] = []
    errors: list[str] = []
    barrier.wait()
    until = time.perf_counter() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        while time.perf_counter() < until:
            number += 1
            body = json.dumps(
                {"query": statements[number % len(statements)], "resultFormat": "array"}
            )
            started = time.perf_counter()
            try:
                connection.request(
                    "POST", "/druid/v2/sql", body, {"Content-Type": "application/json"}
                )
                answer = connection.getresponse()
                text = answer.read()
            except OSError as error:
                errors.append(str(error))
                connection.close()
                continue
            if answer.status == http.HTTPStatus.OK:
                took.append(time.perf_counter() - started)
            else:
                errors.append(f"{answer.status}: {text[:200]!r}")
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    answers.put((took, errors))
