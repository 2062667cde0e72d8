"""What a worker hands to whoever does the work: the item, and how to say that it failed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import ClassVar

from receiptlab.contracts.work.claims import WorkClaim
from receiptlab.errors import Refused
from receiptlab.store import Store
from receiptlab.values import MAX_TEXT

MAX_DETAIL = 2_048
"""The longest detail of a failure, in bytes of UTF-8."""

Handler = Callable[[dict, Callable[[], None]], str]
"""Does the work on an item and returns its output. It calls what it gets second, again and again while it
works: that keeps the claim alive, and raises when the work is to end. Raises Failure when it failed."""

_RECEIPT = """SELECT r.tenant, r.namespace, r.key, v.digest, v.outcome FROM receipt r
    JOIN revision v ON v.identity = r.identity AND v.number = ? WHERE r.identity = ? AND r.state = 'live'"""
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('delivery', 'letter')"
_ACCEPTED = "WHERE identity = ? AND revision = ? AND disposition = 'accepted' ORDER BY id DESC LIMIT 1"
_DELIVERY = f"SELECT body FROM delivery {_ACCEPTED}"
_LETTER = f"SELECT sender, subject FROM letter {_ACCEPTED}"


class Failure(Exception):
    """The work on an item failed. `error` is its class, one short word; `detail` says more.

    Both are made to fit: no control characters and at most 128 characters in `error`, at most 2,048 bytes
    in `detail`, of which the end is kept.
    """

    outcome: ClassVar[str] = "failed"

    def __init__(self, error: str, detail: str = "") -> None:
        kept = "".join(each for each in error if each.isprintable())[:MAX_TEXT]
        self.error = kept or "failure"
        self.detail = ending(detail)
        super().__init__(self.error)


def ending(text: str, limit: int = MAX_DETAIL) -> str:
    """The end of the text, at most `limit` bytes of UTF-8, cut between two characters."""
    return text.encode("utf-8", "backslashreplace")[-limit:].decode("utf-8", "ignore")


def item_of(store: Store, claim: WorkClaim) -> dict[str, object]:
    """The item that was claimed, as plain data: work, attempt, processor, processor_revision, tenant,
    namespace, key, revision, digest, reference. Where the database file has its webhook delivery, also `body`, or
    `body_base64` when it is no UTF-8; where it has its letter, sender and subject.

    Raises Refused (not-found) when its receipt was erased since; then its work is gone too.
    """
    rows = store.read(_RECEIPT, (claim.revision, claim.identity))
    if not rows:
        raise Refused("not-found", "the receipt was erased, or compacted, and its work is gone")
    [(tenant, namespace, key, digest, reference)] = rows
    about = {
        "work": claim.work,
        "attempt": claim.attempt,
        "processor": claim.processor,
        "processor_revision": claim.processor_revision,
        "tenant": tenant,
        "namespace": namespace,
        "key": key,
        "revision": claim.revision,
        "digest": digest,
        "reference": reference,
    }
    return about | _domain(store, (claim.identity, claim.revision))


def _domain(store: Store, of: tuple[str, int]) -> dict[str, object]:
    """What the consumer's own tables have of it."""
    there = {name for (name,) in store.read(_TABLES)}
    for (body,) in store.read(_DELIVERY, of) if "delivery" in there else ():
        try:
            return {"body": body.decode("utf-8")}
        except UnicodeDecodeError:
            return {"body_base64": base64.b64encode(body).decode("ascii")}
    for sender, subject in store.read(_LETTER, of) if "letter" in there else ():
        return {"sender": sender, "subject": subject}
    return {}
