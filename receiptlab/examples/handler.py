"""What a handler gets from the worker: the item, and a way to report failure."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import ClassVar

from receiptlab.contracts.work.claims import WorkClaim
from receiptlab.errors import Refused
from receiptlab.store import Store
from receiptlab.values import MAX_TEXT

MAX_DETAIL = 2_048
"""Maximum length of a failure's detail, in bytes of UTF-8."""

Handler = Callable[[dict, Callable[[], None]], str]
"""Does the work on an item and returns its output. Its second argument is a heartbeat, to be called
repeatedly: it keeps the claim alive, and raises when the work must end. Raises Failure when the work
failed."""

_RECEIPT = """SELECT r.tenant, r.namespace, r.key, v.digest, v.outcome FROM receipt r
    JOIN revision v ON v.identity = r.identity AND v.number = ? WHERE r.identity = ? AND r.state = 'live'"""
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('delivery', 'letter')"
_ACCEPTED = "WHERE identity = ? AND revision = ? AND disposition = 'accepted' ORDER BY id DESC LIMIT 1"
_DELIVERY = f"SELECT body FROM delivery {_ACCEPTED}"
_LETTER = f"SELECT sender, subject FROM letter {_ACCEPTED}"


class Failure(Exception):
    """The work on an item failed. `error` is one short word, and `detail` says more.

    Both are shortened: `error` to 128 characters without control characters, `detail` to its last 2,048
    bytes.
    """

    outcome: ClassVar[str] = "failed"

    def __init__(self, error: str, detail: str = "") -> None:
        kept = "".join(each for each in error if each.isprintable())[:MAX_TEXT]
        self.error = kept or "failure"
        self.detail = ending(detail)
        super().__init__(self.error)


def ending(text: str, limit: int = MAX_DETAIL) -> str:
    """The end of the text, at most `limit` bytes of UTF-8, cut between characters."""
    return text.encode("utf-8", "backslashreplace")[-limit:].decode("utf-8", "ignore")


def item_of(store: Store, claim: WorkClaim) -> dict[str, object]:
    """The claimed item as plain data: work, attempt, processor, processor_revision, tenant, namespace, key,
    revision, digest, reference. A webhook delivery also has `body`, or `body_base64` when it isn't UTF-8. A
    letter also has sender and subject.

    Raises Refused (not-found) when the receipt was erased in the meantime. Its work is gone, too.
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
    """The item's columns in the consumer's own tables."""
    there = {name for (name,) in store.read(_TABLES)}
    for (body,) in store.read(_DELIVERY, of) if "delivery" in there else ():
        try:
            return {"body": body.decode("utf-8")}
        except UnicodeDecodeError:
            return {"body_base64": base64.b64encode(body).decode("ascii")}
    for sender, subject in store.read(_LETTER, of) if "letter" in there else ():
        return {"sender": sender, "subject": subject}
    return {}
