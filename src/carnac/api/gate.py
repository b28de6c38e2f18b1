"""The gate in front of an application: limits on clients and their origin, and on the size and pace of requests.

A request that does not pass is answered here before its body is read, in one sentence and with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from carnac.api.access import ASKING
from carnac.api.hosts import Hosts, is_own_site
from carnac.api.problems import CHALLENGE, Refused, problem, shown_path, status_of
from carnac.core.texts import check_name
from carnac.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from fastapi import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from carnac.api.access import Access

BODY_MAX_BYTES = 8 << 20
"""Specs hold inline rows at most; larger data is not put into a task."""
BODIES_MAX_BYTES = 64 << 20
"""Maximum size of the bodies of all running requests; further clients are told to retry."""
BODY_TIMEOUT_S = 60.0
"""A body that is not whole by then is given up."""
URL_MAX_BYTES = 8 << 10
HEADERS_MAX_BYTES = 32 << 10
HEADS_KEPT = 64
"""Heads that passed and are not looked at again: a client sends the same ones each time."""
TEXT_TYPE = "text/plain"
FORM_TYPE = "application/x-www-form-urlencoded"
BYTES_TYPE = "application/octet-stream"
JSON_TYPES = ("application/json", "application/x-json", "text/json")
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing here."""
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
]
"""With every answer: pages of other sites neither show it nor run it."""
_log = logging.getLogger(__name__)


class _Head(NamedTuple):
    """The parts of a request by which it is decided whether it may be answered."""

    method: str
    path: str
    raw_path: bytes
    query_string: bytes
    headers: tuple[tuple[bytes, bytes], ...]


def _head_of(scope: Scope) -> _Head:
    return _Head(
        scope["method"],
        scope["path"],
        scope["raw_path"],
        scope["query_string"],
        tuple(map(tuple, scope["headers"])),
    )


@dataclass
class _Room:
    """Bytes of bodies that are held now; of one event loop."""

    used_bytes: int = 0


