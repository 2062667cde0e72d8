"""The owner as plain dictionaries, written from O-1 to O-20."""

from __future__ import annotations

from typing import ClassVar

from receiptlab.models.base import (
    LARGEST,
    Expected,
    Model,
    No,
    accepted,
    digest,
    name,
    read,
    replayed,
    whole,
)

COMMAND = "scope work actor key revision epoch policy fence result_digest"
"""The fields of a command. `now` is not one of them: a retry comes later."""


class OwnerModel(Model):
    """Works by (scope, work), receipts by (scope, key)."""

    NAME = "owner"
    RULES: ClassVar = {
        **dict.fromkeys(["scope", "work", "actor", "key", "policy"], name),
        **dict.fromkeys(["epoch", "fence", "now", "until"], whole()),
        "revision": whole(high=LARGEST - 1),
        "result_digest": digest,
    }
    CALLS: ClassVar = {
        "add": "scope work revision epoch policy now",
        "claim": "now until scope work actor",
        "accept": f"{COMMAND} now",
        "cancel": "scope work now",
        "set_authority": "scope work epoch policy now",
        "revoke": "scope now",
        "renew": "now until scope work actor fence",
        "release": "scope work actor fence now",
        "find": "scope key epoch policy",
        "get": "scope work",
    }
    STATE: ClassVar = {
        "work": "SELECT * FROM work",
        "receipt": "SELECT id, scope, key, work, revision, result_digest, accepted_at FROM receipt",
        "outbox": "SELECT id, topic, subject, staged_at FROM outbox",
    }

    def __init__(self) -> None:
        self.works: dict[tuple, dict] = {}
        self.receipts: dict[tuple, dict] = {}
        self.commands: dict[tuple, dict] = {}
        self.outbox: list[tuple] = []

    def add(self, scope, work, revision, epoch, policy, now) -> Expected:
        if (scope, work) in self.works:
            raise No("exists")
        revoked = max((row["revoked"] for row in self._scope(scope)), default=0)
        row = {"scope": scope, "work": work, "revision": revision, "epoch": epoch, "policy": policy}
        row |= {"revoked": revoked, "fence": 0, "holder": None, "expires_at": None, "state": "ready"}
        self.works[scope, work] = row | {"human_state": "open", "results": 0, "changed_at": now}
        return accepted()

    def wrong(self, call, args) -> str:
        """A lease ends after it began. This is checked before the other arguments."""
        now, until = args.get("now"), args.get("until")
        if call in ("claim", "renew") and type(now) is int and now == LARGEST:
            return "now"
        if call in ("claim", "renew") and whole()(now) and whole()(until) and until <= now:
            return "until"
        return super().wrong(call, args)

    def claim(self, scope, work, actor, now, until) -> Expected:
        row = self._found(scope, work)
        if row["revoked"]:
            raise No("revoked")
        if row["state"] not in ("ready", "leased"):
            raise No("state")
        if row["state"] == "leased" and now < row["expires_at"]:
            raise No("busy")
        row |= {"fence": row["fence"] + 1, "holder": actor, "expires_at": until, "state": "leased"}
        row["changed_at"] = now
        return accepted(scope=scope, work=work, holder=actor, fence=row["fence"], until=until)

    def accept(self, now, **command) -> Expected:
        row, key = self._found(command["scope"], command["work"]), (command["scope"], command["key"])
        if row["revoked"]:
            raise No("revoked")
        for stale in ("epoch", "policy"):
            if command[stale] != row[stale]:
                raise No(stale)
        if key in self.receipts:
            changed = [each for each in COMMAND.split() if command[each] != self.commands[key][each]]
            if changed:
                raise No("key-reused", *changed)
            return replayed(**self.receipts[key])
        self._may_finish(row, command, now)
        return self._finish(row, key, command, now)

    def _may_finish(self, row, command, now) -> None:
        if row["state"] != "leased":
            raise No("state")
        if command["fence"] != row["fence"]:
            raise No("fence")
        if command["actor"] != row["holder"]:
            raise No("holder")
        if row["expires_at"] <= now:
            raise No("expired")
        if command["revision"] != row["revision"]:
            raise No("revision")

    def _finish(self, row, key, command, now) -> Expected:
        row |= {"revision": row["revision"] + 1, "results": row["results"] + 1, "changed_at": now}
        row |= {"state": "result-recorded", "holder": None, "expires_at": None}
        number = len(self.receipts) + 1
        receipt = {"id": number, "scope": key[0], "key": key[1], "work": row["work"]}
        receipt |= {"revision": row["revision"], "result_digest": command["result_digest"]}
        self.receipts[key], self.commands[key] = receipt | {"accepted_at": now}, command
        self.outbox.append((len(self.outbox) + 1, "result-recorded", str(number), now))
        return accepted(**self.receipts[key])

    def cancel(self, scope, work, now) -> Expected:
        row = self._found(scope, work)
        if row["state"] == "result-recorded":
            raise No("state")
        row |= {"state": "cancelled", "changed_at": now}
        return accepted()

    def set_authority(self, scope, work, epoch, policy, now) -> Expected:
        self._found(scope, work).update(epoch=epoch, policy=policy, changed_at=now)
        return accepted()

    def revoke(self, scope, now) -> Expected:
        if not self._scope(scope):
            raise No("not-found")
        for row in self._scope(scope):
            row |= {"revoked": 1, "changed_at": now}
        return accepted()

    def renew(self, scope, work, actor, fence, now, until) -> Expected:
        row = self._held(scope, work, actor, fence)
        if row["expires_at"] <= now:
            raise No("expired")
        row |= {"expires_at": max(row["expires_at"], until), "changed_at": now}
        return accepted(scope=scope, work=work, holder=actor, fence=fence, until=row["expires_at"])

    def release(self, scope, work, actor, fence, now) -> Expected:
        row = self._held(scope, work, actor, fence)
        row |= {"holder": None, "expires_at": None, "state": "ready", "changed_at": now}
        return accepted()

    def _held(self, scope, work, actor, fence) -> dict:
        row = self._found(scope, work)
        if row["revoked"]:
            raise No("revoked")
        if row["state"] != "leased":
            raise No("state")
        if row["fence"] != fence:
            raise No("fence")
        if row["holder"] != actor:
            raise No("holder")
        return row

    def find(self, scope, key, epoch, policy) -> Expected:
        if any(row["revoked"] for row in self._scope(scope)):
            raise No("revoked")
        receipt = self.receipts.get((scope, key))
        row = self.works[scope, receipt["work"]] if receipt else {}
        if (row.get("epoch"), row.get("policy")) != (epoch, policy):
            raise No("not-found")
        return read(**receipt)

    def get(self, scope, work) -> Expected:
        return read(**self._found(scope, work))

    def _found(self, scope, work) -> dict:
        if (scope, work) not in self.works:
            raise No("not-found")
        return self.works[scope, work]

    def _scope(self, scope) -> list[dict]:
        return [row for row in self.works.values() if row["scope"] == scope]

    def leased(self) -> list[dict]:
        return [row for _, row in sorted(self.works.items()) if row["state"] == "leased"]

    def counted(self) -> tuple[int, ...]:
        results = sum(row["results"] for row in self.works.values())
        return results, len(self.receipts), len(self.outbox)

    def leases(self) -> list[tuple]:
        return [
            (f"{row['scope']}/{row['work']}", row["holder"], row["fence"], row["expires_at"])
            for row in self.leased()
        ]

    def state(self) -> dict[str, list[tuple]]:
        rows = [tuple(row.values()) for row in self.works.values()]
        receipts = [tuple(row.values()) for row in self.receipts.values()]
        return {"work": rows, "receipt": receipts, "outbox": self.outbox}

    def times(self) -> list[int]:
        return [row["expires_at"] for row in self.leased()]
