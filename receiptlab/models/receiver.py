"""The receiver as plain dictionaries, written from S-4, S-5, S-7, S-8, X-3 and X-4."""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar

from receiptlab.models.base import (
    Expected,
    Model,
    No,
    accepted,
    digest,
    name,
    read,
    replayed,
    size,
    whole,
    word,
)


class ReceiverModel(Model):
    """Each owner's writers in order; effects by (owner, key); refusals; restore receipts."""

    NAME = "receiver"
    RULES: ClassVar = {
        **dict.fromkeys(("owner", "instance"), name),
        **dict.fromkeys(("generation", "revision", "fence", "now"), whole()),
        **dict.fromkeys(("key", "subject"), size(1, 1_100)),
        "digest": digest,
        "enforced": word("fence", "isolation"),
    }
    CALLS: ClassVar = {
        "register": "owner instance now",
        "apply": "owner generation instance key subject revision fence digest now",
        "issue": "owner generation instance enforced now",
        "look_up": "owner key",
        "known": "owner subject",
    }
    RECORDED: ClassVar = ("apply",)
    STATE: ClassVar = {
        "writer": "SELECT owner, generation, instance, registered_at, fenced_at FROM writer",
        "effect": """SELECT id, generation, accepted_at, owner, key, subject, revision, fence, digest
            FROM effect""",
        "refusal": "SELECT owner, key, generation, reason, times, first_at, last_at FROM refusal",
        "restoration": "SELECT id, owner, generation, document, issued_at FROM restoration",
    }

    def __init__(self) -> None:
        self.writers: dict[str, list[dict]] = {}
        self.effects: dict[tuple, dict] = {}
        self.refusals: dict[tuple, list[int]] = {}
        self.issued: dict[tuple, tuple] = {}

    def register(self, owner, instance, now) -> Expected:
        writers = self.writers.get(owner, [])
        for number, writer in enumerate(writers, 1):
            if writer["instance"] == instance:
                if writer["fenced_at"] is not None:
                    raise No("writer-fenced")
                return replayed(owner=owner, generation=number, instance=instance)
        for writer in writers[-1:]:
            writer["fenced_at"] = now
        new = {"instance": instance, "registered_at": now, "fenced_at": None}
        self.writers[owner] = [*writers, new]
        return accepted(owner=owner, generation=len(writers) + 1, instance=instance)

    def apply(self, owner, generation, instance, key, now, **effect) -> Expected:
        """A refusal is recorded with its reason, and counted when it is repeated."""
        try:
            return self._apply(owner, generation, instance, key, effect, now)
        except No as no:
            whose = 0 if no.expected.reason == "writer-unknown" else generation
            same = self.refusals.setdefault((owner, key, whose, no.expected.reason), [0, now, now])
            same[0], same[2] = same[0] + 1, now
            raise

    def _apply(self, owner, generation, instance, key, effect, now) -> Expected:
        self._writes(owner, generation, instance)
        if (owner, key) in self.effects:
            kept = self.effects[owner, key]
            if changed := [part for part in PARTS if kept["named"][part] != effect[part]]:
                raise No("key-reused", *changed)
            return replayed(**kept["answer"])
        if effect["fence"] < self._highest(owner, effect["subject"], "fence"):
            raise No("fence")
        answer = {"id": len(self.effects) + 1, "generation": generation, "accepted_at": now}
        self.effects[owner, key] = {"answer": answer, "named": effect}
        return accepted(**answer)

    def issue(self, owner, generation, instance, enforced, now) -> Expected:
        self._writes(owner, generation, instance)
        if (owner, generation) in self.issued:
            number, document, _ = self.issued[owner, generation]
            return replayed(**_receipt(number, document))
        facts = {"owner": owner, "enforced": enforced, "issued_at": now}
        document = json.dumps(facts | self._story(owner), sort_keys=True, separators=(",", ":"))
        self.issued[owner, generation] = (len(self.issued) + 1, document, now)
        return accepted(**_receipt(len(self.issued), document))

    def look_up(self, owner, key) -> Expected:
        if (owner, key) not in self.effects:
            raise No("not-found")
        return read(**self.effects[owner, key]["answer"])

    def known(self, owner, subject) -> Expected:
        return read(**{part: self._highest(owner, subject, part) for part in ("fence", "revision")})

    def _writes(self, owner, generation, instance) -> None:
        writers = self.writers.get(owner, [])
        if not 1 <= generation <= len(writers) or writers[generation - 1]["instance"] != instance:
            raise No("writer-unknown")
        if generation < len(writers):
            raise No("writer-fenced")

    def _highest(self, owner, subject, part) -> int:
        of_owner = [kept["named"] for (who, _), kept in self.effects.items() if who == owner]
        return max((effect[part] for effect in of_owner if effect["subject"] == subject), default=0)

    def _story(self, owner) -> dict:
        """The writers, what was accepted and refused from each, and the refusals of unknown writers."""
        writers, strangers = [], []
        for number, writer in enumerate(self.writers[owner], 1):
            taken = [
                key
                for (who, key), kept in self.effects.items()
                if who == owner and kept["answer"]["generation"] == number
            ]
            one = {"generation": number, "instance": writer["instance"], "fenced_at": writer["fenced_at"]}
            writers.append(one | {"accepted": taken, "refused": []})
        for (who, key, whose, reason), (times, _, _) in self.refusals.items():
            if who == owner:
                often = f", {times} times" if times > 1 else ""
                (writers[whose - 1]["refused"] if whose else strangers).append(f"{key}: {reason}{often}")
        return {"writers": writers, "refused of strangers": strangers}

    def counted(self) -> tuple[int, ...]:
        return len(self.writers), len(self.effects), len(self.refusals), len(self.issued)

    def state(self) -> dict[str, list[tuple]]:
        writers = [
            (owner, number, *writer.values())
            for owner, writers in self.writers.items()
            for number, writer in enumerate(writers, 1)
        ]
        effects = [
            (*kept["answer"].values(), *key, *(kept["named"][part] for part in PARTS))
            for key, kept in self.effects.items()
        ]
        issued = [(receipt[0], *key, *receipt[1:]) for key, receipt in self.issued.items()]
        refusals = [(*which, *counted) for which, counted in self.refusals.items()]
        return {"writer": writers, "effect": effects, "refusal": refusals, "restoration": issued}


PARTS = ("subject", "revision", "fence", "digest")


def _receipt(number: int, document: str) -> dict:
    return {"id": number, "digest": hashlib.sha256(document.encode()).hexdigest()} | json.loads(document)
