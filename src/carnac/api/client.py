"""Tasks of an overlord elsewhere, over HTTP: the same calls, values and errors as beside the store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from msgspec import ValidationError, convert

from carnac.core.json_form import name_in_json
from carnac.core.json_text import parse_json
from carnac.core.redaction import show_url
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.model import Attempt, Task
from carnac.core.texts import check_name, check_text, one_line
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
from carnac.overlord.waiting import Waiting
from carnac.ports import Clock
from carnac.ports.tasks import EVERY_TASK, TaskFilter

TIMEOUT_S = 30.0
"""For each step of a request: to connect, and for each piece of the answer."""
ANSWER_TIMEOUT_MS = 300_000
ANSWER_MAX_BYTES = 64 << 20
"""A log is at most a quarter of it."""
REDIRECTS_MAX = 3
_TASKS = "/carnac/v1/tasks"
_DRUID = "/druid/indexer/v1"
_KINDS: Mapping[str, type[CarnacError]] = {
    kind.kind: kind for kind in (Conflict, Corrupt, Invalid, NotFound, Revoked, Unavailable)
}
_AS_TEXT = frozenset({"context", "progress"})
"""Fields of JSON that are kept as its text."""
_NOT_TOLD = {"digest": ""}

T = TypeVar("T", Task, Attempt, Leadership)


class OverlordClient(Waiting):
    """The tasks of an overlord. Safe for many threads. The `digest` of a task is not told.

    Args:
        url: Of any overlord of the store, the leading one or not.
    """

    longest_pause_ms = 2_000

    def __init__(
        self, url: str, clock: Clock, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._url = show_url(url.rstrip("/"))
        self._clock = clock
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Content-Type": "application/json"},  # an overlord obeys nothing else
            timeout=TIMEOUT_S,
            max_redirects=REDIRECTS_MAX,
            transport=transport,
        )

    def submit(self, payload: Mapping[str, object]) -> Task:
        """Keep a task; return it as it is kept.

        Raises:
            Invalid, NotFound, Conflict: As beside the store.
            Unavailable: No overlord answers there.
        """
        with self._reading("POST", f"{_DRUID}/task", json=payload) as answer:
            task_id = _text(answer["task"])
        return self.get(task_id)

    def get(self, task_id: str) -> Task:
        """Return a task.

        Raises:
            NotFound: There is none of that id, or not any more.
        """
        with self._reading("GET", _path(_TASKS, task_id)) as answer:
            return _value(Task, answer["task"])

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
        with self._reading("GET", _TASKS, params=params) as answer:
            return [_value(Task, one) for one in answer["tasks"]]

    def check_datasource(self, datasource: str) -> None:
        """Check that there is a datasource, or at least a task for it; else it is NotFound."""
        self.list(TaskFilter(datasource=datasource), limit=1)

    def attempts(self, task_id: str) -> Sequence[Attempt]:
        """Return the attempts of a task, the first one first."""
        with self._reading("GET", _path(_TASKS, task_id)) as answer:
            return [_value(Attempt, one) for one in answer["attempts"]]

    def payload(self, task_id: str) -> Mapping[str, object]:
        """Return a task as it was submitted, with its id."""
        with self._reading("GET", _path(f"{_DRUID}/task", task_id)) as answer:
            return _object(answer["payload"])

    def report(self, task_id: str, number: int | None = None) -> Mapping[str, object] | None:
        """Return what an attempt did (None: the last one that said); None if there is nothing."""
        params = {} if number is None else {"attempt": number}
        with self._reading("GET", _path(_TASKS, task_id, "/report"), params=params) as answer:
            return None if answer["report"] is None else _object(answer["report"])

    def log(
        self, task_id: str, number: int | None = None, *, tail_bytes: int | None = None
    ) -> str | None:
        """Return what an attempt wrote (None: the last one); None if no overlord that answers has it."""
        params = {"offset": -tail_bytes} if tail_bytes else {}
        if number is not None:
            params["attempt"] = number
        try:
            path = _path(f"{_DRUID}/task", task_id, "/log")
            return self._call("GET", path, params=params).decode(errors="replace")
        except NotFound:
            attempts = self.attempts(task_id)
            if number is not None and number > len(attempts):
                raise
            return None

    def cancel(self, task_id: str) -> Task:
        """End a task that is not over. Idempotent."""
        self._call("POST", _path(f"{_DRUID}/task", task_id, "/shutdown"))
        return self.get(task_id)

    def retry(self, task_id: str) -> Task:
        """Try a task again that failed or was cancelled; or now, if it waits for its next attempt."""
        self._call("POST", _path(f"{_DRUID}/task", task_id, "/retry"))
        return self.get(task_id)

    def leader(self) -> Leadership | None:
        """Return the overlord that leads; None if none does now."""
        with self._reading("GET", "/carnac/v1/leader") as answer:
            found = answer["leader"]
            return None if found is None else _value(Leadership, found)

    def close(self) -> None:
        """Close connections. Idempotent."""
        self._http.close()

    @contextmanager
    def _reading(self, method: str, path: str, **how: Any) -> Iterator[dict[str, Any]]:
        """Yield the object that is answered; an object without the parts that are read is no overlord's answer."""
        data = self._call(method, path, **how)
        try:
            yield _object(parse_json(data, "answer", limit=ANSWER_MAX_BYTES))
        except (KeyError, TypeError, ValueError, Invalid) as error:
            said = f"its answer has no {error}" if isinstance(error, KeyError) else str(error)
            raise Unavailable(
                f"the server at {self._url} is no overlord of this version: {one_line(said)}",
                url=self._url,
            ) from error

    def _call(self, method: str, path: str, **how: Any) -> bytes:
        try:
            answer, data = self._request(method, path, **how)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = one_line(str(error)) or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in said:
                said += "; name the file of the certificates to trust in SSL_CERT_FILE"
            raise Unavailable(
                f"no overlord answers at {self._url}: {said}",
                url=self._url,
            ) from error
        if not answer.is_success:
            raise _error(answer, data, self._url)
        return data

    def _request(self, method: str, path: str, **how: Any) -> tuple[httpx.Response, bytes]:
        """Return the answer; a request that only reads is sent once more if the connection breaks.

        A server closes a connection that is idle for a while, and may do so in the moment in which it is used again.
        """
        try:
            return self._ask(method, path, **how)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            if method != "GET":
                raise
            return self._ask(method, path, **how)

    def _ask(self, method: str, path: str, **how: Any) -> tuple[httpx.Response, bytes]:
        """Return the answer, which has limits; a log may be with the leader, an order goes nowhere else."""
        until_ms = self._clock.now_ms() + ANSWER_TIMEOUT_MS
        is_reading = method == "GET"
        data = bytearray()
        with self._http.stream(method, path, follow_redirects=is_reading, **how) as answer:
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > ANSWER_MAX_BYTES or self._clock.now_ms() > until_ms:
                    raise Unavailable(
                        f"the answer of {self._url} does not come to an end: {len(data)} bytes so far",
                        url=self._url,
                    )
        return answer, bytes(data)


