"""Intake as plain dictionaries, written from I-1 to I-17."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from receiptlab.models.base import (
    Expected,
    Model,
    No,
    Wrong,
    accepted,
    digest,
    name,
    read,
    size,
    whole,
    word,
)

PARTS = "key_kind tenant namespace key"
FITS = {
    "first-seen": ("first",),
    "changed": ("revision", "collision"),
    "redelivered": ("seen",),
    "collision-redelivered": ("seen",),
}
"""The decisions that each class of delivery allows."""


def identity_of(*parts: str) -> str:
    """I-1: SHA-256 of a prefix and the parts, each after its length."""
    encoded = [part.encode() for part in ("receiptlab intake identity 1", *parts)]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in encoded)).hexdigest()


class IntakeModel(Model):
    """Receipts by identity, each with its revisions, and each actor's last classification."""

    NAME = "intake"
    RULES: ClassVar = {
        "key_kind": word("explicit", "synthetic", "content"),
        "tenant": name,
        "namespace": size(1, 256),
        "key": size(1, 1_024),
        "digest": digest,
        "reference": size(0, 4_096),
        "decision": word("first", "revision", "collision", "seen"),
        "changed_as": word("revision", "collision"),
        "identity": digest,
        **dict.fromkeys(["retain_until", "tombstone_until", "after", "limit", "now"], whole()),
    }
    CALLS: ClassVar = {
        "classify": f"{PARTS} digest",
        "stage": "decision reference retain_until tombstone_until now",
        "deliver": f"{PARTS} digest changed_as reference retain_until tombstone_until now",
        "sweep": "limit now",
        "erase_identity": f"{PARTS} now",
        "erase_namespace": "tenant namespace now",
        "erase_tenant": "tenant now",
        "erase_digest": "identity now",
        "erasures": "after limit",
        "scrub": "",
    }
    STATE: ClassVar = {
        "receipt": """SELECT identity, state, key_kind, tenant, namespace, key, head, revisions, collisions,
            seen, retain_until, tombstone_until, changed_at, unsettled FROM receipt""",
        "revision": "SELECT identity, number, disposition, digest, outcome, staged_at FROM revision",
        "outbox": "SELECT id, topic, subject, staged_at FROM outbox",
    }

    def __init__(self) -> None:
        self.receipts: dict[str, dict] = {}
        self.revisions: dict[str, list[dict]] = {}
        self.outbox: list[tuple] = []
        self.pending = 0
        self.in_hand: dict[str, dict] = {}

    def reopen(self) -> None:
        self.in_hand.clear()

    def keep(self, after) -> None:
        """The attempt uses up the handle."""
        self.in_hand = after.in_hand

    def owe(self, topic: str, subject: str, now: int) -> None:
        """The id was never used before."""
        self.pending += 1
        self.outbox.append((self.pending, topic, subject, now))

    def find(self, named: dict, digest: str) -> dict:
        """Exactly one of five classes (I-3)."""
        if named["key_kind"] == "content" and named["key"] != digest:
            raise Wrong("key")
        identity = identity_of(*named.values())
        item = {"item": named | {"digest": digest, "identity": identity}}
        row = self.receipts.get(identity)
        if row is None:
            return {"found": "first-seen"} | item
        if row["state"] == "erased":
            return {"found": "erased", "erased_at": row["changed_at"]} | item
        for revision in self.revisions[identity]:
            if revision["digest"] == digest and revision["disposition"] == "collision":
                return {"found": "collision-redelivered", "revision": revision["number"]} | item
            if revision["digest"] == digest:
                number, outcome = revision["number"], revision["outcome"]
                known = {"revision": number, "is_head": number == row["head"], "reference": outcome}
                return {"found": "redelivered"} | known | item
        head = {"head_revision": row["head"], "head_digest": self._head(row)}
        return {"found": "changed", "on": self._on(row), "used": False} | head | item

    def classify(self, digest, **named) -> Expected:
        found = self.in_hand[self.actor] = self.find(named, digest)
        return read(**{part: value for part, value in found.items() if part not in ("item", "on", "used")})

    def stage(self, decision, reference, retain_until, tombstone_until, now) -> Expected:
        found = self.in_hand.get(self.actor, {"found": "nothing"})
        if decision not in FITS.get(found["found"], ()):
            raise No("not-classified")
        number = self.write(found, decision, reference, retain_until, tombstone_until, now)
        self.owe("delivery", found["item"]["identity"], now)
        return accepted(identity=found["item"]["identity"], revision=number)

    def deliver(self, digest, changed_as, reference, retain_until, tombstone_until, now, **named) -> Expected:
        found = self.find(named, digest)
        if found["found"] == "erased":
            raise No("erased")
        number = found.get("revision")
        if number is None:
            decision = "first" if found["found"] == "first-seen" else changed_as
            number = self.write(found, decision, reference, retain_until, tombstone_until, now)
            self.owe("delivery", found["item"]["identity"], now)
        return accepted(found=found["found"], revision=number)

    def write(self, found, decision, reference, retain_until, tombstone_until, now) -> int:
        """Stage the classified delivery. Returns the number of its revision."""
        item, later = found["item"], decision in ("first", "revision")
        if later and tombstone_until < retain_until:
            raise Wrong("tombstone_until")
        row = self.receipts.get(item["identity"])
        self._still(found, row)
        if decision == "seen":
            row["seen"] += 1
            return self._number(item)
        horizons = {"retain_until": retain_until, "tombstone_until": tombstone_until, "changed_at": now}
        if decision == "first":
            named = {part: item[part] for part in PARTS.split()}
            row = {"identity": item["identity"], "state": "live"} | named
            row |= {"head": 0, "revisions": 0, "collisions": 0, "seen": 0} | horizons | {"unsettled": 0}
            self.receipts[item["identity"]], self.revisions[item["identity"]] = row, []
        row |= {"seen": row["seen"] + 1, "revisions": row["revisions"] + 1, "changed_at": now}
        kept = reference
        if later:
            row |= {"state": "live", "key": item["key"], "head": row["revisions"]} | horizons
        else:
            row["collisions"] += 1
            kept = None if row["state"] == "compacted" else reference
        found["used"] = True
        new = {"number": row["revisions"], "disposition": "accepted" if later else "collision"}
        self.revisions[item["identity"]].append(
            new | {"digest": item["digest"], "outcome": kept, "staged_at": now}
        )
        return row["revisions"]

    def _still(self, found, row) -> None:
        """Whether the classification is still true. If not, nothing is staged (I-6, I-7)."""
        if found["found"] == "changed" and found["used"]:
            raise No("handle-used")
        if row is not None and row["state"] == "erased":
            raise No("erased")
        if row is None and found["found"] != "first-seen":
            raise No("not-found")
        number = self._number(found["item"])
        moved = {"first-seen": row is not None, "changed": bool(number) or self._on(row) != found.get("on")}
        if moved.get(found["found"], not number):
            raise No("head-moved")

    def _number(self, item) -> int:
        """The revision with this content, or 0."""
        of_identity = self.revisions.get(item["identity"], ())
        return next((each["number"] for each in of_identity if each["digest"] == item["digest"]), 0)

    def _head(self, row) -> str:
        return self.revisions[row["identity"]][row["head"] - 1]["digest"]

    def _on(self, row) -> tuple | None:
        return None if row is None else (row["head"], row["revisions"], self._head(row))

    def sweep(self, limit, now) -> Expected:
        """A sweep moves a receipt by at most one step: what it compacts, it doesn't remove."""
        rows = [self.receipts[identity] for identity in sorted(self.receipts)]
        rows.sort(key=lambda row: (row["tombstone_until"] or 0, row["identity"]))
        over = [row for row in rows if row["state"] == "compacted" and row["tombstone_until"] <= now][:limit]
        due = [row for row in rows if row["state"] == "live" and row["retain_until"] <= now]
        due = sorted(due, key=lambda row: (row["retain_until"], row["identity"]))
        due = [row for row in due if not row["unsettled"]][:limit]
        for row in over:
            del self.receipts[row["identity"]], self.revisions[row["identity"]]
        self.left({row["namespace"] for row in over})
        for row in due:
            row |= {"state": "compacted", "key": None, "seen": 0, "changed_at": now}
            for revision in self.revisions[row["identity"]]:
                revision |= {"outcome": None, "staged_at": None}
        self.gone(due)
        return accepted(compacted=len(due), removed=len(over))

    def gone(self, rows: list[dict]) -> None:
        """Hook for the work model: these receipts were compacted or erased."""

    def left(self, namespaces: set[str]) -> None:
        """Hook for the work model: a receipt of each of these namespaces was erased or removed."""

    def erase_identity(self, now, **named) -> Expected:
        return self._erase([identity_of(*named.values())], now)

    def erase_namespace(self, tenant, namespace, now) -> Expected:
        return self._erase(self._of(tenant=tenant, namespace=namespace), now)

    def erase_tenant(self, tenant, now) -> Expected:
        return self._erase(self._of(tenant=tenant), now)

    def erase_digest(self, identity, now) -> Expected:
        return self._erase([identity], now)

    def erasures(self, after, limit) -> Expected:
        erased = [row for row in self.outbox if row[1] == "erased" and row[0] > after]
        ids, identities, times = ([row[part] for row in erased[:limit]] for part in (0, 2, 3))
        return read(ids=ids, identities=identities, times=times, more=len(erased) > limit)

    def scrub(self) -> Expected:
        return accepted(done=True)

    def _of(self, **named) -> list[str]:
        rows = self.receipts.values()
        return [row["identity"] for row in rows if named.items() <= row.items()]

    def _erase(self, identities: list[str], now: int) -> Expected:
        """Only the identity and the time remain, in the outbox too, which announces the erasure."""
        erased = 0
        for identity in sorted(identities):
            old = self.receipts.get(identity, {})
            if old.get("state") != "erased":
                nothing = dict.fromkeys(("key_kind", "tenant", "namespace", "key", "head"))
                row = {"identity": identity, "state": "erased"} | nothing
                row |= {"revisions": 0, "collisions": 0, "seen": 0, "retain_until": None}
                row |= {"tombstone_until": None, "changed_at": now, "unsettled": 0}
                self.receipts[identity], self.revisions[identity] = row, []
                self.owe("erased", identity, now)
                self.outbox = [each for each in self.outbox if each[2] != identity or each[1] == "erased"]
                self.gone([row])
                self.left({old["namespace"]} if old else set())
                erased += 1
        return accepted(erased=erased)

    def counted(self) -> tuple[int, ...]:
        receipts = sum(row["state"] != "erased" for row in self.receipts.values())
        return receipts, sum(map(len, self.revisions.values())), len(self.outbox)

    def state(self) -> dict[str, list[tuple]]:
        revisions = [
            (identity, *revision.values()) for identity, all in self.revisions.items() for revision in all
        ]
        receipts = [tuple(row.values()) for row in self.receipts.values()]
        return {"receipt": receipts, "revision": revisions, "outbox": self.outbox}

    def times(self) -> list[int]:
        horizons = ("retain_until", "tombstone_until")
        return [row[each] for row in self.receipts.values() for each in horizons if row[each] is not None]