class Gate:
    """Lets requests in that may be answered.

    Args:
        hosts: The names under which the server may be asked.
        text_paths: Paths where a body may be plain text, or a form. Pages of other sites can send these, but browsers
            name the site of the page, so the gate refuses them.
        bytes_paths: Paths where JSON may have the type of bytes, which pages of other sites cannot send unasked either.
        shortcuts: Applications that give the same answer in less time, by method and path.
        access: Tells who asks, and whether they may; None: everybody may.
        own_paths: Paths of which the application tells who asks, by the body, where no header says it.
        forms: Functions that make the answer to a client that may not ask, by the beginnings of paths where clients
            read another form.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        text_paths: Collection[str] = (),
        bytes_paths: Collection[str] = (),
        own_paths: Collection[str] = (),
        shortcuts: Mapping[tuple[str, str], ASGIApp] = MappingProxyType({}),
        access: Access | None = None,
        forms: Mapping[str, Callable[[HTTPStatus, str], Response]] = MappingProxyType({}),
    ) -> None:
        self._app = app
        self._forms = forms
        self._access = access
        self._shortcuts = shortcuts
        self._hosts = hosts
        self._text_paths = frozenset(text_paths)
        self._bytes_paths = frozenset(bytes_paths)
        self._own_paths = frozenset(own_paths)
        self._check_head = lru_cache(HEADS_KEPT)(self._check)
        self._room = _Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        try:
            self._check_head(_head_of(scope))
        except Refused as refusal:
            # the type is checked last: a path without an answer fails as such, whatever its type
            if refusal.status is not HTTPStatus.UNSUPPORTED_MEDIA_TYPE or _is_answered(scope):
                _log.warning("%s %s: %s", scope["method"], shown_path(scope), refusal.message)
                await problem(refusal.status, refusal.message, kind="refused")(scope, receive, send)
                return
        authorization = _authorization(scope)
        is_own = authorization is None and scope["path"].rstrip("/") in self._own_paths
        if self._access is None or (is_own and scope["method"] == "POST"):
            await self._answer(scope, receive, send)
            return
        try:
            user = await self._access.admit(scope["method"], scope["path"], authorization)
        except (Refused, Unavailable) as refusal:
            _log.warning("%s %s: %s", scope["method"], shown_path(scope), refusal.message)
            await self._denied(scope, refusal)(scope, receive, send)
            return
        asking = ASKING.set(user)
        try:
            await self._answer(scope, receive, send)
        finally:
            ASKING.reset(asking)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(receive, self._room)
        app = self._shortcuts.get((scope["method"], scope["path"]), self._app)
        try:
            await app(scope, body.receive, send)
        finally:
            body.close()

    def _denied(self, scope: Scope, refusal: Refused | Unavailable) -> Response:
        """Return the answer to somebody who may not ask; it says how they tell who they are."""
        status = status_of(refusal) if isinstance(refusal, Unavailable) else refusal.status
        forms = (form for start, form in self._forms.items() if scope["path"].startswith(start))
        form = next(forms, None)
        if form is not None:
            answer = form(status, refusal.message)
        else:
            kind = refusal.kind if isinstance(refusal, Unavailable) else "refused"
            answer = problem(status, refusal.message, kind=kind)
        if status is HTTPStatus.UNAUTHORIZED:
            answer.headers["www-authenticate"] = CHALLENGE
        return answer

    def _check(self, head: _Head) -> None:
        headers = {name: value.decode("latin-1") for name, value in head.headers}
        _check_sizes(head, headers.get(b"content-length", "0"))
        _check_texts(head)
        host = headers.get(b"host", "")
        if not self._hosts.is_known(host):
            raise Refused(
                HTTPStatus.FORBIDDEN,
                f"this server is not {_shown(host) or 'without a name'}; ask by its address, or add the name to the "
                "setting http_hosts",
            )
        if head.method not in _READING:
            self._check_origin(headers, host)
            self._check_type(head, headers)

    def _check_origin(self, headers: Mapping[bytes, str], host: str) -> None:
        """Check that no page of another site asks: the browser says where it is from."""
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        is_strange = site is not None and not is_own_site(site)
        if is_strange or (origin is not None and not self._hosts.is_own_page(origin, host)):
            raise Refused(
                HTTPStatus.FORBIDDEN,
                f"a page of {_shown(origin or 'another site')} may change nothing here; add its name to the setting "
                "http_hosts if it is yours",
            )

    def _check_type(self, head: _Head, headers: Mapping[bytes, str]) -> None:
        """Check that the body is JSON, which no page of another site can send unasked; nor can it send DELETE.

        A request without a body needs no type: Airflow ends a task with one. If a page sends it, the browser names the
        site of the page.
        """
        kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        if not kind and (head.method == "DELETE" or _has_no_body(headers)):
            return
        if kind in {TEXT_TYPE, FORM_TYPE} and head.path.rstrip("/") in self._text_paths:
            return
        if kind == BYTES_TYPE and head.path.rstrip("/") in self._bytes_paths:
            return
        if kind not in JSON_TYPES:
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"the body must be application/json, and is {_shown(kind) or 'of no type'}; send the header "
                "'Content-Type: application/json'",
            )


def _authorization(scope: Scope) -> str | None:
    """Return what the header `Authorization` says; None: it is not there."""
    found = (value for name, value in scope["headers"] if name == b"authorization")
    value = next(found, None)
    return None if value is None else value.decode("latin-1")


def _has_no_body(headers: Mapping[bytes, str]) -> bool:
    """Whether a head says that nothing follows it."""
    return b"transfer-encoding" not in headers and int(headers.get(b"content-length", "0")) == 0


def _is_answered(scope: Scope) -> bool:
    """Whether the application has an answer to the method and the path, other than that it has none."""
    from starlette.routing import Match

    plain = {**scope, "path": scope["path"].rstrip("/") or "/"}
    return any(route.matches(plain)[0] is Match.FULL for route in scope["app"].routes)


class _Body:
    """The body of one request, as far as it has come."""

    def __init__(self, receive: Receive, room: _Room) -> None:
        self._receive = receive
        self._room = room
        self._until_s: float | None = None
        self._is_whole = False
        self._size_bytes = 0

    async def receive(self) -> Message:
        """Return the next piece.

        Raises:
            Refused: It is too long, or too slow, or others are in the way.
        """
        if self._is_whole:
            return await self._receive()
        if self._until_s is None:
            self._until_s = asyncio.get_running_loop().time() + BODY_TIMEOUT_S
        try:
            async with asyncio.timeout_at(self._until_s):
                message = await self._receive()
        except TimeoutError:
            raise Refused(
                HTTPStatus.REQUEST_TIMEOUT,
                f"the body was not whole after {BODY_TIMEOUT_S:g} seconds",
            ) from None
        self._count(message)
        return message

    def _count(self, message: Message) -> None:
        self._is_whole = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self._size_bytes += size
        self._room.used_bytes += size
        if self._size_bytes > BODY_MAX_BYTES:
            raise too_large()
        if self._room.used_bytes > BODIES_MAX_BYTES:
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too many long requests are being answered; ask again later",
            )

    def close(self) -> None:
        """Give its room back."""
        self._room.used_bytes -= self._size_bytes
        self._size_bytes = 0


def too_large() -> Refused:
    """Return the refusal of a body that is too long."""
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {BODY_MAX_BYTES} bytes; put rows into files, not into the task",
    )


def _check_sizes(head: _Head, said: str) -> None:
    if len(head.raw_path) + len(head.query_string) > URL_MAX_BYTES:
        raise Refused(
            HTTPStatus.REQUEST_URI_TOO_LONG, f"the address is longer than {URL_MAX_BYTES} bytes"
        )
    if sum(len(name) + len(value) for name, value in head.headers) > HEADERS_MAX_BYTES:
        raise Refused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the headers are longer than {HEADERS_MAX_BYTES} bytes",
        )
    if not (said.isascii() and said.isdigit()):
        raise Refused(HTTPStatus.BAD_REQUEST, "Content-Length is not a whole number")
    if len(said) > len(str(BODY_MAX_BYTES)) or int(said) > BODY_MAX_BYTES:
        raise too_large()


def _check_texts(head: _Head) -> None:
    """Check that path and query are UTF-8: a lenient decoder would make another request of other bytes."""
    try:
        unquote_to_bytes(head.raw_path).decode()  # a task of any id can be cancelled
        for part in re.split(b"[&=]", head.query_string):
            check_name(unquote_to_bytes(part).decode(), "a part of the query")
    except UnicodeDecodeError:
        raise Refused(
            HTTPStatus.BAD_REQUEST, "the address holds bytes that are not UTF-8"
        ) from None
    except Invalid as error:
        raise Refused(HTTPStatus.BAD_REQUEST, error.message) from None


def _shown(text: str) -> str:
    """Return what a client sent, for a sentence."""
    return ascii(text[:100])[1:-1]


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *_HEADERS]
        await send(message)

    return with_headers
