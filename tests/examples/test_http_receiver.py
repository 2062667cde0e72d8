"""The receiver over HTTP: what a client can rely on, whatever happens to the connection; the owner's side of
it; and somebody else's client, the one of stripe."""

import contextlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest
import requests
import stripe
import urllib3

from receiptlab.cli.commands import main
from receiptlab.contracts import relay as sending
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import SCHEMA, Receiver, Writer
from receiptlab.contracts.relay import Message, Relay
from receiptlab.errors import Indefinite, InjectedFault, NotWritten, Refused, WrongValue
from receiptlab.examples.http_receiver import Service
from receiptlab.examples.http_sender import Remote, Unanswered, look_up_over_http, over_http
from receiptlab.store import Store
from receiptlab.values import sha256
from tests.conftest import RESULT, WORK

ROOT = Path(__file__).parents[2]
KEY = {"Idempotency-Key": "key-1"}
MESSAGE = Message(1, "shop/key-1", "shop/order-17", 1, 1, sha256("result 1"))
WAIT_S = 20
MAX_BODY = 1_048_576


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "receiver.db", SCHEMA, timeout_ms=300) as store:
        yield store


@pytest.fixture
def service(request, store):
    """A service over the store; with the parameter "damaged", over a damaged file."""
    if getattr(request, "param", "") == "damaged":
        yield request.getfixturevalue("damaged")
        return
    with Service(store, patience_ms=5_000).running() as service:
        yield service


@pytest.fixture
def pending(tmp_path):
    """An owner's file with two accepted results that are pending."""
    with Store.create(tmp_path / "owner.db", sending.SCHEMA) as store:
        owner = Owner(store)
        for number in (1, 2):
            named = {"work": f"order-{number}"}
            owner.add(**WORK | named, revision=1, epoch=1, policy="policy-1", now=0)
            owner.claim(**WORK | named, actor="worker-a", now=100, until=160)
            owner.accept(**RESULT | named | {"key": f"key-{number}"})
        yield Relay(store)


class Answer:
    def __init__(self, answer):
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()

    def json(self):
        return json.loads(self.body)

    def problem(self):
        told = self.json()
        assert self.headers["Content-Type"] == "application/problem+json"
        assert sorted(told) == ["detail", "reason", "status", "title", "type"]
        assert told["status"] == self.status
        return self.status, told["reason"]


def connect(service):
    return http.client.HTTPConnection(*service.server_address, timeout=WAIT_S)


def ask(service, method, path, headers=None, body=None):
    with contextlib.closing(connect(service)) as connection:
        connection.request(method, path, body, headers or {})
        return Answer(connection.getresponse())


def post(service, headers=KEY, body=b"amount=1", path="/v1/charges"):
    return ask(service, "POST", path, headers, body)


def wait_until(what, count):
    """The result of `what` when it has so many parts."""
    deadline = time.monotonic() + WAIT_S
    while len(found := what()) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_more_requests_than_may_wait_are_answered_and_not_written(store):
    """One request is held at a failpoint and two wait behind it. The rest are refused at once."""
    held, go = threading.Event(), threading.Event()

    def hold(point):
        if point == "before_commit" and not held.is_set():
            held.set()
            assert go.wait(WAIT_S)

    with Service(store, max_waiting=2).running() as service, ThreadPoolExecutor(8) as clients:
        service.failpoint = hold
        asked = [clients.submit(post, service, {"Idempotency-Key": "key-0"})]
        assert held.wait(WAIT_S)
        asked += [clients.submit(post, service, {"Idempotency-Key": f"key-{n}"}) for n in range(1, 7)]
        done = wait_until(lambda: [each for each in asked if each.done()], 4)
        refused = [each.result() for each in done]
        assert {answer.problem() for answer in refused} == {(503, "overloaded")}
        assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
        go.set()
        answers = [answer.result() for answer in asked]
    assert sorted(answer.status for answer in answers) == [200] * 3 + [503] * 4
    assert Receiver(store).counted()[1] == 3, "an effect for each 200, and none for a 503"


def raw(service, *parts, end=True):
    """What comes back for these bytes. `end` says that nothing more will come."""
    with socket.create_connection(service.server_address, timeout=WAIT_S) as connection:
        for part in parts:
            connection.sendall(part)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def read_all(connection):
    told = b""
    for _ in range(1_000):
        part = connection.recv(65_536)
        if not part:
            return told
        told += part
    raise AssertionError("it never ends")


def head(*lines, request="POST /v1/charges HTTP/1.1"):
    return "\r\n".join([request, "Host: localhost", *lines, "", ""]).encode("latin-1")


def counts(store):
    return dict(zip(Receiver.COUNTS, Receiver(store).counted(), strict=True))


def effects(store):
    return counts(store)["effects"]


def writer_headers(writer, fence=1):
    named = {"Owner": writer.owner, "Generation": writer.generation, "Instance": writer.instance}
    named |= {"Subject": "shop/order-17", "Revision": 1, "Fence": fence}
    return {f"Receiver-{name}": str(value) for name, value in named.items()}


# The key.


def test_a_replay_is_the_same_to_the_byte(service, store):
    first, again = post(service), post(service)
    assert (first.status, again.status, first.body) == (200, 200, again.body)
    assert (first.headers.get("Idempotent-Replayed"), again.headers["Idempotent-Replayed"]) == (None, "true")
    assert effects(store) == 1
    assert first.json() | {"accepted_at": 0} == {
        "owner": "anyone", "key": "key-1", "id": 1, "generation": 1, "accepted_at": 0,
    }  # fmt: skip


def test_a_replay_is_the_same_after_the_service_was_started_anew(store):
    bodies = []
    for _ in range(2):
        with Service(store).running() as service:
            bodies.append(post(service).body)
    assert bodies[0] == bodies[1]
    assert counts(store) == {"writers": 1, "effects": 1, "refusals": 0, "restore receipts": 0}


@pytest.mark.parametrize(
    "other",
    [
        {"body": b"amount=2"},
        {"body": b""},
        {"body": b"amount=1\n"},
        {"path": "/v1/refunds"},
        {"path": "/v1/charges?a=1"},
        {"path": "/v1/charges/"},
    ],
)
def test_a_key_that_comes_with_another_request_is_422(service, store, other):
    post(service)
    answer = post(service, **other)
    assert answer.problem() == (422, "key-reused")
    assert answer.json()["title"] == "Idempotency-Key is already used"
    assert "draft-ietf-httpapi-idempotency-key-header" in answer.json()["type"]
    assert counts(store) == {"writers": 1, "effects": 1, "refusals": 1, "restore receipts": 0}
    assert post(service).status == 200


