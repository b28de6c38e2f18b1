"""What the gate lets in: names, pages, kinds of bodies, sizes; each refusal is one sentence and one line in the log."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from carnac.api.bodies import JsonObject
from carnac.api.gate import BODIES_MAX_BYTES, BODY_MAX_BYTES, HEADERS_MAX_BYTES, URL_MAX_BYTES, Gate
from carnac.api.hosts import Hosts, hosts_of
from carnac.api.problems import add_handlers
from carnac.core.json_text import VALUES_MAX, TooManyValues, check_count, parse_json
from carnac.core.tasks.model import TaskState
from carnac.core.texts import NESTING_MAX, WHOLE_MAX
from carnac.errors import Invalid
from tests.tasks import wants
from tests.unit.api.conftest import Overlord, Submit

API = "/druid/indexer/v1"
JSON = {"content-type": "application/json"}
KILL = {"type": "kill", "dataSource": "events", "id": "k"}
SHUT_DOWN = f"{API}/datasources/events/shutdownAllTasks"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was logged so far; never with a traceback."""
    caplog.set_level(logging.INFO, "carnac")

    def said() -> list[str]:
        assert all(record.exc_info is None for record in caplog.records), caplog.text
        return [record.getMessage() for record in caplog.records if record.name != "httpx"]

    return said


def sentence(answer: httpx.Response) -> str:
    """The sentence of a refusal."""
    said = str(answer.json()["error"])
    assert "\n" not in said
    return said


# ------------------------------------------------------------------------------------ who may ask


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "evil.example.com:8090", "one.evil.com", "", "a b", "[::2", "10.0.0.7"],
)
def test_a_name_of_somebody_else_is_refused(
    overlord: Overlord, host: str, lines: Callable[[], list[str]]
) -> None:
    headers = {**JSON, "host": host, "origin": f"http://{host}"}
    answer = overlord.http.post(f"{API}/task", json=KILL, headers=headers)
    assert (answer.status_code, "http_hosts" in sentence(answer)) == (403, True)
    assert overlord.http.get("/status", headers={"host": host}).status_code == 403
    assert not overlord.tasks.list()
    assert len(lines()) == 2


@pytest.mark.parametrize(
    "host", ["one", "ONE:8090", "one.", "localhost:1", "127.0.0.1:8090", "[::1]:8090"]
)
def test_its_own_names_and_those_of_the_loopback_interface_are_taken(
    overlord: Overlord, host: str
) -> None:
    assert overlord.http.get("/status/health", headers={"host": host}).json() is True


def test_which_names_are_its_own() -> None:
    here = hosts_of(
        "127.0.0.1", url="http://overlord.corp:8090", more=["Carnac.Example", "[fd00::7]"]
    )
    assert all(
        map(here.is_known, ["overlord.corp", "carnac.example:80", "[fd00::7]:1", "127.8.9.1"])
    )
    assert not any(map(here.is_known, ["10.0.0.7", "example", "carnac.example.evil.com", "a@b"]))
    anywhere = hosts_of("0.0.0.0")
    assert anywhere.is_known("10.0.0.7:8090")
    assert anywhere.is_known("[2001:db8::1]")
    assert not anywhere.is_known("evil.example.com")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example.com"},
        {"origin": "http://one:9999"},
        {"origin": "null"},
        {"origin": "http://one:port"},
        {"origin": "file://one:8090"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://one:8090", "sec-fetch-site": "cross-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(
    overlord: Overlord, submit: Submit, headers: dict[str, str]
) -> None:
    submit("a")
    for path in (SHUT_DOWN, f"{API}/task/a/shutdown", f"{API}/task"):
        answer = overlord.http.post(path, headers={**JSON, **headers})
        assert (answer.status_code, "may change nothing" in sentence(answer)) == (403, True)
    assert not overlord.tasks.get("a").state.is_over
    assert overlord.http.get(f"{API}/tasks", headers=headers).status_code == 200


