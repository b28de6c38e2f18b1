"""Places over HTTP: what travels, what a writer sees, and a server of its own."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from carnac.api.allocation import REQUEST_LIMIT, serve
from carnac.api.server import make_listener
from carnac.core.locks.events import ReleaseLocks
from carnac.core.locks.model import LockGranularity, LockType
from carnac.core.log.allocation import (
    AllocationLock,
    AllocationRequest,
    Denied,
    PendingSegment,
)
from carnac.core.log.allocation_records import (
    pending_id_of,
    read_reply,
    reply_to_json,
    request_from_json,
    request_to_json,
)
from carnac.core.log.commits import Numbered, Place
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Conflict, Invalid, Revoked, Unavailable
from carnac.jobs.ingest.places import PlaceTaker
from carnac.metadata.store import MetadataStore
from carnac.rows.merge_task import Ask, Given, Own
from tests.locks import hours, wants
from tests.support.behind import called_behind

LOCK = AllocationLock(
    group_id="g",
    type=LockType.EXCLUSIVE,
    granularity=LockGranularity.SEGMENT,
    priority=50,
    timeout_ms=1_000,
    lease_ms=60_000,
    holder="h",
)
FIRST = AllocationRequest(
    datasource="events", at_ms=5, segment_granularity="day", sequence="s", owner="task", lock=LOCK
)


@pytest.fixture
def store(memory_store: MetadataStore) -> MetadataStore:
    return memory_store


@pytest.fixture
def url(store: MetadataStore) -> Iterator[str]:
    with serve(store) as found:
        yield found


def taken(taker: PlaceTaker, folder: Path, *names: str) -> list[str]:
    """Let a taker make writers of these segments; return where it put them."""
    for name in names:
        taker.make_writer(
            str(folder), f"segments/{name}.parquet", (), temp_dir=str(folder)
        ).discard()
    return [f"{place.segment_id} {number_of(place)}" for place in taker.places]


def number_of(place: Place) -> int:
    if isinstance(place, Numbered):
        return place.partition_id
    return int(place.pending_id.rpartition("_")[2])


def hosts_here() -> list[str]:
    """Return names of this machine for itself; not each machine has an address of version 6."""
    try:
        make_listener("::1", 0).close()
    except OSError:
        return ["localhost"]
    return ["localhost", "::1"]


@pytest.mark.parametrize("host", hosts_here())
def test_it_is_asked_by_the_host_at_which_it_listens(
    store: MetadataStore, host: str, tmp_path: Path
) -> None:
    with serve(store, host=host) as url:
        assert urlsplit(url).hostname == host
        assert taken(PlaceTaker(Ask(url=url, first=FIRST)), tmp_path, "a") == ["a 0"]


@pytest.mark.parametrize("lock", [None, LOCK])
def test_requests_travel(lock: AllocationLock | None) -> None:
    request = replace(FIRST, lock=lock, previous_id="p", lease_id="l")
    assert request_from_json(json.loads(json.dumps(request_to_json(request)))) == request


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"at_ms": "noon"}, "'at_ms' of a request for a place must be a whole number, not a text"),
        ({"at_ms": 0.5}, "must be a whole number, not a fraction"),
        ({"owner": ""}, "'owner' of a request for a place must be a text that is not empty"),
        ({"sequence": None}, "'sequence' of a request for a place must be a text, not null"),
        ({"previous": "a"}, "has no 'previous'; it has at_ms, .* previous_id, "),
        ({"lock": 3}, "'lock' of a request for a place must be an object or null, not a whole"),
        ({"lock": {}}, "'lock' of a request for a place needs 'group_id'"),
        (
            {"lock": {**request_to_json(FIRST)["lock"], "type": "huge"}},  # type: ignore[dict-item]
            "'lock.type' of a request for a place cannot be 'huge'",
        ),
    ],
)
def test_what_is_no_request_is_told_in_our_words(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        request_from_json({**request_to_json(FIRST), **wrong})


def test_what_is_no_object_is_no_request() -> None:
    with pytest.raises(Invalid, match="a request for a place must be an object, not a list"):
        request_from_json([1])
    with pytest.raises(Invalid, match="a request for a place needs 'datasource'"):
        request_from_json({})


@pytest.mark.parametrize("kind", [Conflict, Revoked, Unavailable])
def test_who_is_denied_hears_why(kind: type[CarnacError]) -> None:
    reply = Denied(error=kind("no"))
    with pytest.raises(kind, match="no"):
        read_reply(json.loads(json.dumps(reply_to_json(reply))))
    with pytest.raises(kind):
        pending_id_of(reply)


@pytest.mark.http
class TestOverHttp:
    def test_a_merge_gets_one_place_after_the_other(
        self, store: MetadataStore, url: str, tmp_path: Path
    ) -> None:
        ask = Ask(url=url, first=FIRST)
        assert taken(PlaceTaker(ask), tmp_path, "a", "b") == ["a 0", "b 1"]
        assert taken(PlaceTaker(ask), tmp_path, "x", "y", "z") == ["x 0", "y 1", "z 2"], "again"
        assert len(store.pending_segments()) == 3
        assert [lock.granularity for lock in store.locks()] == [LockGranularity.SEGMENT]
        with urllib.request.urlopen(f"{url}?owner=task") as answer:
            assert [one["partition_id"] for one in json.load(answer)] == [0, 1, 2]

    def test_who_waits_for_a_lock_asks_again(
        self, store: MetadataStore, url: str, tmp_path: Path
    ) -> None:
        store.change_locks(wants("alone", hours(0, 24)))
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                store.change_locks(ReleaseLocks(task_id="alone"))

        assert taken(PlaceTaker(Ask(url=url, first=FIRST), pause=pause), tmp_path, "a") == ["a 0"]
        assert pauses == [0.05, 0.1]

    def test_and_gives_up_in_time(self, store: MetadataStore, url: str, tmp_path: Path) -> None:
        store.change_locks(wants("alone", hours(0, 24)))
        pauses: list[float] = []
        taker = PlaceTaker(Ask(url=url, first=FIRST), pause=pauses.append)
        with pytest.raises(Unavailable, match="waited in vain"):
            taken(taker, tmp_path, "a")
        assert sum(pauses) >= 1

    def test_a_preempted_owner_is_told_to_stop(
        self, store: MetadataStore, url: str, tmp_path: Path
    ) -> None:
        taker = PlaceTaker(Ask(url=url, first=FIRST))
        taken(taker, tmp_path, "a")
        store.change_locks(wants("high", hours(0, 24), priority=90))
        with pytest.raises(Revoked, match="preempted"):
            taken(taker, tmp_path, "b")
        assert list(tmp_path.rglob("*.part")) == []

    def test_nonsense_is_a_sentence(self, url: str, tmp_path: Path) -> None:
        wrong = replace(FIRST, segment_granularity="never")
        with pytest.raises(Unavailable, match="never"):
            taken(PlaceTaker(Ask(url=url, first=wrong)), tmp_path, "a")

    def test_nobody_there(self, tmp_path: Path) -> None:
        pauses: list[float] = []
        ask = Ask(url="http://127.0.0.1:9/carnac/v1/allocations", first=FIRST)
        with pytest.raises(Unavailable, match="is the overlord there"):
            taken(PlaceTaker(ask, pause=pauses.append), tmp_path, "a")
        assert len(pauses) == 7

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"<html>", "is not valid JSON"),
            (b"1", "not a list of 1 replies"),
            (b"[]", "not a list of 1 replies"),
            (b"[[[[", "is not valid JSON"),
            (b"[" * 100_000, "nested deeper than"),
            (b'["x"]', "is this another server?"),
            (b'[{"status": "allocated"}]', "is this another server?"),
        ],
    )
    @pytest.mark.parametrize("status", [200, 500])
    def test_somebody_else_there(
        self, tmp_path: Path, body: bytes, words: str, status: int
    ) -> None:
        with answering(status, body) as url, pytest.raises(CarnacError) as caught:
            taken(PlaceTaker(Ask(url=url, first=FIRST), pause=lambda _: None), tmp_path, "a")
        assert (words if status == 200 else "HTTP 500") in caught.value.message
        assert caught.value.message.isprintable()


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that says the same to everybody."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "", size: object = "") -> None:
            del code, size

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.http
def test_clients_who_ask_together_share_a_transaction_and_nonsense_of_one_is_its_own(
    store: MetadataStore, url: str
) -> None:
    """All but the first ask while the queue of the store is at work for another."""
    commits: list[str] = []
    store._database._on_statement = commits.append  # type: ignore[attr-defined]
    wrong = replace(FIRST, sequence="w", segment_granularity="never", lock=None)
    asked = [*(replace(FIRST, sequence=f"s{n}", lock=None) for n in range(8)), wrong]
    calls = [partial(answer_to, url, [one]) for one in asked]
    found = called_behind(store, calls, before=commits.clear)
    *answers, (status, said) = (one.result() for one in found)
    assert (status, "never" in said) == (400, True)
    numbers = [json.loads(text)[0]["partition_id"] for _, text in answers]
    assert sorted(numbers) == [*range(8)]
    assert commits.count("COMMIT") == 1


@pytest.mark.http
def test_too_many_places_at_once_are_refused(url: str) -> None:
    status, said = answer_to(url, [FIRST] * (REQUEST_LIMIT + 1))
    assert (status, "at most 500" in said) == (400, True)


def answer_to(url: str, requests: Sequence[AllocationRequest]) -> tuple[int, str]:
    """Ask over HTTP; return status and body."""
    body = json.dumps([request_to_json(one) for one in requests]).encode()
    asked = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_an_answer_does_not_wait_for_the_client_to_acknowledge_its_first_packet() -> None:
    with (
        make_listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_own_numbers_and_given_places(tmp_path: Path) -> None:
    own = PlaceTaker(Own(chunk=Interval(0, 9), first=5, step=3))
    assert taken(own, tmp_path, "a", "b", "c") == ["a 5", "b 8", "c 11"]
    assert all(isinstance(place, Numbered) for place in own.places)
    given = PlaceTaker(Given(pending_ids=("p_4",)))
    assert taken(given, tmp_path, "a", "b") == ["a 4"], "what is beyond is left to publish"


def test_a_place_as_a_word(store: MetadataStore) -> None:
    (reply,) = store.allocate([FIRST])
    assert isinstance(reply, PendingSegment)
    assert read_reply(reply_to_json(reply)) == pending_id_of(reply) == reply.pending_id
    assert reply.pending_id == (
        "events_1970-01-01T00:00:00.000Z_1970-01-02T00:00:00.000Z_2014-01-01T00:00:00.000Z_0"
    )