def test_a_missing_key_is_400(service, store):
    assert post(service, {}).problem() == (400, "key-missing")
    assert effects(store) == 0


@pytest.mark.parametrize(
    "value",
    [b"", b" ", b'""', b'"', b'"a', b'"a"b"', b'"a\\b"', b'"a";p=1', b'"a" "b"', b'"a\\"', b"a b", b"a;p=1", b'a"b', b'a"', b"a\\b", b"a,", "名前".encode(), "a\u00a0".encode(), b"\xff", b"a\tb", b"a\x7fb", b"a\x01b", b'"\t"', "a\x85b".encode(), b"a" * 1_101, b"a" * 10_000, "\u00e9".encode() * 551],
)  # fmt: skip
def test_a_malformed_key_is_400(service, store, value):
    assert post(service, {"Idempotency-Key": value}).problem() == (400, "key-malformed")
    assert effects(store) == 0


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"a", "a"),
        (b'"a"', "a"),
        (b"  a  ", "a"),
        (b'"a\\"b\\\\c"', 'a"b\\c'),
        (b'"a, b;c"', "a, b;c"),
        ('"名前"'.encode(), "名前"),
        (b"wJq+/4=_.~:@a|b'c(d)<e>", "wJq+/4=_.~:@a|b'c(d)<e>"),
        (b"a" * 1_100, "a" * 1_100),
    ],
)
def test_how_a_key_can_be_written(service, value, key):
    assert post(service, {"Idempotency-Key": value}).json()["key"] == key


@pytest.mark.parametrize("joined", ["key-1, key-1", "key-1,key-1", '"key-1", "key-1"', 'key-1, "key-1"'])
def test_a_key_that_was_sent_twice_and_joined_is_400(service, store, joined):
    """A proxy may join the two; taken as it is, that would be another key and a second effect."""
    assert post(service).status == 200
    assert post(service, {"Idempotency-Key": joined}).problem() == (400, "key-malformed")
    assert effects(store) == 1


def test_quoted_and_bare_are_one_key(service, store):
    first = post(service, {"Idempotency-Key": '"abc"'})
    again = post(service, {"Idempotency-Key": "abc"})
    assert (again.body, again.headers["Idempotent-Replayed"]) == (first.body, "true")
    assert effects(store) == 1


def test_many_at_once_with_one_key_are_one_effect(service, store):
    together = threading.Barrier(8, timeout=WAIT_S)

    def one(_):
        together.wait()
        return post(service)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert sorted(answer.headers.get("Idempotent-Replayed", "") for answer in answers) == ["", *["true"] * 7]
    assert effects(store) == 1


def test_one_that_comes_while_the_first_still_runs_waits_and_gets_its_answer(store):
    """The draft's 409 does not occur."""
    inside, go_on = threading.Event(), threading.Event()

    def failpoint(point):
        if point == "after_effect":
            inside.set()
            assert go_on.wait(WAIT_S)

    store.timeout_ms = WAIT_S * 1_000
    with Service(store).running() as service, ThreadPoolExecutor(2) as pool:
        service.failpoint = failpoint
        first = pool.submit(post, service)
        assert inside.wait(WAIT_S)
        second = pool.submit(post, service)
        assert not second.done()
        go_on.set()
        assert (first.result().status, second.result().status) == (200, 200)
        assert second.result().headers["Idempotent-Replayed"] == "true"
        assert second.result().body == first.result().body


def test_a_lock_that_is_not_had_in_time_is_503_and_nothing_is_written(service, store):
    with store.write():
        answer = post(service)
    assert answer.problem() == (503, "SQLITE_BUSY")
    assert answer.headers["Retry-After"] == "1"
    assert effects(store) == 0
    assert post(service).headers.get("Idempotent-Replayed") is None


def test_a_statement_that_fails_is_503(service, store):
    with store.write() as db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON effect BEGIN SELECT RAISE(ABORT, 'full'); END")
    assert post(service).problem() == (503, "SQLITE_CONSTRAINT_TRIGGER")
    assert effects(store) == 0


@pytest.mark.parametrize(
    ("error", "status", "again"),
    [
        (NotWritten("SQLITE_FULL", "no room"), 503, "1"),
        (Indefinite("SQLITE_IOERR", "COMMIT failed"), 500, None),
    ],
)
def test_what_was_not_written_is_503_and_what_nobody_knows_is_500(service, error, status, again):
    def failpoint(point):
        if point == "before_commit":
            raise error

    service.failpoint = failpoint
    answer = post(service)
    assert answer.problem() == (status, error.reason)
    assert (answer.headers["Retry-After"], answer.headers["Stripe-Should-Retry"]) == (again, None)


def not_again(answer, status, reason):
    """The answer asks nobody to come again."""
    assert answer.problem() == (status, reason)
    assert (answer.headers["Retry-After"], answer.headers["Stripe-Should-Retry"]) == (None, "false")