def test_a_form_of_another_site_is_not_obeyed(overlord: Overlord, submit: Submit) -> None:
    """As a browser sends `<form method=post action=…>`, an old one without `Sec-Fetch-Site`."""
    submit("a")
    form = {"content-type": "application/x-www-form-urlencoded"}
    for more in ({"origin": "http://evil.example.com", "sec-fetch-site": "cross-site"}, {}):
        answer = overlord.http.post(SHUT_DOWN, headers={**form, **more}, content="a=b")
        assert answer.status_code in {403, 415}
    assert not overlord.tasks.get("a").state.is_over


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_method_or_a_path_that_is_not_there_is_told_whatever_the_body_is(
    overlord: Overlord, slash: str
) -> None:
    for headers in ({}, {"content-type": "text/plain"}, JSON):
        assert (
            overlord.http.request("PUT", f"{API}/task{slash}", headers=headers).status_code == 405
        )
        assert overlord.http.post(f"{API}/tusk{slash}", headers=headers).status_code == 404


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "a/b\\x"])
def test_an_order_of_another_type_is_refused_also_without_a_body(
    overlord: Overlord, submit: Submit, kind: str
) -> None:
    submit("a")
    for path in (SHUT_DOWN, f"{API}/task/a/shutdown", f"{API}/task"):
        answer = overlord.http.post(path, headers={"content-type": kind})
        assert answer.status_code == 415
        assert "send the header 'Content-Type: application/json'" in sentence(answer)
    own = {**JSON, "origin": "http://one:8090", "sec-fetch-site": "same-origin"}
    assert overlord.http.post(SHUT_DOWN, headers=own).json() == {"dataSource": "events"}


def test_an_order_without_a_body_needs_no_type(overlord: Overlord, submit: Submit) -> None:
    """As Airflow's hook ends a task that takes too long: `requests.post(url)`."""
    submit("a")
    path = f"{API}/task/a/shutdown"
    page = overlord.http.post(path, headers={"origin": "http://evil.example.com"})
    some = overlord.http.post(path, headers={}, content=b"{}")
    perhaps = overlord.http.post(path, headers={"transfer-encoding": "chunked"}, content=b"")
    assert [one.status_code for one in (page, some, perhaps)] == [403, 415, 415]
    assert not overlord.tasks.get("a").state.is_over
    assert overlord.http.post(f"{API}/task", headers={}).status_code == 400
    assert overlord.http.post(path, headers={}).json() == {"task": "a"}
    assert overlord.tasks.get("a").state.is_over


def test_a_trusted_page_may_ask_through_a_proxy_that_asks_by_another_name() -> None:
    hosts = hosts_of("127.0.0.1", more=["carnac.corp"])
    assert hosts.is_own_page("https://carnac.corp", "127.0.0.1:8090")
    assert hosts.is_own_page("https://carnac.corp", "carnac.corp")
    assert hosts.is_own_page("http://localhost:8090", "localhost:8090")
    assert not hosts.is_own_page("http://localhost:3000", "localhost:8090")


# ------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize("task_id", ["a\0b", "a\nb", "a\x85b", "x" * 300])
def test_what_a_store_has_from_before_is_cancelled(overlord: Overlord, task_id: str) -> None:
    overlord.metadata.change_tasks(wants(task_id))
    path = f"{API}/task/{quote(task_id, safe='')}"
    assert overlord.http.get(f"{path}/status").json()["task"] == task_id
    assert [one["id"] for one in overlord.http.get(f"{API}/tasks").json()] == [task_id]
    answer = overlord.http.post(f"{path}/shutdown", json={})
    assert (answer.status_code, answer.json()) == (200, {"task": task_id})
    assert overlord.tasks.get(task_id).state is TaskState.CANCELLED


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{API}/task/a%00b", 404),
        (f"{API}/task/a%0Ab/status", 404),
        (f"{API}/task/a%C2%85b", 404),
        (f"{API}/task/%ED%A0%80", 400),
        (f"{API}/task/%FF", 400),
        (f"{API}/tasks?datasource=%00", 400),
        (f"{API}/tasks?datasource=%C3", 400),
        (f"{API}/task/{'a' * 256}", 404),
        (f"{API}/task/a%2Fb", 404),
        (f"{API}/task/{'a' * URL_MAX_BYTES}", 414),
        (f"{API}/tasks?type={'a' * URL_MAX_BYTES}", 414),
    ],
)
def test_what_is_no_text_is_no_address(
    overlord: Overlord, path: str, status: int, lines: Callable[[], list[str]]
) -> None:
    answer = overlord.http.get(path)
    assert answer.status_code == status
    assert sentence(answer)
    assert all(line.isprintable() and len(line) < 400 for line in lines())


