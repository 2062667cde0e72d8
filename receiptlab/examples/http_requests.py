"""The receiver's ASGI application: reads a request, calls the contract, and turns the outcome into an answer.

`http_receiver` says what a client can rely on.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from email.message import Message as Headers
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from receiptlab.contracts.receiver import Effect
from receiptlab.errors import (
    Damaged,
    Definite,
    FileRefused,
    Indefinite,
    InjectedFault,
    LabError,
    Refused,
    WrongArgument,
)
from receiptlab.examples import clock
from receiptlab.examples.http_fields import Problem, boundary, check_target, digest, key, number, query, word
from receiptlab.examples.stopping import Gone

if TYPE_CHECKING:
    from receiptlab.examples.http_receiver import Service

OWNER, INSTANCE = "anyone", "service"
"""The writer when a client names none."""

UNNAMED = {"subject": "request", "revision": 0, "fence": 0}
"""What an effect is about when its client names no writer."""

MAX_BODY = 1_048_576
"""The longest body, in bytes."""

DRAFT = "https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header"
TITLES = {
    "key-missing": "Idempotency-Key is missing",
    "key-malformed": "Idempotency-Key is malformed",
    "key-reused": "Idempotency-Key is already used",
}
"""Titles of the problems with the key, in the draft's words."""

STATUS = {"writer-unknown": 403, "writer-fenced": 403, "not-found": 404, "fence": 412, "key-reused": 422}
"""The status for each reason with which the contract refuses."""

AGAIN = {"Retry-After": "1"}
"""Sent with an error that a retry may get past."""

NOT_AGAIN = {"Stripe-Should-Retry": "false"}
"""Sent with an error that lasts until somebody has repaired the service. Stripe's clients retry every other
5xx on their own."""

_READ = ("/effects", "/known")
_METHODS = ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE")


class Request(NamedTuple):
    """The head of a request, with its target as it was sent."""

    version: str
    method: str
    target: str
    headers: Headers

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Answer(NamedTuple):
    """A response before it is encoded."""

    status: int
    fields: dict[str, object]
    headers: dict[str, str]


class Application:
    """The ASGI application of a `Service`."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        """Answer one request. An injected fault or a bug cuts the connection instead."""
        request = _request(scope)
        try:
            try:
                _check_head(request, self.service.host)
                body = await self._body(receive)
            except Problem as problem:
                answer, close = refusal(problem), True
                await self._discard(request, receive)
            else:
                if body is None:  # the client has gone
                    return
                answer, close = await self.service.write(lambda: self.act(request, body)), False
        except Exception as error:
            if not isinstance(error, InjectedFault):
                _report(error)
            scope["state"]["cut"]()
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        await _send(send, answer, close or self.service.stopping)

    def act(self, request: Request, body: bytes) -> Answer:
        """Have the request's effect or read what it asks for. Called in the thread of the store."""
        try:
            fields, replayed = self._post(request, body) if request.method == "POST" else self._get(request)
        except InjectedFault:
            raise
        except (Problem, WrongArgument, LabError) as error:
            return refusal(error)
        return Answer(200, fields, {"Idempotent-Replayed": "true"} if replayed else {})

    async def _body(self, receive: Callable) -> bytes | None:
        """The whole body, or None when the connection ended before. Problem: 408 slow, 413 too-large."""
        body = b""
        try:
            async with asyncio.timeout(self.service.patience_ms / 1_000):
                while True:
                    part = await receive()
                    if part["type"] == "http.disconnect":
                        return None
                    body += part["body"]
                    if len(body) > MAX_BODY:
                        raise Problem(413, "too-large", f"a body has at most {MAX_BODY} bytes")
                    if not part["more_body"]:
                        return body
        except TimeoutError:
            raise Problem(408, "slow", "the body did not arrive in time") from None

    async def _discard(self, request: Request, receive: Callable) -> None:
        """Read a bit of an unwanted body: closing a connection with unread bytes can destroy the answer. Not
        for a client that waits for `100 Continue`, since reading would send it."""
        if "Expect" in request.headers:
            return
        try:
            async with asyncio.timeout(min(1, self.service.patience_ms / 1_000)):
                left = 2 * MAX_BODY
                while left > 0 and (part := await receive()).get("more_body"):
                    left -= len(part["body"])
        except TimeoutError:
            pass

    def _post(self, request: Request, body: bytes) -> tuple[dict, bool]:
        if request.path == "/writers":
            return self._register(request.headers)
        named = self._named(request.headers) | {"key": key(request.headers)}
        asked = digest(request.method, request.target, body, boundary(request.headers))
        effect = self.service.receiver().apply(**named, digest=asked, now=clock.milliseconds())
        return _fields(named["owner"], named["key"], effect), effect.outcome == "replayed"

    def _get(self, request: Request) -> tuple[dict, bool]:
        _, _, asked = request.target.partition("?")
        if request.path == "/effects":
            fields = query(asked, "owner", "key")
            return _fields(**fields, effect=self.service.receiver().look_up(**fields)), False
        return vars(self.service.receiver().known(**query(asked, "owner", "subject"))), False

    def _register(self, headers: Headers) -> tuple[dict, bool]:
        """The names are in headers, not in the body: a page in a browser cannot send these by itself."""
        owner, instance = (word(headers, f"Receiver-{name}", "writer") for name in ("Owner", "Instance"))
        if owner is None or instance is None:
            raise Problem(400, "writer", "send Receiver-Owner and Receiver-Instance")
        writer = self.service.receiver().register(owner, instance, clock.milliseconds())
        fields = {"owner": owner, "generation": writer.generation, "instance": instance}
        return fields, writer.outcome == "replayed"

    def _named(self, headers: Headers) -> dict[str, object]:
        """The writer, and what it writes about."""
        named: dict[str, object] = {}
        for name in ("owner", "instance", "subject"):
            named[name] = word(headers, f"Receiver-{name.title()}", "writer")
        for name in ("generation", "revision", "fence"):
            named[name] = number(headers, f"Receiver-{name.title()}", "writer")
        missing = [name for name, value in named.items() if value is None]
        if len(missing) == len(named):
            writer = self.service.writer
            own = {"owner": writer.owner, "generation": writer.generation, "instance": writer.instance}
            return own | UNNAMED
        if missing:
            raise Problem(400, "writer", f"send all of Receiver-{{{', '.join(named)}}}, or none of them")
        return named


