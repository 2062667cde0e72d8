"""The part of the model of work that says who may work on what: leases, reservations, sweeps (W-2, W-3, W-8,
W-10). `work` is the whole.
"""

from __future__ import annotations

from receiptlab.models.base import Expected, Model, No, accepted
from receiptlab.models.intake import IntakeModel

TEN_SECONDS = 10_000
SWEEP = ("", "sweep")
REMOVED = ("", "")


class ReservingModel(Model):
    """Rows of work by number, with the history of each; leases by what they are on."""

    def __init__(self) -> None:
        self.intake = IntakeModel()
        self.intake.gone, self.intake.left = self._gone, self._left
        self.works: dict[int, dict] = {}
        self.history_of: dict[int, list[dict]] = {}
        self.given = 0
        self.leased: dict[tuple, dict] = {}
        self.effects: list[tuple] = []

    def acquire(self, namespace, processor, worker, now) -> Expected:
        token, holder, until = self._lease((namespace, processor))
        if holder is not None and now < until <= now + TEN_SECONDS:
            raise No("busy")
        self.leased[namespace, processor] = (token + 1, worker, now + TEN_SECONDS)
        told = {"namespace": namespace, "processor": processor, "holder": worker}
        return accepted(**told, token=token + 1, until=now + TEN_SECONDS)

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
        told = {"works": "work", "fences": "fence", "attempts": "attempts"}
        return accepted(
            **{each: [row[part] for row in claims] for each, part in told.items()}, dead_letters=dead_letters
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
        """A dead letter: it keeps its receipt whole, and a message announces it."""
        self._move(row, "dead", None, now)
        self.intake.owe("dead-letter", row["identity"], now)

    def _open(self, row: dict, worker: str | None, now: int, ended: int | None, result: str) -> None:
        told = {"fence": row["fence"], "worker": worker, "started_at": now, "ended_at": ended}
        self.history_of[row["work"]].append(told | {"result": result, "error": None, "detail": None})

    def _close(self, row: dict, result: str, now: int, error=None, detail=None) -> None:
        told = {"ended_at": now, "result": result, "error": error, "detail": detail}
        self.history_of[row["work"]][-1].update(told)


def _oldest(row: dict) -> tuple:
    return row["due"], row["work"]


def _spent(row: dict, max_attempts: int) -> bool:
    """Tried as often as it may be. What was requeued is pending, and gets one more try."""
    return row["state"] != "pending" and row["attempts"] >= max_attempts