def test_headers_have_a_limit(overlord: Overlord) -> None:
    answer = overlord.http.get("/status", headers={"x-a": "a" * HEADERS_MAX_BYTES})
    assert answer.status_code == 431
    assert str(HEADERS_MAX_BYTES) in sentence(answer)


def test_answers_are_not_for_other_sites_pages(overlord: Overlord) -> None:
    for path in ("/", "/status", f"{API}/nothing"):
        headers = overlord.http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "default-src 'none'" in headers["content-security-policy"]


# ------------------------------------------------------------------------------------ bodies


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1' + "0" * 23 + "}", "needs more than 64 bits"),
        ('{"a": -' + "9" * 5_000 + "}", "needs more than 64 bits"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": NaN}', "NaN is no number in JSON"),
        ('{"a":' * 900 + "1" + "}" * 900, f"nested deeper than {NESTING_MAX} levels"),
        ("[" * 1_000_000, "more than"),
        ("[" * 100_000, f"nested deeper than {NESTING_MAX} levels"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\udc00": 1}', "half of a surrogate pair"),
        ('{"type": "kill", "type": "kill"}', "type is given more than once"),
        ('{"a": "\xff"}', "not UTF-8: byte 7"),
        ('{"a": "\x01"}', "not valid JSON: line 1, column 8"),
        ("", "not valid JSON: line 1, column 1"),
        ('"', "not valid JSON"),
        ('"\\', "not valid JSON"),
    ],
)
def test_json_that_is_refused(
    overlord: Overlord, text: str, words: str, lines: Callable[[], list[str]]
) -> None:
    answer = overlord.http.post(f"{API}/task", content=text.encode("latin-1"), headers=JSON)
    assert answer.status_code in {400, 413}
    assert words in sentence(answer)
    assert len(sentence(answer)) < 300
    assert lines() == [] or len(lines()) == 1


def test_what_is_within_the_limits_is_read() -> None:
    deep = "[" * NESTING_MAX + "]" * NESTING_MAX
    assert parse_json(deep.encode(), "it")
    assert parse_json(
        f'["[{{", {WHOLE_MAX}, -{WHOLE_MAX}, "\\ud83d\\ude00", "\\\\ud800"]'.encode(), "it"
    )
    texts = '["' + "[" * 1_000_000 + '\\"' + "," * 1_000_000 + '"]'
    check_count(texts.encode(), "body")
    assert parse_json(texts.encode(), "it"), "what is inside of a text does not count"
    with pytest.raises(TooManyValues, match=f"more than {VALUES_MAX} values"):
        check_count(("[" + "0," * VALUES_MAX + "0]").encode(), "body")
    with pytest.raises(Invalid, match="nested"):
        parse_json((f'"{"x" * 100}", ' + "[" * (NESTING_MAX + 1)).encode(), "it")


def test_a_byte_order_mark_before_json_is_passed_over() -> None:
    assert parse_json('\ufeff{"a": 1}'.encode(), "it") == {"a": 1}
    assert parse_json('\ufeff[""]', "it") == [""]
    with pytest.raises(Invalid, match="not valid JSON: line 1, column 1"):
        parse_json("\ufeff\ufeff{}", "it")
    with pytest.raises(Invalid, match="not UTF-8: byte 0"):
        parse_json('{"a": 1}'.encode("utf-16"), "it")


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that Python took while it did something."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def pieces(size_bytes: int) -> AsyncIterator[bytes]:
    """A body that does not say how long it is."""

    async def send() -> AsyncIterator[bytes]:
        for _ in range(size_bytes >> 16):
            yield b"[" * (1 << 16)

    return send()


