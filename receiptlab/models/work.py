"""Work claims as plain dictionaries, written from W-1 to W-11. Receipts are as in the model of intake."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from receiptlab.models.base import Expected, Model, No, accepted, digest, name, read, size, whole
from receiptlab.models.intake import IntakeModel

TEN_SECONDS = 10_000
SWEEP = ("", "sweep")
REMOVED = ("", "")
BIG, LONG = 2**62, 2**61
NAMED = ("identity", "revision", "processor", "processor_revision")
ROW = ("work", *NAMED, "state", "due", "fence", "attempts", "holder", "reference")


class WorkModel(Model):
    """Rows of work by number, each with its history; leases; effects. Numbers are never reused."""

    NAME = "work"
    RULES: ClassVar = {
        **dict.fromkeys(["tenant", "processor", "processor_revision", "worker", "error"], name),
        **dict.fromkeys(["token", "work"], whole(1, BIG)),
        "fence": whole(1),
        **dict.fromkeys(["now", "after"], whole(0, BIG)),
        **dict.fromkeys(("base", "cap", "keep_for", "horizon"), whole(0, LONG)),
        **{each: IntakeModel.RULES[each] for each in ["namespace", "key", "retain_until", "tombstone_until"]},
        "digest": digest,
        "reference": size(0, 4_096),
        "detail": size(0, 2_048),
        "limit": whole(1, 10_000),
        "hold_for": whole(1, LONG),
        "max_attempts": whole(1, 1_000_000),
    }
    CALLS: ClassVar = {
        "deliver": """tenant namespace key digest processor processor_revision
            retain_until tombstone_until now""",
        "acquire": "namespace processor worker now",
        "acquire_sweep": "worker now",
        "reserve": "namespace processor worker token limit hold_for max_attempts now",
        "next": "namespace processor worker limit hold_for max_attempts now",
        "renew": "work fence hold_for now",
        "complete": "work fence reference now",
        "fail": "work fence error detail max_attempts base cap now",
        "requeue": "work now",
        "discard": "work now",
        "discard_dead": "keep_for limit now",
        "reset_ahead": "horizon limit now",
        "sweep": "worker token limit max_attempts now",
        "get": "work",
        "history": "work",
        "ahead": "horizon now",
        "dead": "after limit",
        "counts": "",
    }
    STATE: ClassVar = {
        **IntakeModel.STATE,
        "work": f"SELECT id, {', '.join(ROW[1:])}, namespace, changed_at FROM work",
        "attempt": """SELECT work, number, fence, worker, started_at, ended_at, result, error, detail
            FROM attempt""",
        "effect": f"SELECT {', '.join(NAMED)}, reference, effected_at FROM effect",
        "lease": "SELECT namespace, processor, token, holder, expires_at FROM lease",
    }

    def __init__(self) -> None:
        self.intake = IntakeModel()
        self.intake.gone, self.intake.left = self._gone, self._left
        self.works: dict[int, dict] = {}
        self.history_of: dict[int, list[dict]] = {}
        self.given = 0
        self.leased: dict[tuple, dict] = {}
        self.effects: list[tuple] = []

    def deliver(
        self, processor, processor_revision, retain_until, tombstone_until, now, digest, **named
    ) -> Expected:
        delivery = {"key_kind": "explicit", **named, "digest": digest, "changed_as": "revision"}
        horizons = {"retain_until": retain_until, "tombstone_until": tombstone_until, "now": now}
        delivered = self.intake.deliver(**delivery, reference="", **horizons)
        item = self.intake.find({"key_kind": "explicit", **named}, digest)["item"]
        staged = self._stage(
            item["identity"], delivered.facts["revision"], (processor, processor_revision), now
        )
        return accepted(**delivered.facts, staged=staged)

    def _stage(self, identity, number, by, now) -> int:
        """Staged once, and only while the revision is kept: compacted items are not worked on again."""
        receipt, revision = self.intake.receipts[identity], self.intake.revisions[identity][number - 1]
        kept = receipt["state"] == "live" and revision["staged_at"] is not None
        if not kept or revision["disposition"] != "accepted":
            return 0
        key = (identity, number, *by)
        if key in [tuple(row[part] for part in NAMED) for row in self.works.values()]:
            return 0
        self.given += 1
        row = dict(zip(ROW, (self.given, *key, "pending", now, 0, 0, None, None), strict=True))
        self.works[self.given] = row | {"namespace": receipt["namespace"], "changed_at": now}
        self.history_of[self.given] = []
        receipt["unsettled"] += 1
        return 1

    def acquire(self, namespace, processor, worker, now) -> Expected:
        token, holder, until = self._lease((namespace, processor))
        if holder is not None and now < until <= now + TEN_SECONDS:
            raise No("busy")
        self.leased[namespace, processor] = (token + 1, worker, now + TEN_SECONDS)
        lease = {"namespace": namespace, "processor": processor, "holder": worker}
        return accepted(**lease, token=token + 1, until=now + TEN_SECONDS)

    def acquire_sweep(self, worker, now) -> Expected:
        return self.acquire(*SWEEP, worker, now)

    def reserve(self, namespace, processor, worker, token, limit, hold_for, max_attempts, now) -> Expected:
        self._under_lease((namespace, processor), token, now)
        due = [
            row
            for row in self.works.values()
            if (row["namespace"], row["processor"]) == (namespace, processor)
            and row["due"] is not None
            and row["due"] <= now
        ]
        claims, dead_letters = [], []
        for row in sorted(due, key=_oldest)[:limit]:
            if row["state"] == "claimed":
                self._close(row, "expired", now)
            if _spent(row, max_attempts):
                self._to_dead_letters(row, now)
                dead_letters.append(row["work"])
                continue
            row |= {"state": "claimed", "due": now + hold_for, "fence": row["fence"] + 1}
            row |= {"attempts": row["attempts"] + 1, "holder": worker, "changed_at": now}
            self._open(row, worker, now, None, "open")
            claims.append(row)
        self._give_back((namespace, processor))
        columns = {"works": "work", "fences": "fence", "attempts": "attempts"}
        return accepted(
            **{each: [row[part] for row in claims] for each, part in columns.items()},
            dead_letters=dead_letters,
        )

    def next(self, namespace, processor, worker, limit, hold_for, max_attempts, now) -> Expected:
        token = self.acquire(namespace, processor, worker, now).facts["token"]
        return self.reserve(namespace, processor, worker, token, limit, hold_for, max_attempts, now)

    def sweep(self, worker, token, limit, max_attempts, now) -> Expected:
        self._under_lease(SWEEP, token, now)
        ended = [row for row in self.works.values() if row["state"] == "claimed" and row["due"] <= now]
        spent = [row for row in self.works.values() if row["state"] == "failed"]
        spent = [row for row in spent if _spent(row, max_attempts)]
        spent.sort(key=lambda row: (row["attempts"], row["work"]))
        found = [sorted(ended, key=_oldest)[:limit], spent[:limit]]
        expired = dead_letters = 0
        for row in found[0] + found[1]:
            ended = row["state"] == "claimed"
            if ended:
                self._close(row, "expired", now)
            if _spent(row, max_attempts):
                self._to_dead_letters(row, now)
                dead_letters += 1
            else:
                self._move(row, "failed", row["due"], now)
            expired += ended
        receipts = self.intake.sweep(limit, now).facts
        more = limit in (*map(len, found), *receipts.values())
        if not more:
            self._give_back(SWEEP)
        return accepted(expired=expired, dead_letters=dead_letters, **receipts, more=more)

    def renew(self, work, fence, hold_for, now) -> Expected:
        row = self._claimed(work, fence, now)
        row |= {"due": max(row["due"], now + hold_for), "changed_at": now}
        return accepted(work=work, state="claimed", due=row["due"])

    def complete(self, work, fence, reference, now) -> Expected:
        row = self._claimed(work, fence, now, done="already-done")
        self._close(row, "done", now)
        self._move(row, "done", None, now)
        row["reference"] = reference
        self.effects.append((*(row[part] for part in NAMED), reference, now))
        self.intake.owe("done", row["identity"], now)
        return accepted(work=work, state="done", due=None)

    def fail(self, work, fence, error, detail, max_attempts, base, cap, now) -> Expected:
        row = self._claimed(work, fence, now)
        self._close(row, "failed", now, error, detail)
        dead = row["attempts"] >= max_attempts
        due = None if dead else now + _backoff(row["identity"], row["attempts"], base, cap)
        self._move(row, "dead" if dead else "failed", due, now)
        if dead:
            self.intake.owe("dead-letter", row["identity"], now)
        return accepted(work=work, state=row["state"], due=due)

    def requeue(self, work, now) -> Expected:
        row = self._row(work)
        if row["state"] != "dead":
            raise No("not-dead")
        self._open(row, None, now, now, "requeued")
        self._move(row, "pending", now, now)
        return accepted(work=work, state="pending", due=now)

    def discard(self, work, now) -> Expected:
        row = self._row(work)
        if row["state"] != "dead":
            raise No("not-dead")
        self._move(row, "discarded", None, now)
        return accepted(work=work, state="discarded", due=None)

    def discard_dead(self, keep_for, limit, now) -> Expected:
        """Those that have been dead for long enough, longest first."""
        dead = [row for row in self.works.values() if row["state"] == "dead"]
        dead = [row for row in dead if row["changed_at"] + keep_for <= now]
        dead.sort(key=lambda row: (row["changed_at"], row["work"]))
        for row in dead[:limit]:
            self._move(row, "discarded", None, now)
        return accepted(discarded=len(dead[:limit]), more=len(dead) >= limit)

    def reset_ahead(self, horizon, limit, now) -> Expected:
        """Make work due now: a claim ends, counts as an attempt, and its fence rises."""
        rows = sorted(self._ahead(horizon, now), key=lambda row: (row["state"], row["due"], row["work"]))
        for row in rows[:limit]:
            claimed = row["state"] == "claimed"
            if claimed:
                self._close(row, "expired", now)
                row["fence"] += 1
            self._move(row, "failed" if claimed else row["state"], now, now)
        return accepted(works=[row["work"] for row in rows[:limit]], more=len(rows) >= limit)

    def ahead(self, horizon, now) -> Expected:
        ahead: dict[str, list[int]] = {}
        for row in self._ahead(horizon, now):
            count, latest = ahead.get(what := f"{row['processor']} {row['state']}", (0, 0))
            ahead[what] = [count + 1, max(latest, row["due"])]
        return read(**ahead)

    def _ahead(self, horizon: int, now: int) -> list[dict]:
        return [row for row in self.works.values() if row["due"] is not None and row["due"] > now + horizon]

    def get(self, work) -> Expected:
        row = self._row(work)
        history = [attempt["result"] for attempt in self.history_of[work]]
        return read(**{part: row[part] for part in ROW}, history=history)

    def history(self, work) -> Expected:
        self._row(work)
        named = {"results": "result", "fences": "fence", "workers": "worker", "errors": "error"}
        named |= {"started": "started_at", "ended": "ended_at", "details": "detail"}
        return read(**{name: [each[part] for each in self.history_of[work]] for name, part in named.items()})

    def dead(self, after, limit) -> Expected:
        dead = [work for work, row in self.works.items() if row["state"] == "dead" and work > after]
        histories = [", ".join(each["result"] for each in self.history_of[work]) for work in dead]
        return read(works=dead[:limit], histories=histories[:limit], more=len(dead) > limit)

    def counts(self) -> Expected:
        counted: dict[str, int] = {}
        for row in self.works.values():
            what = f"{row['processor']} {row['state']}"
            counted[what] = counted.get(what, 0) + 1
        return read(**counted)

    def _lease(self, on: tuple) -> tuple:
        return self.leased.get(on) or self.leased.get(REMOVED, (0, None, 0))

    def _under_lease(self, on: tuple, token: int, now: int) -> None:
        given, holder, until = self._lease(on)
        if token != given or holder is None or until <= now:
            raise No("lease-lost")

    def _give_back(self, on: tuple) -> None:
        token, _, until = self.leased[on]
        self.leased[on] = (token, None, until)

    def _move(self, row: dict, state: str, due: int | None, now: int) -> None:
        row |= {"state": state, "due": due, "holder": None, "changed_at": now}
        if state in ("done", "discarded"):
            self.intake.receipts[row["identity"]]["unsettled"] -= 1

    def _to_dead_letters(self, row: dict, now: int) -> None:
        """Make a dead letter, which keeps its receipt from compaction; a message announces it."""
        self._move(row, "dead", None, now)
        self.intake.owe("dead-letter", row["identity"], now)

    def _open(self, row: dict, worker: str | None, now: int, ended: int | None, result: str) -> None:
        attempt = {"fence": row["fence"], "worker": worker, "started_at": now, "ended_at": ended}
        self.history_of[row["work"]].append(attempt | {"result": result, "error": None, "detail": None})

    def _close(self, row: dict, result: str, now: int, error=None, detail=None) -> None:
        ending = {"ended_at": now, "result": result, "error": error, "detail": detail}
        self.history_of[row["work"]][-1].update(ending)

    def _gone(self, receipts: list[dict]) -> None:
        """Delete work on compacted or erased items, and the effects on erased ones."""
        for receipt in receipts:
            for row in [row for row in self.works.values() if row["identity"] == receipt["identity"]]:
                del self.works[row["work"]], self.history_of[row["work"]]
            if receipt["state"] == "erased":
                self.effects = [each for each in self.effects if each[0] != receipt["identity"]]

    def _left(self, namespaces: set[str]) -> None:
        """Delete the leases on these namespaces. A row without a namespace keeps their highest token."""
        for on in [on for on in self.leased if on[0] in namespaces]:
            token = max(self.leased.pop(on)[0], self.leased.get(REMOVED, (0,))[0])
            self.leased[REMOVED] = (token, None, 0)

    def _row(self, work: int) -> dict:
        if work not in self.works:
            raise No("not-found")
        return self.works[work]

    def _claimed(self, work: int, fence: int, now: int, done: str = "") -> dict:
        """The row, for the holder of a live claim. `done` is the refusal for the claim that completed it."""
        row = self._row(work)
        if row["fence"] != fence:
            raise No("claim-lost", "fence")
        if done and row["state"] == "done":
            raise No(done)
        if row["state"] != "claimed":
            raise No("claim-lost", "state")
        if row["due"] <= now:
            raise No("claim-lost", "expiry")
        return row

    def counted(self) -> tuple[int, ...]:
        states = [row["state"] for row in self.works.values()]
        done, dead = states.count("done"), states.count("dead")
        attempts = sum(map(len, self.history_of.values()))
        still = len(states) - done - dead - states.count("discarded")
        return still, done, dead, attempts, len(self.effects), len(self.intake.outbox)

    def leases(self) -> list[tuple]:
        claimed = [row for row in self.works.values() if row["state"] == "claimed"]
        held = [(f"work {row['work']}", row["holder"], row["fence"], row["due"]) for row in claimed]
        for (namespace, processor), (token, holder, until) in self.leased.items():
            if holder is not None:
                on = f"{namespace}, {processor}" if namespace else processor
                held.append((f"queue {on}", holder, token, until))
        return held

    def state(self) -> dict[str, list[tuple]]:
        works = [tuple(row.values()) for row in self.works.values()]
        attempts = [
            (work, number, *attempt.values())
            for work, all in self.history_of.items()
            for number, attempt in enumerate(all, 1)
        ]
        leases = [(*on, token, holder, until) for on, (token, holder, until) in self.leased.items()]
        rows = {"work": works, "attempt": attempts, "effect": self.effects, "lease": leases}
        return self.intake.state() | rows

    def times(self) -> list[int]:
        due = [row["due"] for row in self.works.values() if row["due"] is not None]
        return due + [until for _, _, until in self.leased.values()] + self.intake.times()


class ErasingModel(WorkModel):
    """Work while items are erased. Erasure is a call of intake on the same file, which a case file for
    work can't make, but `python -m receiptlab.models` can."""

    CALLS: ClassVar = WorkModel.CALLS | {"erase_identity": IntakeModel.CALLS["erase_identity"]}

    def wrong(self, call, args) -> str:
        return (self.intake if call == "erase_identity" else super()).wrong(call, args)

    def erase_identity(self, now, **named) -> Expected:
        return self.intake.erase_identity(now, **named)


def _oldest(row: dict) -> tuple:
    return row["due"], row["work"]


def _spent(row: dict, max_attempts: int) -> bool:
    """Whether the attempts are used up. A requeued item is pending and gets one more attempt."""
    return row["state"] != "pending" and row["attempts"] >= max_attempts


def _backoff(identity: str, attempts: int, base: int, cap: int) -> int:
    """The delay: doubled with each attempt, at most `cap`; its upper half is jitter by item and attempt
    (W-7)."""
    wait = min(cap, base * 2 ** (attempts - 1))
    drawn = hashlib.sha256(f"{identity} {attempts}".encode()).hexdigest()[:15]
    return wait - wait // 2 + int(drawn, 16) % (wait // 2 + 1)