def _path(before: str, task_id: str, after: str = "") -> str:
    """Return a path with a task's id in it."""
    return f"{before}/{quote(check_name(task_id, 'the id of a task'), safe='')}{after}"


def _error(answer: httpx.Response, data: bytes, url: str) -> CarnacError:
    """Return the error that an answer tells of."""
    try:
        body = _object(parse_json(data, "answer", limit=ANSWER_MAX_BYTES))
        message, name = one_line(_text(body["error"])), _text(body["errorClass"])
        ids = {key: one_line(str(value)) for key, value in _object(body["context"]).items()}
    except (ValueError, KeyError, TypeError, Invalid):
        return Unavailable(
            f"the server at {url} is no overlord: it answers {answer.status_code} {one_line(answer.reason_phrase)}",
            url=url,
        )
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        message += f"; name them in its address: {answer.url.scheme}://NAME:PASSWORD@{answer.url.netloc.decode()}"
    default = Invalid if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR else Unavailable
    error = _KINDS.get(name, default)(message)
    error.ids |= ids
    return error


def _value(kind: type[T], record: object) -> T:
    """Return the value whose JSON form (`core.json_form`) a record is; fields that are not known are left out."""
    found = _object(record)
    values: dict[str, Any] = dict(_NOT_TOLD)
    for field in fields(kind):
        key = name_in_json(field.name)
        value = found.get(key)
        if value is not None and key != field.name:
            value = parse_instant(_text(value))
        elif value is not None and field.name in _AS_TEXT:
            value = json.dumps(value, ensure_ascii=False)
        if key in found:
            values[field.name] = value
    try:
        made = convert(values, kind)
    except ValidationError as error:
        raise TypeError(f"its {kind.__name__.lower()} is another one: {error}") from None
    for field in fields(kind):
        one = getattr(made, field.name)
        for text in one if isinstance(one, tuple) else (one,):
            if isinstance(text, str):
                check_text(text, f"{field.name} of its {kind.__name__.lower()}")
    return made


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is not an object")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a text")
    return value
