"""The owner's side of a receiver over HTTP: what `Relay.send` needs, and what a restore asks for.

What it raises says what is known. Refused: the receiver said no, and had no effect. NotWritten: nothing
reached it, or it says that it wrote nothing; ask again. Unanswered: nobody knows; ask again with the same
key. An answer counts as the receiver's only if it looks like it: a page of a proxy proves nothing.

A message is the body of a POST to /results, whole: the receiver's key stands for all that it says. So one
receiver must get an owner's messages over HTTP or in its file, not now so and now so: the digest of a
request is not the digest of a result, and a repeat in the other way would be refused with key-reused.
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
"""The longest answer that is read, in bytes."""

_WROTE_NOTHING = (408, 503)


class Unanswered(Indefinite):
    """The request may have reached the receiver; no answer of it came back, or not the whole."""


class Remote:
    """A receiver behind `base_url`, such as http://127.0.0.1:8080. Each call is a connection of its own,
    which may stay silent for `timeout_ms` milliseconds. Raises WrongValue for another kind of address."""

    def __init__(self, base_url: str, timeout_ms: int) -> None:
        self._timeout = integer("timeout_ms", timeout_ms, 1, 3_600_000) / 1_000
        try:
            url = urlsplit(base_url)
            self._host, self._port = url.hostname, url.port
            plain = url.scheme == "http" and base_url.isascii() and base_url.isprintable()
        except ValueError:
            plain = False
        if not plain or not self._host or url.path not in ("", "/") or url.query or url.username is not None:
            raise WrongValue("base_url", "must be http://HOST:PORT and nothing behind it")

    def apply(self, writer: Writer, message: Message) -> Effect:
        """Have the effect of a message. Refused: as `Receiver.apply`; too-large, wrong-argument,
        key-malformed and writer where the receiver cannot take the message at all."""
        told = message._asdict()
        del told["outbox"]
        body = json.dumps(told, sort_keys=True, separators=(",", ":")).encode("ascii")
        return self._effect(writer.owner, message.key, "POST", PATH, _headers(writer, message), body)

    def look_up(self, owner: str, key: str) -> Effect:
        """The answer kept under a key. Refused: not-found, and nothing else."""
        try:
            return self._effect(owner, key, "GET", "/effects?" + urlencode({"owner": owner, "key": key}))
        except Refused as refused:
            if refused.reason == "not-found":
                raise
            raise Unanswered(refused.reason, f"the receiver did not look the key up ({refused})") from None

    def register(self, owner: str, instance: str) -> Writer:
        """Ask for a writer identity; as `Receiver.register`."""
        named = {"Receiver-Owner": quoted(owner), "Receiver-Instance": quoted(instance)}
        told, replayed = self._ask("POST", "/writers", named, b"")
        (generation,) = _integers(told, "generation")
        return Writer(owner, generation, instance, "replayed" if replayed else "accepted")

    def known(self, owner: str, subject: str) -> Known:
        """How far this owner's effects on the subject have come; `Relay.jump` asks for it."""
        told, _ = self._ask("GET", "/known?" + urlencode({"owner": owner, "subject": subject}))
        return Known(*_integers(told, "fence", "revision"))

    def _effect(self, owner: str, key: str, *asked: object) -> Effect:
        told, replayed = self._ask(*asked)
        if (told.get("owner"), told.get("key")) != (owner, key):
            raise Unanswered("no-receiver", "the answer is about another key; is it a receiver's?")
        outcome = "read" if asked[0] == "GET" else "replayed" if replayed else "accepted"
        return Effect(*_integers(told, "id", "generation", "accepted_at"), outcome)

    def _ask(
        self, method: str, target: str, headers: dict | None = None, body: bytes | None = None
    ) -> tuple[dict, bool]:
        """One request. Returns what a status of 200 told, and whether it is a replay."""
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
                raise Unanswered("no-receiver", "the answer has no length, or is too long to be a receiver's")
            told = _object(answer.read())
        except (OSError, HTTPException) as error:
            what = type(error).__name__
            raise Unanswered(
                "no-answer", f"the answer was lost ({what}); ask again with the same key"
            ) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise _no(answer.status, answer.headers.get_content_type(), told)
        return told, answer.headers.get("Idempotent-Replayed") == "true"


def over_http(base_url: str, writer: Writer, timeout_ms: int) -> Receive:
    """A `receive` for `Relay.send`: a receiver over HTTP, by this writer identity."""
    remote = Remote(base_url, timeout_ms)
    return lambda message: remote.apply(writer, message)


def look_up_over_http(base_url: str, owner: str, timeout_ms: int) -> Receive:
    """A `look_up` for `Relay.send`: has a message of this owner arrived?"""
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
        told = json.loads(data)
    except (ValueError, RecursionError):
        told = None
    return told if isinstance(told, dict) else {}


def _integers(told: dict, *names: str) -> list[int]:
    try:
        return [integer(name, told.get(name)) for name in names]
    except WrongArgument:
        raise Unanswered("no-receiver", "the answer is not one that a receiver gives") from None


def _no(status: int, kind: str, told: dict) -> Refused | NotWritten | Unanswered:
    """What an answer other than 200 says. Without the receiver's reason it says nothing."""
    try:
        reason, detail = text("reason", told.get("reason")), str(told.get("detail"))
    except WrongArgument:
        kind = ""
    if kind != "application/problem+json":
        return Unanswered("no-receiver", f"status {status}, and no word of a receiver")
    if status in _WROTE_NOTHING:
        return NotWritten(reason, detail)
    fields = told.get("fields")  # of key-reused: what differs
    named = tuple(map(str, fields)) if isinstance(fields, list) else ()
    return Refused(reason, detail, named) if 400 <= status < 500 else Unanswered(reason, detail)
