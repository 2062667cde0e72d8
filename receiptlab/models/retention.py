"""Retention and range closure as plain dictionaries, written from R-1 to R-10."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from receiptlab.models.base import Expected, Model, No, accepted, name, read, replayed, size, whole


class RetentionModel(Model):
    """Effects in order, receipts and tombstones by (namespace, epoch, operation), and watermarks."""

    NAME = "retention"
    RULES: ClassVar = {
        **dict.fromkeys(("namespace", "operation"), name),
        **dict.fromkeys(("epoch", "through", "now"), whole()),
        "payload": size(0, 1_048_576),
    }
    CALLS: ClassVar = {
        "execute": "namespace epoch operation payload now",
        "expire_result": "namespace epoch operation now",
        "close_and_collect": "namespace through now",
        "effects": "namespace epoch operation",
    }
    STATE: ClassVar = {
        "effect": "SELECT namespace, epoch, operation, digest, executed_at FROM effect",
        "receipt": "SELECT namespace, epoch, operation, digest, result IS NOT NULL, changed_at FROM receipt",
        "boundary": "SELECT namespace, closed_through, changed_at FROM boundary",
    }

    def __init__(self) -> None:
        self.happened: list[tuple] = []
        self.receipts: dict[tuple, dict] = {}
        self.closed: dict[str, tuple[int, int]] = {}

    def execute(self, namespace, epoch, operation, payload, now) -> Expected:
        key, digest = (namespace, epoch, operation), hashlib.sha256(payload.encode()).hexdigest()
        self._open(namespace, epoch)
        if key in self.receipts:
            kept = self.receipts[key]
            if kept["digest"] != digest:
                raise No("conflict")
            if kept["result"] is None:
                raise No("result-expired")
            return replayed(**kept["result"])
        self.happened.append((*key, digest, now))
        result = {"effect": len(self.happened), "executed_at": now}
        self.receipts[key] = {"digest": digest, "result": result, "changed_at": now}
        return accepted(**result)

    def expire_result(self, namespace, epoch, operation, now) -> Expected:
        self._open(namespace, epoch)
        kept = self.receipts.get((namespace, epoch, operation))
        if kept is None:
            raise No("not-found")
        if kept["result"] is None:
            return replayed(digest=kept["digest"])
        kept |= {"result": None, "changed_at": now}
        return accepted(digest=kept["digest"])

    def close_and_collect(self, namespace, through, now) -> Expected:
        before, _ = self.closed.get(namespace, (-1, 0))
        if through < before:
            raise No("boundary")
        if through == before:
            return replayed(closed_through=through, collected=0)
        gone = [key for key in self.receipts if key[0] == namespace and key[1] <= through]
        for key in gone:
            del self.receipts[key]
        self.closed[namespace] = (through, now)
        return accepted(closed_through=through, collected=len(gone))

    def effects(self, namespace, epoch, operation) -> Expected:
        key = (namespace, epoch, operation)
        return read(digests=[effect[3] for effect in self.happened if effect[:3] == key])

    def _open(self, namespace, epoch) -> None:
        if namespace in self.closed and epoch <= self.closed[namespace][0]:
            raise No("closed")

    def counted(self) -> tuple[int, ...]:
        with_result = sum(kept["result"] is not None for kept in self.receipts.values())
        return len(self.happened), with_result, len(self.receipts) - with_result

    def state(self) -> dict[str, list[tuple]]:
        receipts = [
            (*key, kept["digest"], int(kept["result"] is not None), kept["changed_at"])
            for key, kept in self.receipts.items()
        ]
        boundaries = [(namespace, *closed) for namespace, closed in self.closed.items()]
        return {"effect": self.happened, "receipt": receipts, "boundary": boundaries}