def damage(path):
    """Destroy the table of effects and its indexes, in a file that is closed. It can still be opened."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        pages = db.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'effect'").fetchall()
        [(size,)] = db.execute("PRAGMA page_size")
    with path.open("r+b") as file:
        for (page,) in pages:
            file.seek((page - 1) * size)
            file.write(b"\xff" * size)


@pytest.fixture
def damaged(tmp_path):
    """A service over a damaged file."""
    path = tmp_path / "damaged.db"
    Store.create(path, SCHEMA).close()
    damage(path)
    with Store.open(path) as store, Service(store).running() as service:
        yield service


def test_a_damaged_file_asks_nobody_to_come_again(damaged):
    not_again(post(damaged), 500, "damaged")
    not_again(ask(damaged, "GET", "/effects?owner=anyone&key=key-1"), 500, "damaged")


def test_a_commit_that_meets_damage_asks_nobody_to_come_again(service):
    def failpoint(point):
        if point == "before_commit":
            raise Indefinite("damaged", "COMMIT failed; stop, and restore a backup")

    service.failpoint = failpoint
    not_again(post(service), 500, "damaged")


def test_a_file_that_was_overwritten_asks_nobody_to_come_again(service, store):
    store.path.write_bytes(b"\xff" * store.path.stat().st_size)
    not_again(post(service), 503, "not-sqlite")


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
def test_a_file_that_was_removed_gets_no_effects(service, store):
    with contextlib.closing(connect(service)) as connection:
        connection.request("POST", "/a", b"", KEY)
        assert Answer(connection.getresponse()).status == 200
        store.path.unlink()
        connection.request("POST", "/b", b"", {"Idempotency-Key": "key-2"})
        not_again(Answer(connection.getresponse()), 503, "gone")
    not_again(post(service), 503, "gone")


# Writers.


def test_a_writer_writes_by_its_identity(service, store):
    writer = Remote(service.url, 5_000).register("shop", "host-a")
    answer = post(service, KEY | writer_headers(writer))
    assert answer.json()["owner"] == "shop"
    assert store.read("SELECT owner, generation, subject, revision, fence FROM effect") == [("shop", 1, "shop/order-17", 1, 1)]  # fmt: skip
    assert post(service).json()["owner"] == "anyone"  # the same key of another owner


def test_unknown_and_fenced_writers_are_403(service, store):
    remote = Remote(service.url, 5_000)
    old = remote.register("shop", "host-a")
    assert post(service, KEY | writer_headers(Writer("shop", 7, "host-z"))).problem() == (
        403,
        "writer-unknown",
    )
    assert remote.register("shop", "host-b").generation == 2
    assert post(service, KEY | writer_headers(old)).problem() == (403, "writer-fenced")
    with pytest.raises(Refused, match="writer-fenced"):
        remote.register("shop", "host-a")
    assert counts(store)["refusals"] == 2


def test_a_lower_fence_is_412(service):
    writer = Remote(service.url, 5_000).register("shop", "host-a")
    post(service, KEY | writer_headers(writer, fence=2))
    other = {"Idempotency-Key": "key-2"}
    assert post(service, other | writer_headers(writer, fence=1)).problem() == (412, "fence")
    assert post(service, other | writer_headers(writer, fence=2)).status == 200


@pytest.mark.parametrize(
    "change",
    [
        {"Receiver-Owner": None},
        {"Receiver-Fence": None},
        {"Receiver-Fence": "-1"},
        {"Receiver-Fence": "1_0"},
        {"Receiver-Fence": "1" * 5_000},
        {"Receiver-Instance": ""},
        {"Receiver-Subject": b"a\xff"},
        {"Receiver-Owner": "shop, shop"},
        {"Receiver-Instance": '"host-a", "host-a"'},
        {"Receiver-Subject": "a;b"},
        {"Receiver-Fence": "1, 1"},
    ],
)
def test_half_a_writer_is_400(service, store, change):
    writer = Remote(service.url, 5_000).register("shop", "host-a")
    headers = {name: value for name, value in (writer_headers(writer) | change).items() if value is not None}
    assert post(service, KEY | headers).problem() == (400, "writer")
    assert effects(store) == 0


@pytest.mark.parametrize("change", [{"Receiver-Fence": "9" * 19}, {"Receiver-Subject": "s" * 1_101}])
def test_what_the_contract_does_not_take_is_400(service, store, change):
    writer = Remote(service.url, 5_000).register("shop", "host-a")
    assert post(service, KEY | writer_headers(writer) | change).problem() == (400, "wrong-argument")
    assert effects(store) == 0


def test_registering_needs_both_names(service):
    assert post(service, {"Receiver-Owner": "shop"}, path="/writers").problem() == (400, "writer")


def test_whom_the_service_writes_for_can_be_fenced(store):
    with Service(store, "shop").running() as service:
        assert post(service).json()["owner"] == "shop"
        assert Remote(service.url, 5_000).register("shop", "host-b").generation == 2
        assert post(service, {"Idempotency-Key": "key-2"}).problem() == (403, "writer-fenced")
    with pytest.raises(Refused, match="writer-fenced"):
        Service(store, "shop")


# Looking.


def test_looking_up(service):
    told = post(service, {"Idempotency-Key": '"a b/ü"'.encode()}).json()
    assert ask(service, "GET", "/effects?owner=anyone&key=a+b%2F%C3%BC").json() == told
    assert ask(service, "GET", "/effects?owner=anyone&key=other").problem() == (404, "not-found")
    assert ask(service, "GET", "/known?owner=anyone&subject=request").json() == {"fence": 0, "revision": 0}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?owner=a",
        "?key=a",
        "?owner=a&key=b&key=c",
        "?owner=a&key=b&more=c",
        "?owner=%FF&key=a",
        "?owner",
    ],
)
def test_a_query_that_asks_for_something_else_is_400(service, query):
    assert ask(service, "GET", f"/effects{query}").problem() == (400, "query")


def test_a_query_that_the_contract_does_not_take_is_400(service):
    assert ask(service, "GET", "/effects?owner=&key=a").problem() == (400, "wrong-argument")
    assert ask(service, "GET", "/effects?owner=a&key=" + "k" * 1_101).problem() == (400, "wrong-argument")


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/writers", 405, "POST"),
        ("POST", "/effects?owner=a&key=b", 405, "GET"),
        ("POST", "/known", 405, "GET"),
        ("PUT", "/v1/charges", 405, "POST"),
        ("PATCH", "/v1/charges", 405, "POST"),
        ("DELETE", "/effects", 405, "GET"),
        ("OPTIONS", "/v1/charges", 405, "POST"),
        ("HEAD", "/effects", 405, "GET"),
        ("FLY", "/v1/charges", 501, None),
        ("GET", "/v1/charges", 404, None),
    ],
)
def test_other_methods_and_paths(service, store, method, path, status, allow):
    answer = ask(service, method, path, KEY, b"amount=1" if method != "GET" else None)
    assert (answer.status, answer.headers["Allow"]) == (status, allow)
    assert answer.body == b"" if method == "HEAD" else answer.problem()
    assert effects(store) == 0


# Bodies and connections.

LONG = f"Content-Length: {MAX_BODY + 1}"
CHUNKED = "Transfer-Encoding: chunked"
EXPECT = "Expect: 100-continue"
HIDDEN = head("Idempotency-Key: hidden", "Content-Length: 0")
LENGTH = f"Content-Length: {len(HIDDEN)}"
OTHER_HOST = head(LENGTH, "Idempotency-Key: k").replace(b"localhost", b"example.test")


def chunked(*parts):
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        # Lengths.
        *((head("Idempotency-Key: k", f"Content-Length: {length}") + b"1", 400) for length in ("x", "-1", "+1", "1_0", "", "1, 2", "9" * 21)),
        (head("Idempotency-Key: k", "Content-Length: 1", "Content-Length: 2") + b"12", 400),
        (head("Idempotency-Key: k", "Content-Length: 1", CHUNKED) + chunked(b"1"), 400),
        (head("Idempotency-Key: k", CHUNKED) + b"x\r\n1\r\n0\r\n\r\n", 400),
        (head("Idempotency-Key: k", LONG, EXPECT), 413),
        (head("Content-Length: 4", EXPECT, request="PUT /a HTTP/1.1"), 405),
        # Header lines.
        *((head("Connection: close", "Content-Length: 0", "Idempotency-Key: a", line), 400) for line in ("X: a\rb: c", "X: a\x00b", "no colon", ": no name", "N\xe4me: a", "X : a", "Idempotency-Key: b", "idempotency-key: a", "Receiver-Owner: shop\r\n\tx", "Host: localhost")),
        (head("Connection: close", "Content-Length: 0", "Idempotency-Key: a\r\n b"), 400),
        (head("Content-Length: 0", "Idempotency-Key: a\rReceiver-Owner: shop"), 400),
        # Request lines.
        *((head("Content-Length: 0", "Idempotency-Key: k", request=line), 400) for line in ("POST", "POST / a HTTP/1.1", "POST  /a HTTP/1.1", "POST\t/a\tHTTP/1.1", "POST /a HTTP/1.01", "POST /a HTTP/x", "POST /a HTTP/1.1 ", "P\xd6ST /a HTTP/1.1", "POST /\xe9 HTTP/1.1", "POST /a\x0b HTTP/1.1", "POST /a\x01 HTTP/1.1", "POST /a\x7f HTTP/1.1")),
        *((head("Content-Length: 0", "Idempotency-Key: k", request=f"POST {target} HTTP/1.1"), 400) for target in ("//v1/charges", "http://localhost/writers", "*", "abc", "/a#b")),
        *((head("Content-Length: 0", "Idempotency-Key: k", request=f"POST /a HTTP/{version}"), 505) for version in ("0.9", "1.7", "3.0")),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        # The body of a refused request must not be taken for the next request.
        (head(LENGTH, request="PUT /a HTTP/1.1") + HIDDEN, 405),
        (head(LENGTH, request="FLY /a HTTP/1.1") + HIDDEN, 501),
        (head(LENGTH, request="GET /a HTTP/1.1") + HIDDEN, 404),
        (head(CHUNKED, request="GET /effects HTTP/1.1") + HIDDEN, 400),
        (head(LENGTH, "Idempotency-Key: k", request="POST //a HTTP/1.1") + HIDDEN, 400),
        (head(LENGTH, "Idempotency-Key: k", request="POST /a HTTP/2.0") + HIDDEN, 505),
        (OTHER_HOST + HIDDEN, 400),
    ],
)  # fmt: skip
def test_a_malformed_or_refused_request_has_no_effect_and_closes_the_connection(service, store, sent, status):
    received = raw(service, sent, end=False)
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert received.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in received.lower()
    assert effects(store) == 0


@pytest.mark.parametrize(
    "sent",
    [
        *(head("Content-Length: 0", "Idempotency-Key: key-12345")[:-left_out] for left_out in (1, 2, 3, 4, 8)),
        *(head("Idempotency-Key: k", "Content-Length: 8") + b"amount=1"[:sent] for sent in (0, 1, 7)),
        head("Idempotency-Key: k", CHUNKED) + chunked(b"amount=1")[:-2],
    ],
)  # fmt: skip
def test_a_request_that_is_cut_has_no_effect(service, store, sent):
    assert raw(service, sent) == b""
    assert effects(store) == 0


def test_a_connection_that_is_reset_in_the_body_has_no_effect(service, store):
    connection = socket.create_connection(service.server_address, timeout=WAIT_S)
    connection.sendall(head("Idempotency-Key: k", "Content-Length: 8") + b"amo")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    assert post(service).status == 200
    assert effects(store) == 1


def test_a_client_may_close_its_sending_side_before_it_reads(service, store):
    assert raw(service, head("Idempotency-Key: k", "Content-Length: 0")).startswith(b"HTTP/1.1 200 ")
    assert effects(store) == 1


def test_a_chunked_body_is_the_same_request(service, store):
    first = post(service, body=b"amount=1")
    again = post(service, body=iter([b"amou", b"nt=1"]))
    assert (again.body, again.headers["Idempotent-Replayed"]) == (first.body, "true")
    assert effects(store) == 1


def test_the_longest_body_is_accepted_and_a_longer_one_is_413(service, store):
    longer = b"a" * (MAX_BODY + 1)
    assert post(service, body=b"a" * MAX_BODY).status == 200
    assert post(service, {"Idempotency-Key": "k"}, longer).problem() == (413, "too-large")
    assert post(service, {"Idempotency-Key": "k"}, iter([longer[:-9], longer[-9:]])).problem() == (
        413,
        "too-large",
    )
    assert effects(store) == 1


def test_a_slow_client_is_given_up(store):
    with Service(store, patience_ms=50).running() as service:
        received = raw(service, head("Idempotency-Key: k", "Content-Length: 8"), b"amo", end=False)
        assert received.startswith(b"HTTP/1.1 408 ")
        assert b'"reason": "slow"' in received
        for sent in (b"", b"POST", b"POST / HTTP/1.1\r\nHost"):
            assert raw(service, sent, end=False) == b""
    assert effects(store) == 0


def test_nothing_that_was_sent_comes_back_in_a_header(service):
    received = raw(
        service, head("Content-Length: 0", "Idempotency-Key: x-y-z", request="POST /q-r-s HTTP/1.1")
    )
    headers, _, body = received.partition(b"\r\n\r\n")
    assert b"x-y-z" in body
    assert b"x-y-z" not in headers and b"q-r-s" not in headers


def test_a_connection_serves_one_request_after_the_other(service, store):
    with contextlib.closing(connect(service)) as connection:
        for number in range(5):
            connection.request("POST", "/a", b"body", {"Idempotency-Key": f"key-{number}"})
            assert Answer(connection.getresponse()).json()["id"] == number + 1
        kept = connection.sock
        connection.request("POST", "/a", b"other body", {"Idempotency-Key": "key-0"})
        assert Answer(connection.getresponse()).problem() == (422, "key-reused")
        connection.request("POST", "/a", b"body", {})
        assert Answer(connection.getresponse()).problem() == (400, "key-missing")
        connection.request("GET", "/effects?owner=anyone&key=key-4")
        assert Answer(connection.getresponse()).json()["id"] == 5
        assert connection.sock is kept


def test_pipelined_requests_are_answered_one_by_one(service, store):
    one = head("Idempotency-Key: k", "Content-Length: 4") + b"body"
    last = head("Connection: close", request="GET /known?owner=anyone&subject=s HTTP/1.1")
    assert raw(service, one, one, last, end=False).count(b"HTTP/1.1 200 OK") == 3
    assert effects(store) == 1


def test_a_client_that_waits_for_100_continue_gets_it_before_its_body(service, store):
    with socket.create_connection(service.server_address, timeout=WAIT_S) as connection:
        connection.sendall(head("Idempotency-Key: k", "Content-Length: 4", "Expect: 100-Continue"))
        received = b""
        while not received.endswith(b"\r\n\r\n"):
            received += connection.recv(1)
        assert received.startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"body")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    assert effects(store) == 1


def test_a_client_of_http_1_0_gets_its_answer(service, store):
    lines = ["Idempotency-Key: k", "Content-Length: 4", EXPECT]
    received = raw(service, head(*lines, request="POST /a HTTP/1.0") + b"body", end=False)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert effects(store) == 1


@pytest.mark.parametrize(
    "other", ["/voil%C3%A0", "/VOIL", "/voil/", "/voil?a", "/./voil", "/voi%6C", "/voil|"]
)
def test_targets_are_compared_byte_by_byte(service, store, other):
    assert post(service, path="/voil").status == 200
    assert post(service, path=other).problem() == (422, "key-reused")
    assert effects(store) == 1


def test_another_loopback_address_can_be_served(store):
    try:
        service = Service(store, host="127.0.0.2")
    except OSError:
        pytest.skip("this computer has 127.0.0.1 only")
    with service.running():
        assert post(service).status == 200
        assert post(service, KEY | {"Host": "localhost:80"}).status == 200
        assert post(service, KEY | {"Host": "127.0.0.3"}).problem() == (400, "target")


@pytest.mark.parametrize(
    "host",
    [
        "Host: example.test",
        "Host: localhost.example.test",
        "Host: 127.0.0.1:x",
        "Host: 127.0.0.2",
        "Host: ",
        "X: y",
    ],
)
def test_a_request_for_another_host_is_400(service, store, host):
    sent = head("Idempotency-Key: k", "Content-Length: 0").replace(b"Host: localhost", host.encode())
    assert raw(service, sent, end=False).startswith(b"HTTP/1.1 400 ")
    assert effects(store) == 0


# Multipart: its boundary is drawn anew for each attempt.


def multipart(service, boundary, *parts, key="k", quoted=False):
    lines = [f"--{boundary}\r\n{part}\r\n" for part in parts]
    body = "".join([*lines, f"--{boundary}--\r\n"]).encode()
    kind = f'multipart/form-data; charset=utf-8; boundary="{boundary}"' if quoted else f"multipart/form-data; boundary={boundary}"  # fmt: skip
    return post(service, {"Idempotency-Key": key, "Content-Type": kind}, body)


FIELD = 'Content-Disposition: form-data; name="amount"\r\n\r\n{}'.format


def test_a_multipart_body_with_another_boundary_is_the_same_request(service, store):
    first = multipart(service, "aaaa", FIELD(1), FIELD("--aaa"))
    again = multipart(service, "b'()+_,-./:=?b", FIELD(1), FIELD("--aaa"), quoted=True)
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert effects(store) == 1


ODD_FIELD = FIELD("x\r\n--bbbb\r\n--aaaaZ\r\ny")  # it has lines that begin as a delimiter could


@pytest.mark.parametrize(
    ("boundary", "parts"),
    [
        ("aaaa", [FIELD(2), ODD_FIELD]),
        ("bbbb", [FIELD(1), ODD_FIELD]),
        ("cccc", [FIELD(1), ODD_FIELD + "z"]),
        ("cccc", [FIELD(1), ODD_FIELD.replace("aaaaZ", "ccccZ")]),
        ("cccc", [FIELD(1), ODD_FIELD.replace("bbbb", "cccc")]),
        ("cccc", [FIELD(1), ODD_FIELD, ""]),
        ("cccc", [ODD_FIELD, FIELD(1)]),
        ("cccc", [f"{FIELD(1)}\r\n{ODD_FIELD}"]),
    ],
)
def test_a_multipart_body_with_other_parts_is_422(service, store, boundary, parts):
    assert multipart(service, "aaaa", FIELD(1), ODD_FIELD).status == 200
    assert multipart(service, "cccc", FIELD(1), ODD_FIELD).headers["Idempotent-Replayed"] == "true"
    assert multipart(service, boundary, *parts).problem() == (422, "key-reused")
    assert effects(store) == 1


def test_the_pieces_of_a_multipart_body_cannot_be_sent_as_another_body(service):
    """Whatever the service computes of a multipart body, a body of other bytes is another request."""
    kind = {"Content-Type": "multipart/form-data; boundary=a"}
    first = post(service, KEY | kind, b"--a\r\n\r\nx\r\n--a--\r\n")
    assert first.status == 200
    for other in (b"0:5:\r\n\r\nx4:--\r\n", b"\r\n\r\nx--\r\n", b"--b\r\n\r\nx\r\n--b--\r\n"):
        assert post(service, KEY, other).problem() == (422, "key-reused")


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary="',
        "multipart/form-data; boundary=" + "a" * 71,
        "multipart/mixed; boundary*=utf-8''%C3%BC",
        "multipart/",
        "message/rfc822",
    ],
)
def test_a_content_type_that_says_no_boundary_leaves_the_bytes_to_compare(service, store, kind):
    assert post(service, KEY | {"Content-Type": kind}, b"--a\r\n").status == 200
    assert post(service, KEY | {"Content-Type": kind}, b"--a\r\n").headers["Idempotent-Replayed"] == "true"
    assert post(service, KEY | {"Content-Type": kind}, b"--b\r\n").problem() == (422, "key-reused")
    assert effects(store) == 1


@pytest.mark.parametrize("library", ["requests", "httpx"])
def test_files_that_common_clients_send_are_taken_once(service, store, library):
    client, headers = pytest.importorskip(library), {"Idempotency-Key": '"upload-1"'}

    def upload(content):
        files = {"invoice": ("invoice.txt", content, "text/plain")}
        return client.post(f"{service.url}/v1/files", data={"a": "1"}, files=files, headers=headers)

    first, again, other = upload(b"amount 5\r\n"), upload(b"amount 5\r\n"), upload(b"amount 6\r\n")
    assert first.request.headers["Content-Type"] != again.request.headers["Content-Type"]
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 422)
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    assert effects(store) == 1


def test_an_error_of_ours_is_one_line_and_no_answer(service, store, monkeypatch, capfd):
    monkeypatch.setattr(Receiver, "apply", lambda *told, **named: 1 / 0)
    with pytest.raises(http.client.RemoteDisconnected):
        post(service)
    monkeypatch.undo()
    assert post(service).status == 200
    told = capfd.readouterr().err
    assert told == "a request was left without an answer: ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "localhost", "example.org", "10.0.0.1"])
def test_it_listens_on_this_computer_alone(store, host):
    with pytest.raises(WrongValue, match="host"):
        Service(store, host=host)


def test_at_its_end_nobody_is_left_waiting(store):
    """An idle connection is closed, and a request that came whole is answered first."""
    inside, go_on, threads = threading.Event(), threading.Event(), threading.active_count()

    def failpoint(point):
        if point == "after_effect":
            inside.set()
            assert go_on.wait(WAIT_S)

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as idle:
        with Service(store).running() as service:
            service.failpoint = failpoint
            waiting = idle.enter_context(socket.create_connection(service.server_address, timeout=WAIT_S))
            running = pool.submit(post, service)
            assert inside.wait(WAIT_S)
            threading.Timer(0.1, go_on.set).start()
        assert running.result().status == 200
        assert running.result().headers["Connection"] == "close"
        assert waiting.recv(1) == b""
    assert threading.active_count() <= threads + 1
    assert effects(store) == 1


def test_the_service_closes_the_store_that_it_opened(store, monkeypatch):
    opened, closed, again, close = [], [], Store.again, Store.close
    monkeypatch.setattr(Store, "again", lambda self: opened.append(again(self)) or opened[-1])
    monkeypatch.setattr(Store, "close", lambda self: closed.append(self) or close(self))
    with Service(store).running() as service:
        for _ in range(3):
            post(service)
    assert len(opened) == 1
    assert opened == closed


# Somebody else's client.


@pytest.fixture
def heard(monkeypatch):
    """The key and body of every request that the client has sent."""
    sent, send = [], requests.adapters.HTTPAdapter.send

    def hear(self, request, *options, **more):
        body = request.body
        key = request.headers["Idempotency-Key"]
        sent.append((key, body.encode() if isinstance(body, str) else body))
        return send(self, request, *options, **more)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", hear)
    return sent


@pytest.fixture
def client(service, monkeypatch):
    """The client of stripe; its waits are left out, and it may go nowhere but to this computer."""
    connected, to = [], socket.socket.connect

    def connect(self, address):
        assert address[0] == "127.0.0.1", address
        connected.append(address)
        return to(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0)
    monkeypatch.setattr(stripe.HTTPClient, "MAX_DELAY", 0)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    transport = stripe.RequestsClient(timeout=WAIT_S)
    client = stripe.StripeClient(
        "sk_test_x", base_addresses={"api": service.url}, max_network_retries=2, http_client=transport
    )
    yield client
    transport.close()
    assert set(connected) == {service.server_address}


def pay(client, amount=100, **options):
    given = {"params": {"amount": amount, "currency": "eur"}}
    return client.v1.payment_intents.create(**given | ({"options": options} if options else {}))


def cut(service, point, times=1):
    """The connection is cut where the next requests come to `point`."""
    left = [None] * times

    def failpoint(here):
        if here == point and left:
            left.pop()
            raise InjectedFault(point)

    service.failpoint = failpoint


def test_the_client_of_stripe_writes_once(service, store, client, heard):
    assert pay(client).id == 1
    assert (len(heard), effects(store)) == (1, 1)


@pytest.mark.parametrize(("point", "replayed"), [("after_commit", "true"), ("before_commit", None)])
def test_a_cut_connection_is_one_effect_and_the_client_gets_its_answer(
    service, store, client, heard, point, replayed
):
    cut(service, point)
    answer = pay(client)
    assert answer.id == 1
    assert answer.last_response.headers.get("Idempotent-Replayed") == replayed
    assert len(heard) == 2
    assert heard[0] == heard[1]
    assert heard[0][0] and b"amount=100" in heard[0][1]
    assert effects(store) == 1


def test_a_locked_file_is_tried_again_by_the_client_itself(service, store, client, heard):
    def failpoint(point):
        if point == "before_commit" and len(heard) == 1:
            raise NotWritten("SQLITE_FULL", "no room")

    service.failpoint = failpoint
    assert pay(client).id == 1
    assert len(heard) == 2
    assert effects(store) == 1


def test_when_every_answer_is_lost_the_effect_is_there_and_the_key_finds_it(service, store, client, heard):
    cut(service, "after_commit", times=3)
    with pytest.raises(stripe.APIConnectionError):
        pay(client, idempotency_key="order-17")
    assert len(heard) == 3
    assert effects(store) == 1
    assert pay(client, idempotency_key="order-17").last_response.headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("service", ["damaged"], indirect=True)
def test_the_client_of_stripe_does_not_repeat_what_meets_a_damaged_file(service, client, heard):
    """It repeats a 500 and a 503 otherwise, as the tests above show."""
    with pytest.raises(stripe.APIError) as told:
        pay(client)
    assert told.value.http_status == 500
    assert len(heard) == 1


@pytest.mark.parametrize("service", ["damaged"], indirect=True)
def test_a_client_of_urllib3_that_follows_retry_after_does_not_repeat_it(service, monkeypatch):
    waits = []
    monkeypatch.setattr(urllib3.Retry, "sleep", lambda self, answer=None: waits.append(answer.status))
    retry = urllib3.Retry(2, allowed_methods=None)
    with urllib3.PoolManager(retries=retry) as pool:
        assert pool.request("POST", f"{service.url}/v1/charges", headers=KEY).status == 500
    assert waits == []


def test_a_client_of_urllib3_that_follows_retry_after_repeats_what_a_lock_kept_out(
    service, store, monkeypatch
):
    waits = []
    monkeypatch.setattr(urllib3.Retry, "sleep", lambda self, answer=None: waits.append(answer.status))
    retry = urllib3.Retry(1, allowed_methods=None, raise_on_status=False)
    with urllib3.PoolManager(retries=retry) as pool, store.write():
        assert pool.request("POST", f"{service.url}/v1/charges", headers=KEY).status == 503
    assert waits == [503]


def test_the_client_of_stripe_is_told_of_a_reused_key_at_once(service, store, client, heard):
    pay(client, idempotency_key="order-17")
    with pytest.raises(stripe.APIError) as told:
        pay(client, amount=200, idempotency_key="order-17")
    assert told.value.http_status == 422
    assert len(heard) == 2


# The owner's side.


def writer(service):
    return Remote(service.url, 5_000).register("shop", "host-a")


def test_what_is_owed_is_sent_and_acknowledged(service, store, pending, heard):
    receive = over_http(service.url, writer(service), 5_000)
    assert pending.send(receive, 10, 200) == (2, 0, 0, 0, "")
    assert pending.pending(10) == []
    assert store.read("SELECT key, subject, revision, fence FROM effect ORDER BY id") == [("shop/key-1", "shop/order-1", 2, 1), ("shop/key-2", "shop/order-2", 2, 1)]  # fmt: skip


def test_an_answer_that_is_lost_leaves_the_message_owed(service, store, pending):
    receive = over_http(service.url, writer(service), 5_000)
    cut(service, "after_commit")
    assert pending.send(receive, 10, 200) == (1, 0, 0, 1, "")
    assert [(entry.state, entry.detail) for entry in pending.delayed()] == [("unanswered", "no-answer")]
    assert (len(pending.pending(10)), effects(store)) == (1, 2)
    assert pending.send(receive, 10, 2_000) == (1, 0, 0, 0, "")
    assert (len(pending.pending(10)), effects(store), pending.reconciliation()) == (0, 2, [])


def test_without_keys_a_look_up_says_what_became_of_a_lost_answer(service, store, pending):
    receive = over_http(service.url, writer(service), 5_000)
    look_up = look_up_over_http(service.url, "shop", 5_000)
    cut(service, "after_commit")
    assert pending.send(receive, 10, 200, keyed=False, look_up=look_up) == (2, 0, 0, 0, "")
    assert (effects(store), pending.reconciliation()) == (2, [])
    assert pending.store.read("SELECT detail FROM relay ORDER BY outbox") == [("found by a lookup",), ("",)]
    with pytest.raises(Refused, match="not-found"):
        look_up(MESSAGE._replace(key="shop/other"))


def test_without_keys_and_look_up_a_lost_answer_is_for_a_person(service, store, pending):
    receive = over_http(service.url, writer(service), 5_000)
    cut(service, "after_commit")
    pending.send(receive, 10, 200, keyed=False)
    pending.send(receive, 10, 201, keyed=False)
    assert [(entry.key, entry.state) for entry in pending.reconciliation()] == [("shop/key-1", "unclear")]
    assert effects(store) == 2


def test_what_is_refused_is_for_a_person(service, store, pending):
    old = writer(service)
    Remote(service.url, 5_000).register("shop", "host-b")
    assert pending.send(over_http(service.url, old, 5_000), 10, 200).refused == 2
    assert {entry.detail for entry in pending.reconciliation()} == {"writer-fenced"}
    assert effects(store) == 0


def test_nobody_there_is_definite(service, pending):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert pending.send(over_http(url, Writer("shop", 1, "host-a"), 5_000), 10, 200, keyed=False).stopped == "unreachable"  # fmt: skip
    assert (len(pending.pending(10)), pending.reconciliation()) == (2, [])


def test_a_locked_receiver_is_definite(service, store, pending):
    receive = over_http(service.url, writer(service), 5_000)
    with store.write():
        assert pending.send(receive, 10, 200, keyed=False).stopped == "SQLITE_BUSY"
    assert (len(pending.pending(10)), pending.reconciliation()) == (2, [])


@contextlib.contextmanager
def stranger(said):
    """The address of something that answers one request with these bytes; with None it says nothing
    until it was waited for too long."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        done = threading.Event()

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.settimeout(WAIT_S)
                connection.recv(65_536)
                if said is not None or not done.wait(WAIT_S):
                    connection.sendall(answer(200, GOOD) if said is None else said)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            done.set()
            thread.join(WAIT_S)