@pytest.mark.slow
def test_a_body_that_is_too_long_is_refused_and_never_held(
    overlord: Overlord, lines: Callable[[], list[str]]
) -> None:
    size = 30 << 20
    said = {**JSON, "content-length": str(size)}

    def post(content: object, headers: dict[str, str]) -> None:
        answer = overlord.http.post(f"{API}/task", content=content, headers=headers)
        assert answer.status_code == 413
        assert f"larger than {BODY_MAX_BYTES} bytes" in sentence(answer)

    post(b"", said)
    one = peak_bytes(lambda: post(pieces(1 << 20), said))
    assert one < BODY_MAX_BYTES / 4, "its length was told, so nothing of it was read"
    whole = peak_bytes(lambda: post(pieces(size), JSON))
    assert whole < 3 * BODY_MAX_BYTES
    assert len(lines()) == 3


@pytest.mark.slow
def test_the_worst_body_that_is_read_has_a_limit_in_memory() -> None:
    """30 MiB took a gigabyte once: the number of values is bounded, not their bytes alone."""
    body = b"[" + b"{}," * (VALUES_MAX // 2 - 2) + b"{}]"
    assert (
        peak_bytes(lambda: (check_count(body, "body"), parse_json(body, "body"))) < 200 * VALUES_MAX
    )

    def refused() -> None:
        with pytest.raises(TooManyValues):
            check_count(b"[" + b'"",' * (BODY_MAX_BYTES // 3) + b"0]", "body")

    assert peak_bytes(refused) < 200 * VALUES_MAX


class Client:
    """Sends one body to the application, piece by piece."""

    def __init__(self, *messages: dict[str, object], hosts: Hosts | None = None) -> None:
        self._messages: Iterator[dict[str, object]] = iter(messages)
        self.statuses: list[int] = []

    async def receive(self) -> dict[str, object]:
        found = next(self._messages, None)
        if found is None:  # a client that is silent
            await asyncio.Event().wait()
        assert found is not None
        return found

    async def send(self, message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(int(str(message["status"])))

    def post(self, app: object) -> list[int]:
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"{API}/task",
            "raw_path": f"{API}/task".encode(),
            "query_string": b"",
            "headers": [(b"host", b"one"), (b"content-type", b"application/json")],
        }
        asyncio.run(app(scope, self.receive, self.send))  # type: ignore[operator]
        return self.statuses


def test_an_upload_that_is_given_up_is_one_line(
    overlord: Overlord, lines: Callable[[], list[str]]
) -> None:
    piece = {"type": "http.request", "body": b"{", "more_body": True}
    client = Client(piece, piece, {"type": "http.disconnect"})
    assert client.post(overlord.app) == [400]
    assert lines() == [f"POST {API}/task: the client left after 2 bytes of the body"]


def test_a_body_that_does_not_come_is_given_up(
    lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.api.gate.BODY_TIMEOUT_S", 0.01)
    app = FastAPI()
    add_handlers(app)
    app.add_middleware(Gate, hosts=hosts_of("one"))

    @app.post(f"{API}/task")
    def take(body: JsonObject) -> None:
        raise AssertionError(body)

    piece = {"type": "http.request", "body": b"{", "more_body": True}
    assert Client(piece).post(app) == [408]
    assert len(lines()) == 1


@pytest.mark.slow
def test_bodies_of_several_clients_have_a_limit_together(overlord: Overlord) -> None:
    """Clients that have sent all but the end of a long body, and then one more."""
    count = BODIES_MAX_BYTES // BODY_MAX_BYTES

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app=overlord.app, raise_app_exceptions=False)
        go_on, waiting = asyncio.Event(), 0

        async def slow() -> AsyncIterator[bytes]:
            nonlocal waiting
            yield b"[" + b" " * (BODY_MAX_BYTES - 2)
            waiting += 1
            if waiting == count:
                go_on.set()
            await go_on.wait()
            yield b"]"

        async with httpx.AsyncClient(transport=transport, base_url="http://one") as client:
            post = [
                asyncio.create_task(client.post(f"{API}/taskStatus", content=slow(), headers=JSON))
                for _ in range(count)
            ]
            await go_on.wait()
            late = await client.post(f"{API}/taskStatus", content=b"[" + b" " * 4096, headers=JSON)
            return [late.status_code, *(one.status_code for one in await asyncio.gather(*post))]

    statuses = asyncio.run(ask())
    assert set(statuses) == {503, 400} or set(statuses) == {400}
    after = overlord.http.post(f"{API}/taskStatus", json=["x"])
    assert after.json() == {}, "their room was given back"
