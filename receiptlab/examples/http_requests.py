"""One connection to the receiver's service: its requests, and what each is answered.

`http_receiver` says what a client can rely on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from receiptlab.contracts.receiver import Effect, Receiver
from receiptlab.errors import (
    Damaged,
    Definite,
    FileRefused,
    Indefinite,
    InjectedFault,
    Refused,
    WrongArgument,
)
from receiptlab.examples import clock
from receiptlab.examples.http_fields import (
    Lines,
    Problem,
    boundary,
    digest,
    flaw_of_target,
    key,
    number,
    query,
    target,
    word,
)
from receiptlab.examples.stopping import Gone

if TYPE_CHECKING:
    from receiptlab.examples.http_receiver import Service

UNNAMED = {"subject": "request", "revision": 0, "fence": 0}
"""What the effects of a client are about that names no writer."""

MAX_BODY = 1_048_576
"""The longest body, in bytes."""

DRAFT = "https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header"
TITLES = {
    "key-missing": "Idempotency-Key is missing",
    "key-malformed": "Idempotency-Key is malformed",
    "key-reused": "Idempotency-Key is already used",
}
"""The problems that the draft describes, or whose header it does."""

STATUS = {"writer-unknown": 403, "writer-fenced": 403, "not-found": 404, "fence": 412, "key-reused": 422}
"""The status for each reason with which the contract refuses."""

AGAIN = {"Retry-After": "1"}
"""Sent with an error that a retry may get past."""

NOT_AGAIN = {"Stripe-Should-Retry": "false"}
"""Sent with an error that stays until somebody has repaired the service. Stripe's clients retry every 5xx on
their own unless this header, which Stripe's own service sends, stops them."""

EMPTY_LINES = 8
"""The number of empty lines that are skipped before a request. RFC 9112, 2.2, asks for at least one."""

_READ = ("/effects", "/known")
_LENGTH = re.compile(r"[0-9]{1,19}")
_LONGEST_LINE = 65_537