def answer(status, body, kind="application/json", length=None):
    told = body.encode()
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length or len(told)}\r\n\r\n".encode()
        + told
    )


GOOD = '{"owner":"shop","key":"shop/key-1","id":1,"generation":1,"accepted_at":1}'
PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    "said",
    [
        None,
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"not HTTP at all\r\n\r\n",
        answer(200, GOOD, length=len(GOOD) + 1),
        answer(200, "<html>welcome</html>", "text/html"),
        answer(200, "[" * 50_000),
        answer(200, "{}"),
        answer(200, GOOD.replace("key-1", "key-2")),
        answer(200, GOOD.replace('"id":1', '"id":true')),
        answer(200, GOOD, length=10**12),
        b"HTTP/1.1 200 OK\r\n\r\n" + GOOD.encode(),
        answer(302, GOOD),
        answer(404, "<html>", "text/html"),
        answer(404, '{"reason":"not-found"}'),
        answer(404, "{}", PROBLEM),
        answer(403, '{"reason":"a\\u001bb"}', PROBLEM),
        answer(503, "<html>", "text/html"),
        answer(500, '{"reason":"SQLITE_IOERR"}', PROBLEM),
    ],
)
def test_what_is_no_word_of_a_receiver_leaves_it_open(said):
    for call in ("apply", "look_up"):
        with stranger(said) as url:
            remote = Remote(url, 300 if said is None else 5_000)
            given = (Writer("shop", 1, "host-a"), MESSAGE) if call == "apply" else ("shop", MESSAGE.key)
            with pytest.raises(Unanswered):
                getattr(remote, call)(*given)