def _request(scope: dict) -> Request:
    headers = Headers()
    for name, value in scope["headers"]:
        headers[name.decode("latin-1")] = value.decode("latin-1")
    asked = b"?" + scope["query_string"] if scope["query_string"] else b""
    target = (scope["raw_path"] + asked).decode("latin-1")
    return Request(scope["http_version"], scope["method"], target, headers)


def _check_head(request: Request, own: str) -> None:
    """Raise the Problem of a request whose body is not worth reading."""
    check_target(request.target, request.headers.get_all("Host", []), own)
    if request.version not in ("1.0", "1.1"):
        raise Problem(505, "http", "this service speaks HTTP/1.0 and HTTP/1.1")
    if request.method not in _METHODS:
        raise Problem(501, "http", "HTTP has no such method")
    allowed = "GET" if request.path in _READ else "POST"
    if request.method == "GET" and allowed == "POST" and request.path != "/writers":
        raise Problem(404, "no-such-path", f"GET reads {' and '.join(_READ)}")
    if request.method != allowed:
        raise Problem(405, "method", f"{allowed} is the method here", {"Allow": allowed})
    length = request.headers.get("Content-Length")
    if length is not None and "Transfer-Encoding" in request.headers:
        raise Problem(400, "length", "send Content-Length or Transfer-Encoding, not both")
    if int(length or 0) > MAX_BODY:
        raise Problem(413, "too-large", f"a body has at most {MAX_BODY} bytes")


def refusal(error: Problem | WrongArgument | LabError) -> Answer:
    """The answer to a request that was refused or failed. Unknown exceptions propagate."""
    status, reason, detail, headers = 503, getattr(error, "reason", ""), str(error), AGAIN
    if isinstance(error, Problem):
        status, detail, headers = error.status, error.detail, error.headers
    elif isinstance(error, WrongArgument):
        status, reason, headers = 400, "wrong-argument", {}
    elif isinstance(error, Refused):
        status, headers = STATUS[reason], {}
    elif isinstance(error, Gone):
        reason, headers = "gone", NOT_AGAIN
        detail = "the receiver's file was removed or replaced; start the service again"
    elif isinstance(error, FileRefused):
        headers = AGAIN if reason == "no-access" else NOT_AGAIN
    elif isinstance(error, Damaged | Indefinite):
        status, headers = 500, NOT_AGAIN if reason == Damaged.reason else {}
    elif not isinstance(error, Definite):
        raise error
    kind, title = (DRAFT, TITLES[reason]) if reason in TITLES else ("about:blank", HTTPStatus(status).phrase)
    fields = {"type": kind, "title": title, "status": status, "detail": detail, "reason": reason}
    return Answer(status, fields, headers)


async def _send(send: Callable, answer: Answer, close: bool) -> None:
    body = json.dumps(answer.fields, sort_keys=True).encode("ascii") + b"\n"
    kind = "application/json" if answer.status == 200 else "application/problem+json"
    headers = answer.headers | {"Content-Type": kind, "Content-Length": str(len(body))}
    headers |= {"Connection": "close"} if close else {}
    encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _report(error: Exception) -> None:
    escaped = str(error).encode("unicode_escape").decode("ascii")  # nothing that could steer a terminal
    print(f"a request was left without an answer: {type(error).__name__}: {escaped}", file=sys.stderr)


def _fields(owner: str, key: str, effect: Effect) -> dict[str, object]:
    """The answer to an effect. It is made from what is kept, so that it is the same every time."""
    return {
        "owner": owner,
        "key": key,
        "id": effect.id,
        "generation": effect.generation,
        "accepted_at": effect.accepted_at,
    }
