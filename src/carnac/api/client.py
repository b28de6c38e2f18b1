"""Tasks of an overlord elsewhere, over HTTP: the same calls, values and errors as beside the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from http import HTTPStatus
from typing import Any, TypeVar, cast
from urllib.parse import quote

import httpx

from carnac.core.json_form import name_in_json
from carnac.core.redaction import show_url
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.model import Attempt, AttemptState, RetryPolicy, Task, TaskState
from carnac.core.time.intervals import parse_instant
from carnac.errors import (
    CarnacError,
    Conflict,
    Corrupt,
    Invalid,
    NotFound,
    Revoked,
    Unavailable,
)
from carnac.overlord.waiting import wait_until_over
from carnac.ports import Clock
from carnac.ports.closing import Closing
from carnac.ports.task_records import EVERY_TASK, TaskFilter

TIMEOUT_S = 30.0
LONGEST_PAUSE_MS = 2_000
_TASKS = "/carnac/v1/tasks"
_DRUID = "/druid/indexer/v1"
_KINDS: Mapping[str, type[CarnacError]] = {
    kind.kind: kind for kind in (Conflict, Corrupt, Invalid, NotFound, Revoked, Unavailable)
}
_MAKERS: Mapping[str, Callable[[Any], object]] = {
    "retry": lambda value: RetryPolicy(**value),
    "context": lambda value: json.dumps(value, ensure_ascii=False),
    "progress": lambda value: None if value is None else json.dumps(value),
    "dependencies": tuple,
    "waits_for": tuple,
}

_STATES: Mapping[type, Callable[[str], object]] = {Task: TaskState, Attempt: AttemptState}

_NOT_TOLD: Mapping[str, object] = {"digest": ""}

T = TypeVar("T", Task, Attempt, Leadership)


class OverlordClient(Closing):
    """The tasks of an overlord. Safe for many threads. The `digest` of a task is not told.

    Args:
        url: Of any overlord of the store, the leading one or not.
    """

    def __init__(
        self, url: str, clock: Clock, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._url = show_url(url.rstrip("/"))
        self._clock = clock
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Content-Type": "application/json"},  # an overlord obeys nothing else
            timeout=TIMEOUT_S,
            follow_redirects=True,
            transport=transport,
        )

    def submit(self, payload: Mapping[str, object]) -> Task:
        """Keep a task; return it as it is kept.

        Raises:
            Invalid, NotFound, Conflict: As beside the store.
            Unavailable: No overlord answers there.
        """
        answer = self._call("POST", f"{_DRUID}/task", json=payload).json()
        return self.get(answer["task"])

    def get(self, task_id: str) -> Task:
        """Return a task.

        Raises:
            NotFound: There is none of that id, or not any more.
        """
        return _value(Task, self._show(task_id)["task"])

    def list(self, which: TaskFilter = EVERY_TASK, *, limit: int = 100) -> Sequence[Task]:
        """Return tasks, newest first."""
        params: list[tuple[str, str]] = [("limit", str(limit))]
        params += [("state", str(state)) for state in which.states or ()]
        named = {"datasource": which.datasource, "type": which.type, "group": which.group_id}
        params += [(name, value) for name, value in named.items() if value is not None]
        if which.created is not None:
            params.append(("createdTimeInterval", str(which.created).replace("/", "_")))
        if which.before is not None:
            params.append(("before", str(which.before)))
        answer = self._call("GET", _TASKS, params=params).json()
        return [_value(Task, one) for one in answer["tasks"]]

    def check_datasource(self, datasource: str) -> None:
        """Check that there is a datasource, or at least a task for it; else it is NotFound."""
        self.list(TaskFilter(datasource=datasource), limit=1)

    def attempts(self, task_id: str) -> Sequence[Attempt]:
        """Return the attempts of a task, the first one first."""
        return [_value(Attempt, one) for one in self._show(task_id)["attempts"]]

    def payload(self, task_id: str) -> Mapping[str, object]:
        """Return a task as it was submitted, with its id."""
        answer = self._call("GET", f"{_DRUID}/task/{quote(task_id, safe='')}").json()
        return cast("Mapping[str, object]", answer["payload"])

    def report(self, task_id: str, number: int | None = None) -> Mapping[str, object] | None:
        """Return what an attempt did (None: the last one that said); None if there is nothing."""
        path = f"{_TASKS}/{quote(task_id, safe='')}/report"
        params = {} if number is None else {"attempt": number}
        answer = self._call("GET", path, params=params).json()
        return cast("Mapping[str, object] | None", answer["report"])

    def log(
        self, task_id: str, number: int | None = None, *, tail_bytes: int | None = None
    ) -> str | None:
        """Return what an attempt wrote (None: the last one); None if no overlord that answers has it."""
        params = {"offset": -tail_bytes} if tail_bytes else {}
        if number is not None:
            params["attempt"] = number
        try:
            path = f"{_DRUID}/task/{quote(task_id, safe='')}/log"
            return self._call("GET", path, params=params).text
        except NotFound:
            attempts = self.attempts(task_id)
            if number is not None and number > len(attempts):
                raise
            return None

    def cancel(self, task_id: str) -> Task:
        """End a task that is not over. Idempotent."""
        self._call("POST", f"{_DRUID}/task/{quote(task_id, safe='')}/shutdown")
        return self.get(task_id)

    def retry(self, task_id: str) -> Task:
        """Try a task again that failed or was cancelled; or now, if it waits for its next attempt."""
        self._call("POST", f"{_DRUID}/task/{quote(task_id, safe='')}/retry")
        return self.get(task_id)

    def wait(
        self,
        task_id: str,
        *,
        timeout_ms: int | None = None,
        on_look: Callable[[Task], None] | None = None,
    ) -> Task:
        """Return the task once it is over, or when the time is; arguments as for `TaskService.wait`."""
        return wait_until_over(
            lambda: self.get(task_id),
            self._clock,
            timeout_ms=timeout_ms,
            longest_pause_ms=LONGEST_PAUSE_MS,
            on_look=on_look,
        )

    def leader(self) -> Leadership | None:
        """Return the overlord that leads; None if none does now."""
        found = self._call("GET", "/carnac/v1/leader").json()["leader"]
        return None if found is None else _value(Leadership, found)

    def close(self) -> None:
        """Close connections. Idempotent."""
        self._http.close()

    def _show(self, task_id: str) -> dict[str, Any]:
        answer = self._call("GET", f"{_TASKS}/{quote(task_id, safe='')}")
        return cast("dict[str, Any]", answer.json())

    def _call(self, method: str, path: str, **how: Any) -> httpx.Response:
        try:
            answer = self._request(method, path, **how)
        except (httpx.TransportError, httpx.InvalidURL, httpx.TooManyRedirects) as error:
            raise Unavailable(
                f"no overlord answers at {self._url}: {str(error) or type(error).__name__}",
                url=self._url,
            ) from error
        if answer.is_error:
            raise _error(answer, self._url)
        return answer

    def _request(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Return the answer; what only reads is asked once more if the connection breaks.

        A server closes a connection that is idle for a while, and may do so in the moment in which it is used again.
        """
        try:
            return self._http.request(method, path, **how)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            if method != "GET":
                raise
            return self._http.request(method, path, **how)


def _error(answer: httpx.Response, url: str) -> CarnacError:
    """Return the error that an answer tells of."""
    try:
        body = answer.json()
        message, name, ids = body["error"], body["errorClass"], body["context"]
    except (ValueError, KeyError, TypeError):
        return Unavailable(
            f"what answers at {url} is no overlord: it says {answer.status_code} {answer.reason_phrase}",
            url=url,
        )
    default = Invalid if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR else Unavailable
    return _KINDS.get(name, default)(message, **ids)


def _value(kind: type[T], record: Mapping[str, Any]) -> T:
    """Return the value whose JSON form (`core.json_form`) a record is; fields that are not known are left out."""
    values: dict[str, Any] = {}
    for field in fields(kind):
        key = name_in_json(field.name)
        if key not in record:
            values |= {field.name: _NOT_TOLD[field.name]} if field.name in _NOT_TOLD else {}
            continue
        value = record[key]
        if key != field.name and value is not None:
            value = parse_instant(value)
        elif field.name == "state":
            value = _STATES[kind](value)
        elif field.name in _MAKERS:
            value = _MAKERS[field.name](value)
        values[field.name] = value
    return kind(**values)