def test_a_look_up_that_is_refused_otherwise_does_not_say_that_nothing_came(service):
    with pytest.raises(Unanswered, match="wrong-argument"):
        Remote(service.url, 5_000).look_up("", "shop/key-1")
    with stranger(answer(404, '{"reason":"no-such-path"}', PROBLEM)) as url, pytest.raises(Unanswered):
        Remote(url, 5_000).look_up("shop", "shop/key-1")


def test_names_of_any_kind_arrive_as_they_are(service, store):
    remote = Remote(service.url, 5_000)
    who = remote.register('s "hop\\ ü', " host; a=1, b ")
    message = MESSAGE._replace(key='"名前"/\\ ,;', subject=" subject ")
    assert remote.apply(who, message).outcome == "accepted"
    assert remote.apply(who, message).outcome == "replayed"
    assert remote.look_up(who.owner, message.key).outcome == "read"
    assert store.read("SELECT owner, key, subject FROM effect") == [(who.owner, message.key, message.subject)]
    assert remote.known(who.owner, " subject ") == Receiver(store).known(who.owner, " subject ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": "k" * 1_101}, "key-malformed"),
        ({"key": "a\r\nReceiver-Owner: x"}, "key-malformed"),
        ({"subject": "s" * 1_101}, "wrong-argument"),
        ({"fence": -1}, "writer"),
    ],
)
def test_a_message_that_cannot_be_taken_is_refused_and_holds_nothing_up(service, store, change, reason):
    with pytest.raises(Refused) as refused:
        Remote(service.url, 5_000).apply(writer(service), MESSAGE._replace(**change))
    assert refused.value.reason == reason
    assert effects(store) == 0


