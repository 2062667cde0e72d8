"""The owner's side of a receiver over HTTP: what `Relay.send` needs, and what a restore asks for.

Its exceptions say what is known. Refused: the receiver said no, and there is no effect. NotWritten: nothing
reached the receiver, or it says that it wrote nothing, so ask again. Unanswered: the outcome is unknown, so
ask again with the same key. Only an answer in the receiver's form counts: a proxy's page proves nothing.

A message is the whole body of a POST to /results, and the receiver's key stands for all of it. Send an
owner's messages to one receiver either over HTTP or into its file, not both: the digest of a request isn't
the digest of a result, and a repeat by the other way would be refused with key-reused.
"""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlencode, urlsplit

from receiptlab.contracts.receiver import Effect, Known, Writer
from receiptlab.contracts.relay import Message, Receive
from receiptlab.errors import Indefinite, NotWritten, Refused, WrongArgument, WrongValue
from receiptlab.examples.http_fields import quoted
from receiptlab.values import integer, text

PATH = "/results"
LONGEST = 65_536
"""Maximum length of an answer, in bytes."""

_WROTE_NOTHING = (408, 503)


class Unanswered(Indefinite):
    """The request may have reached the receiver, but no complete answer came back."""


class Remote:
    """A receiver at `base_url`, such as http://127.0.0.1:8080. Each call uses its own connection, with a
    timeout of `timeout_ms` milliseconds. Raises WrongValue for any other kind of address."""

    def __init__(self, base_url: str, timeout_ms: int) -> None:
        self._timeout = integer("timeout_ms", timeout_ms, 1, 3_600_000) / 1_000
        try:
            url = urlsplit(base_url)
            self._host, self._port = url.hostname, url.port
            plain = url.scheme == "http" and base_url.isascii() and base_url.isprintable()
        except ValueError:
            plain = False
        if not plain or not self._host or url.path not in ("", "/") or url.query or url.username is not None:
            raise WrongValue("base_url", "must be http://HOST:PORT and nothing else")

    def apply(self, writer: Writer, message: Message) -> Effect:
        """Apply a message. Refused: as `Receiver.apply`; also too-large, wrong-argument, key-malformed and
        writer when the receiver can't take the message at all."""
        fields = message._asdict()
        del fields["outbox"]
        body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")
        return self._effect(writer.owner, message.key, "POST", PATH, _headers(writer, message), body)

    def look_up(self, owner: str, key: str) -> Effect:
        """The answer saved under a key. Refused: only not-found."""
        try:
            return self._effect(owner, key, "GET", "/effects?" + urlencode({"owner": owner, "key": key}))
        except Refused as refused:
            if refused.reason == "not-found":
                raise
            raise Unanswered(refused.reason, f"the receiver could not look up the key ({refused})") from None

    def register(self, owner: str, instance: str) -> Writer:
        """Ask for a writer identity, as `Receiver.register` does."""
        named = {"Receiver-Owner": quoted(owner), "Receiver-Instance": quoted(instance)}
        body, replayed = self._ask("POST", "/writers", named, b"")
        (generation,) = _integers(body, "generation")
        return Writer(owner, generation, instance, "replayed" if replayed else "accepted")

    def known(self, owner: str, subject: str) -> Known:
        """The highest fence and revision of this owner's effects on the subject, for `Relay.jump`."""
        body, _ = self._ask("GET", "/known?" + urlencode({"owner": owner, "subject": subject}))
        return Known(*_integers(body, "fence", "revision"))

    def _effect(self, owner: str, key: str, *asked: object) -> Effect:
        body, replayed = self._ask(*asked)
        if (body.get("owner"), body.get("key")) != (owner, key):
            raise Unanswered("no-receiver", "the answer is about another key; check that this is a receiver")
        outcome = "read" if asked[0] == "GET" else "replayed" if replayed else "accepted"
        return Effect(*_integers(body, "id", "generation", "accepted_at"), outcome)

    def _ask(
        self, method: str, target: str, headers: dict | None = None, body: bytes | None = None
    ) -> tuple[dict, bool]:
        """Make one request. Returns the body of a 200 answer, and whether it is a replay."""
        connection = HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise NotWritten(
                "unreachable", f"no connection to the receiver ({error}); nothing was sent"
            ) from None
        try:
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            if answer.length is None or answer.length > LONGEST:
                raise Unanswered("no-receiver", "the answer has no length, or is longer than a receiver's")
            body = _object(answer.read())
        except (OSError, HTTPException) as error:
            what = type(error).__name__
            raise Unanswered(
                "no-answer", f"the answer was lost ({what}); ask again with the same key"
            ) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise _no(answer.status, answer.headers.get_content_type(), body)
        return body, answer.headers.get("Idempotent-Replayed") == "true"


def over_http(base_url: str, writer: Writer, timeout_ms: int) -> Receive:
    """A `receive` for `Relay.send`: a receiver over HTTP, under this writer identity."""
    remote = Remote(base_url, timeout_ms)
    return lambda message: remote.apply(writer, message)


def look_up_over_http(base_url: str, owner: str, timeout_ms: int) -> Receive:
    """A `look_up` for `Relay.send`: whether a message of this owner has arrived."""
    remote = Remote(base_url, timeout_ms)
    return lambda message: remote.look_up(owner, message.key)


def _headers(writer: Writer, message: Message) -> dict[str, object]:
    try:
        return {
            "Content-Type": "application/json",
            "Idempotency-Key": quoted(message.key),
            "Receiver-Owner": quoted(writer.owner),
            "Receiver-Generation": str(writer.generation),
            "Receiver-Instance": quoted(writer.instance),
            "Receiver-Subject": quoted(message.subject),
            "Receiver-Revision": str(message.revision),
            "Receiver-Fence": str(message.fence),
        }
    except ValueError as error:
        raise Refused("key-malformed", f"the message cannot be written as headers ({error})") from None


def _object(data: bytes) -> dict:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    return body if isinstance(body, dict) else {}


def _integers(body: dict, *names: str) -> list[int]:
    try:
        return [integer(name, body.get(name)) for name in names]
    except WrongArgument:
        raise Unanswered("no-receiver", "the answer is not in a receiver's form") from None


def _no(status: int, kind: str, body: dict) -> Refused | NotWritten | Unanswered:
    """What an answer other than 200 means. Without the receiver's reason, it means nothing."""
    try:
        reason, detail = text("reason", body.get("reason")), str(body.get("detail"))
    except WrongArgument:
        kind = ""
    if kind != "application/problem+json":
        return Unanswered("no-receiver", f"status {status}, without a receiver's reason")
    if status in _WROTE_NOTHING:
        return NotWritten(reason, detail)
    fields = body.get("fields")  # for key-reused: the fields that differ
    named = tuple(map(str, fields)) if isinstance(fields, list) else ()
    return Refused(reason, detail, named) if 400 <= status < 500 else Unanswered(reason, detail)