class Handler(BaseHTTPRequestHandler):
    """One connection: its requests, one after the other, and its store."""

    server: Service
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # else an unreadable request gets an answer without a status line
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        self.timeout = self.server.patience_ms / 1_000
        self._receiver: Receiver | None = None
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            if self._receiver is not None:
                self._receiver.store.close()

    def parse_request(self) -> bool:
        """Read the head of a request. False where it was refused, which closes the connection, and where the
        client has gone."""
        self.command, self.requestline, self.close_connection = "", "", True
        self.request_version = self.default_request_version
        for _ in range(EMPTY_LINES):
            if self.raw_requestline not in (b"\r\n", b"\n"):
                break
            self.raw_requestline = self.rfile.readline(_LONGEST_LINE)
        if not self.raw_requestline:
            return False
        plain, self.rfile = self.rfile, Lines(self.rfile)
        try:
            asked = target(self.raw_requestline)
            if not super().parse_request():
                return False
            flaw_of_target(asked, self.path, self.headers.get_all("Host", []), self.server.server_name)
            return True
        except Problem as problem:
            self.close_connection = True
            self._say_no(problem.status, problem.reason, problem.detail)
            return False
        finally:
            self.rfile = plain

    def handle_expect_100(self) -> bool:
        """Send nothing yet: `_body` answers 100 once it is clear that the body is wanted."""
        return True

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_GET(self) -> None:
        self._answer(self._get)

    def _other(self) -> None:
        allowed = "GET" if self._path() in _READ else "POST"
        self.close_connection = True  # its body was not read
        self._say_no(405, "method", f"{allowed} is the method here", {"Allow": allowed})

    do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_PUT = _other

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself turns down. Its messages repeat what was sent; ours do not."""
        self.close_connection = True
        self._say_no(code, "http", "the request is no HTTP that this service reads")

    def log_message(self, *told: object) -> None:
        """Nothing is logged."""

    def version_string(self) -> str:
        return "receiptlab"

    def _answer(self, act: Callable[[bytes], tuple[dict, bool]]) -> None:
        try:
            told, replayed = act(self._body())
        except Problem as problem:
            self._say_no(problem.status, problem.reason, problem.detail, problem.headers)
        except WrongArgument as error:
            self._say_no(400, "wrong-argument", str(error))
        except Refused as refused:
            self._say_no(STATUS[refused.reason], refused.reason, str(refused))
        except InjectedFault:
            self.close_connection = True  # made on purpose: the answer is lost
        except Gone:
            what = "the receiver's file was removed or replaced; the service has to be started anew"
            self._say_no(503, "gone", what, NOT_AGAIN)
        except FileRefused as error:
            self._say_no(503, error.reason, str(error), AGAIN if error.reason == "no-access" else NOT_AGAIN)
        except Damaged as error:
            self._say_no(500, error.reason, str(error), NOT_AGAIN)
        except Definite as error:
            self._say_no(503, error.reason, str(error), AGAIN)
        except Indefinite as error:
            self._say_no(500, error.reason, str(error), NOT_AGAIN if error.reason == Damaged.reason else {})
        else:
            self._say(200, told, "application/json", {"Idempotent-Replayed": "true"} if replayed else {})

    def _body(self) -> bytes:
        """The whole body, or Problem. Until it was read, the connection is one to be closed: what is left
        in it would be taken for the next request."""
        close, self.close_connection = self.close_connection, True
        length = self._length()
        if length and self._asks_first():
            self.send_response_only(100)
            self.end_headers()
            self.wfile.flush()
        body = self._read(length)
        self.close_connection = close
        return body

    def _length(self) -> int:
        lengths = self.headers.get_all("Content-Length", ["0"] if self.command == "GET" else [])
        if not lengths or "Transfer-Encoding" in self.headers:
            raise Problem(411, "length", "send the body in one piece, with its Content-Length")
        if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0].strip(" \t")):
            raise Problem(400, "length", "Content-Length must be one number of bytes")
        if int(lengths[0]) > MAX_BODY:
            raise Problem(413, "too-large", f"a body has at most {MAX_BODY} bytes")
        return int(lengths[0])

    def _asks_first(self) -> bool:
        expected = self.headers.get("Expect", "").lower() == "100-continue"
        return expected and self.request_version == "HTTP/1.1"

    def _read(self, length: int) -> bytes:
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise Problem(408, "slow", "the body did not come in time") from None
        if len(body) < length:
            raise Problem(400, "cut", f"the body ended after {len(body)} of {length} bytes")
        return body

    def _post(self, body: bytes) -> tuple[dict, bool]:
        if self._path() == "/writers":
            return self._register()
        if self._path() in _READ:
            raise Problem(405, "method", "GET is the method here", {"Allow": "GET"})
        named = self._named() | {"key": key(self.headers)}
        asked = digest(self.command, self.path, body, boundary(self.headers))
        effect = self._open().apply(**named, digest=asked, now=clock.milliseconds())
        return _told(named["owner"], named["key"], effect), effect.outcome == "replayed"

    def _get(self, body: bytes) -> tuple[dict, bool]:
        _, _, asked = self.path.partition("?")
        if self._path() == "/effects":
            fields = query(asked, "owner", "key")
            return _told(**fields, effect=self._open().look_up(**fields)), False
        if self._path() == "/known":
            return vars(self._open().known(**query(asked, "owner", "subject"))), False
        if self._path() == "/writers":
            raise Problem(405, "method", "POST is the method here", {"Allow": "POST"})
        raise Problem(404, "no-such-path", f"GET reads {' and '.join(_READ)}")

    def _register(self) -> tuple[dict, bool]:
        """In headers, not in the body: a page in a browser cannot send these by itself."""
        owner, instance = self._word("Owner"), self._word("Instance")
        if owner is None or instance is None:
            raise Problem(400, "writer", "send Receiver-Owner and Receiver-Instance")
        writer = self._open().register(owner, instance, clock.milliseconds())
        told = {"owner": owner, "generation": writer.generation, "instance": instance}
        return told, writer.outcome == "replayed"

    def _named(self) -> dict[str, object]:
        """Who writes, and about what."""
        named = {each: self._word(each.title()) for each in ("owner", "instance", "subject")}
        for each in ("generation", "revision", "fence"):
            named[each] = number(self.headers, f"Receiver-{each.title()}", "writer")
        left_out = [name for name, value in named.items() if value is None]
        if len(left_out) == len(named):
            writer = self.server.writer
            return {
                "owner": writer.owner,
                "generation": writer.generation,
                "instance": writer.instance,
            } | UNNAMED
        if left_out:
            raise Problem(400, "writer", f"send all of Receiver-{{{', '.join(named)}}}, or none of them")
        return named

    def _word(self, name: str) -> str | None:
        return word(self.headers, f"Receiver-{name}", "writer")

    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _open(self) -> Receiver:
        self.server.watched.look()
        if self._receiver is None:
            store = self.server.store.again()
            store.failpoint = self.server.failpoint
            try:
                self._receiver = Receiver(store)
            except BaseException:
                store.close()
                raise
        return self._receiver

    def _say_no(self, status: int, reason: str, detail: str, headers: dict[str, str] | None = None) -> None:
        kind, title = ("about:blank", self.responses[status][0])
        if reason in TITLES:
            kind, title = DRAFT, TITLES[reason]
        told = {"type": kind, "title": title, "status": status, "detail": detail, "reason": reason}
        self._say(status, told, "application/problem+json", headers or {})

    def _say(self, status: int, told: dict, kind: str, headers: dict[str, str]) -> None:
        body = json.dumps(told, sort_keys=True).encode("ascii") + b"\n"
        self.close_connection = self.close_connection or self.server.stopping
        headers = headers | ({"Connection": "close"} if self.close_connection else {})
        self.send_response(status)
        for name, value in (headers | {"Content-Type": kind, "Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _told(owner: str, key: str, effect: Effect) -> dict[str, object]:
    """The answer, made from what is kept: so it is the same at every time."""
    return {
        "owner": owner,
        "key": key,
        "id": effect.id,
        "generation": effect.generation,
        "accepted_at": effect.accepted_at,
    }