def test_the_key_stands_for_all_that_a_message_says(service):
    remote, who = Remote(service.url, 5_000), writer(service)
    remote.apply(who, MESSAGE)
    for change in ({"subject": "shop/x"}, {"revision": 2}, {"fence": 2}, {"digest": sha256("other")}):
        with pytest.raises(Refused, match="key-reused"):
            remote.apply(who, MESSAGE._replace(**change))


def test_a_restored_owner_asks_for_a_new_identity_and_jumps(service, pending):
    remote = Remote(service.url, 5_000)
    pending.write_as(remote.register("shop", "host-a"))
    pending.send(over_http(service.url, pending.writer(), 5_000), 10, 200)
    pending.write_as(remote.register("shop", "host-b"))
    pending.jump(remote, 300)
    assert pending.store.read("SELECT fence, revision FROM work") == [(2, 2), (2, 2)]
    assert remote.register("shop", "host-b") == pending.writer()


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1", "https://a", "http://", "http://a/b", "http://a?b", "http://a:x", "http://a:99999", "http://u@a", "http://a\r\nb", "http://ü"],
)  # fmt: skip
def test_an_address_that_is_none_is_a_wrong_value(url):
    with pytest.raises(WrongValue, match="base_url"):
        Remote(url, 1_000)


# The command.


def started(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "receiptlab", "receiver", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C reaches a child of a test in another way there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped(tmp_path, number):
    db = tmp_path / "receiver.db"
    bodies = []
    for _ in range(2):  # the file is made, and then opened
        process = started("--db", str(db), "--owner", "shop")
        with contextlib.closing(http.client.HTTPConnection(*listens(process), timeout=WAIT_S)) as one:
            one.request("POST", "/v1/charges", b"amount=1", KEY)
            bodies.append(Answer(one.getresponse()).body)
            process.send_signal(number)  # with a connection that is kept
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    assert bodies[0] == bodies[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["receiver.db"]
    with Store.open(db) as store:
        assert store.read("SELECT owner, key FROM effect") == [("shop", "key-1")]


def listens(process):
    host, port = process.stdout.readline().split()[2].rstrip(",").removeprefix("http://").split(":")
    return host, int(port)


def keep_asking(address, name, answered, keep):
    """Requests, one after the other, until the service has gone; at most 2,000. `answered` gets the keys."""
    connection = None
    for number in range(2_000):
        try:
            connection = connection or http.client.HTTPConnection(*address, timeout=WAIT_S)
            key = f"{name}-{number}"
            connection.request("POST", "/a", b"x", {"Idempotency-Key": key})
            answer = Answer(connection.getresponse())
        except (OSError, http.client.HTTPException):
            return
        assert answer.status in (200, 503)  # 503: on a busy computer one may wait too long for the lock
        if answer.status == 200:
            answered.put(key)
        if not keep or answer.headers["Connection"] == "close":
            connection.close()
            connection = None


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C reaches a child of a test in another way there")
@pytest.mark.parametrize("keep", [True, False], ids=["connections kept", "a connection each"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_busy_command_stops_and_what_it_answered_is_in_the_file(tmp_path, number, keep):
    db, answered = tmp_path / "receiver.db", SimpleQueue()
    process = started("--db", str(db))
    address = listens(process)
    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(keep_asking, address, name, answered, keep) for name in "abcd"]
        keys = [answered.get(timeout=WAIT_S) for _ in range(40)]
        process.send_signal(number)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert [client.result() for client in clients] == [None] * 4
    assert (process.returncode, err) == (0, "")
    while not answered.empty():
        keys.append(answered.get())
    with Store.open(db) as store:
        assert set(keys) <= {key for (key,) in store.read("SELECT key FROM effect")}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a signal is sent to one thread")
def test_a_signal_that_another_thread_receives_stops_the_command_too(tmp_path):
    """Under load the system may choose any thread for it."""
    process = started("--db", str(tmp_path / "receiver.db"))
    try:
        address = listens(process)
        with socket.create_connection(address, timeout=WAIT_S):  # a connection has a thread
            threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
            other = next(number for number in threads if number != process.pid)
            os.kill(other, signal.SIGTERM)
            _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")


FEW_FILES = """if True:
    import resource, sys
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    from receiptlab.cli.commands import main
    sys.exit(main(sys.argv[1:]))"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the time of a process is read in /proc")
def test_out_of_file_descriptors_it_rests_and_recovers(tmp_path):
    db = tmp_path / "receiver.db"
    arguments = [sys.executable, "-c", FEW_FILES, "receiver", "--db", str(db)]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = listens(process)
        with contextlib.ExitStack() as idle:
            kept = idle.enter_context(socket.create_connection(address, timeout=WAIT_S))
            for _ in range(60):
                idle.enter_context(socket.create_connection(address, timeout=WAIT_S))
            awaited(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) == 40)
            kept.sendall(
                head("Idempotency-Key: k", "Content-Length: 0")
            )  # no descriptor is left for the file
            told = kept.recv(65_536)
            assert told.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nRetry-After: 1\r\n" in told
            before, passed = used(process.pid), time.monotonic()
            time.sleep(1)
            assert used(process.pid) - before < (time.monotonic() - passed) / 4
        awaited(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) < 30)
        with contextlib.closing(http.client.HTTPConnection(*address, timeout=WAIT_S)) as one:
            one.request("POST", "/v1/charges", b"amount=1", KEY)
            assert Answer(one.getresponse()).status == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")


def used(pid):
    """The seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def awaited(what):
    deadline = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def refused(capsys, *arguments):
    assert main(["receiver", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    return line


def test_files_that_cannot_be_used_get_a_sentence(tmp_path, capsys, pending):
    other = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE a (b)")
    assert "of another application" in refused(capsys, "--db", str(other))
    assert "is not a receiver" in refused(capsys, "--db", str(pending.store.path))
    assert "can't be created" in refused(capsys, "--db", str(tmp_path / "missing" / "a.db"))
    assert "is not a file" in refused(capsys, "--db", str(tmp_path))


def test_a_locked_file_gets_a_sentence(store, capsys, monkeypatch):
    opened = Store.open
    monkeypatch.setattr(Store, "open", lambda path: opened(path, 50))
    with store.write():
        assert "locked for 50 ms" in refused(capsys, "--db", str(store.path))


def test_a_port_that_is_taken_gets_a_sentence(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}: " in refused(capsys, "--db", str(tmp_path / "a.db"), "--port", port)


def test_an_owner_that_somebody_else_writes_for_gets_a_sentence(store, capsys):
    receiver = Receiver(store)
    receiver.register("anyone", "service", 1)
    receiver.register("anyone", "host-b", 2)
    assert "give another --owner" in refused(capsys, "--db", str(store.path))


@pytest.mark.parametrize(
    "wrong", [["--port", "65536"], ["--port", "x"], ["--owner", ""], ["--owner", "a\nb"]]
)
def test_wrong_options_get_a_sentence(tmp_path, capsys, wrong):
    with pytest.raises(SystemExit) as stopped:
        main(["receiver", "--db", str(tmp_path / "a.db"), *wrong])
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_uvicorn_the_command_names_the_extra_and_makes_no_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "receiptlab[http]" in refused(capsys, "--db", str(tmp_path / "a.db"))
    assert list(tmp_path.iterdir()) == []
