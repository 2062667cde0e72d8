"""Races: calls of a contract in every interleaving of their statements (H-6).

A race has a few callers, the file that they begin with, and a judge that says which endings are allowed.
`PAIRS` holds races between calls of the contracts. `racing_mistakes.PLANTED` holds those that break.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from receiptlab.contracts.base import Contract
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work
from receiptlab.interleaving.explorer import Explorer, Judge
from receiptlab.interleaving.findings import DUPLICATED, SERIALIZABLE, WRONG, Explored, Outcomes
from receiptlab.interleaving.stepper import Caller, calling
from receiptlab.values import sha256


@dataclass(frozen=True)
class Race:
    """Callers, the file that they begin with, and the endings that are allowed. `whole` says that each call
    is one transaction, so every interleaving must end as some serial order of the calls does."""

    name: str
    contract: type[Contract]
    callers: tuple[Caller, ...]
    prepare: Callable[[Contract], object] | None
    judge: Judge | None
    guards: dict | None = None
    whole: bool = True

    def explorer(self, judged: bool = True, every_retry: bool = False) -> Explorer:
        """An explorer of this race. Without its judge, the endings of the serial orders are allowed."""
        return Explorer(
            self.contract,
            self.callers,
            self.prepare,
            guards=self.guards,
            judge=self.judge if judged else None,
            name=self.name,
            every_retry=every_retry,
        )

    def explore(self) -> Explored:
        """Run every interleaving."""
        with self.explorer() as explorer:
            return explorer.explore()


def among(effects: int, *endings: tuple) -> Judge:
    """A judge that allows these endings: the number of accepted answers, then the counts. `effects` is the
    index of the count that shows a duplicated effect when it is above every allowed ending."""
    most = max(ending[1:][effects] for ending in endings)

    def judge(counts: tuple[int, ...], outcomes: Outcomes) -> str:
        accepted = sum(word == "accepted" for word, _ in outcomes)
        if (accepted, *counts) in endings:
            return SERIALIZABLE
        return DUPLICATED if counts[effects] > most else WRONG

    return judge


ORDER = {"scope": "shop", "work": "order-17"}
_RESULT = ORDER | {"actor": "worker-a", "revision": 1, "epoch": 1, "policy": "policy-1", "fence": 1}


def _accept(actor: str, key: str) -> Caller:
    named = _RESULT | {"key": key, "result_digest": sha256("result 1"), "now": 120}
    return Caller(actor, "accept", lambda owner: owner.accept(**named), 120, named)


def _claim(actor: str) -> Caller:
    named = ORDER | {"actor": actor, "now": 100, "until": 160}
    return Caller(actor, "claim", lambda owner: owner.claim(**named), 100, named)


def _added(owner: Owner) -> None:
    owner.add(**ORDER, revision=1, epoch=1, policy="policy-1", now=0)


def _leased(owner: Owner) -> None:
    _added(owner)
    owner.claim(**ORDER, actor="worker-a", now=100, until=160)


_ONE_RESULT = among(0, (1, 1, 1, 1))
_ONE_LEASE = among(0, (1, 0, 0, 0))
_KEY_1, _RETRY, _KEY_2 = (
    _accept("worker-a", "key-1"),
    _accept("its retry", "key-1"),
    _accept("other", "key-2"),
)

OWNER = (
    Race("accept twice, one key", Owner, (_KEY_1, _RETRY), _leased, _ONE_RESULT),
    Race("accept twice, two keys", Owner, (_KEY_1, _KEY_2), _leased, _ONE_RESULT),
    Race("accept three times", Owner, (_KEY_1, _RETRY, _KEY_2), _leased, _ONE_RESULT),
    Race("claim twice", Owner, (_claim("worker-a"), _claim("worker-b")), _added, _ONE_LEASE),
)


def execute(actor: str) -> Caller:
    """Execute operation op-1 of epoch 1."""
    return calling(
        actor, "execute", namespace="shop", epoch=1, operation="op-1", payload="one letter", now=10
    )


CLOSE = calling("operator", "close_and_collect", namespace="shop", through=1, now=20)
_ONE_EFFECT = among(0, (1, 1, 1, 0))
CLOSED = among(0, (2, 1, 0, 0), (1, 0, 0, 0))
"""Executed and then collected, or closed and refused."""

RETENTION = (
    Race("execute twice", Retention, (execute("client"), execute("its retry")), None, _ONE_EFFECT),
    Race("execute and close", Retention, (execute("client"), CLOSE), None, CLOSED),
    Race(
        "execute twice and close",
        Retention,
        (execute("client"), execute("its retry"), CLOSE),
        None,
        CLOSED,
    ),
)


def _deliver(actor: str, body: str) -> Caller:
    item = {"key_kind": "explicit", "tenant": "shop", "namespace": "mail", "key": "message-1"}
    rest = {"changed_as": "revision", "reference": "", "retain_until": 1_000, "tombstone_until": 2_000}
    return calling(actor, "deliver", **item, digest=sha256(body), **rest, now=10)


_FIRST, _AGAIN, _OTHER = (
    _deliver("first", "body 1"),
    _deliver("again", "body 1"),
    _deliver("changed", "body 2"),
)

INTAKE = (
    Race("deliver twice", Intake, (_FIRST, _AGAIN), None, among(0, (2, 1, 1, 1))),
    Race("deliver, and deliver it changed", Intake, (_FIRST, _OTHER), None, among(0, (2, 1, 2, 2))),
    Race("deliver three times", Intake, (_FIRST, _AGAIN, _OTHER), None, among(0, (3, 1, 2, 2))),
)


def _taking(worker: str, call: str, now: int, **token: int) -> Caller:
    who = {"namespace": "mail", "processor": "index", "worker": worker}
    return calling(worker, call, **who, **token, limit=10, hold_for=100, max_attempts=5, now=now)


COMPLETE = calling("worker-a", "complete", work=1, fence=1, reference="letter 1", now=90)
_SWEEP = calling("sweeper", "sweep", worker="sweeper", token=1, limit=10, max_attempts=5, now=150)


def _delivered(work: Work) -> None:
    item = {"tenant": "shop", "namespace": "mail", "key": "message-1", "digest": sha256("body 1")}
    until = {"retain_until": 10**6, "tombstone_until": 10**7}
    work.deliver(**item, processor="index", processor_revision="1", **until, now=0)


def reserved(work: Work) -> None:
    """An item that worker-a has claimed until 100, and the sweeper's lease, acquired at 149."""
    _delivered(work)
    work.next("mail", "index", "worker-a", limit=10, hold_for=100, max_attempts=5, now=0)
    work.acquire_sweep("sweeper", now=149)


def _leased_again(work: Work) -> None:
    """Like `reserved`, and worker-b has acquired the lease at 149."""
    reserved(work)
    work.acquire("mail", "index", "worker-b", now=149)


# Counts: open, done, dead, attempts, effects, outbox.
_TAKEN_ONCE = among(3, (2, 1, 0, 0, 1, 0, 1), (1, 1, 0, 0, 1, 0, 1))
_DONE_OR_LOST = among(4, (2, 0, 1, 0, 1, 1, 2), (1, 1, 0, 0, 2, 0, 1))
DONE_ONCE = among(4, (1, 0, 1, 0, 1, 1, 2))
_TAKEN_AGAIN, _TAKEN_AGAIN_ONCE = (among(3, (accepted, 1, 0, 0, 2, 0, 1)) for accepted in (2, 1))
_LATE = _taking("worker-b", "next", 150)
_RESERVE = _taking("worker-b", "reserve", 150, token=2)

WORK = (
    Race(
        "next twice",
        Work,
        (_taking("worker-a", "next", 0), _taking("worker-b", "next", 0)),
        _delivered,
        _TAKEN_ONCE,
        None,
        False,
    ),
    Race("complete and next, after the end", Work, (COMPLETE, _LATE), reserved, _DONE_OR_LOST, None, False),
    Race("sweep and next", Work, (_SWEEP, _LATE), reserved, _TAKEN_AGAIN, None, False),
    Race("reserve twice, one lease", Work, (_RESERVE, _RESERVE), _leased_again, _TAKEN_AGAIN_ONCE),
    Race("complete twice and reserve", Work, (COMPLETE, COMPLETE, _RESERVE), _leased_again, _DONE_OR_LOST),
)


def _writer(receiver: Receiver) -> None:
    receiver.register("shop", "first", now=0)


def _apply(actor: str, key: str) -> Caller:
    named = {"owner": "shop", "generation": 1, "instance": "first", "key": key, "subject": "order-17"}
    return calling(actor, "apply", **named, revision=1, fence=1, digest=sha256("result 1"), now=10)


_REGISTER = calling("the copy", "register", owner="shop", instance="copy-1", now=20)
_APPLY, _RESENT = _apply("the original", "key-1"), _apply("its retry", "key-1")
# Counts: writers, effects, refusals, restore receipts.
_APPLIED = among(1, (1, 1, 1, 0, 0))
_FENCED = among(1, (2, 1, 1, 0, 0), (1, 1, 0, 1, 0))

RECEIVER = (
    Race("apply twice", Receiver, (_APPLY, _RESENT), _writer, _APPLIED),
    Race("register and apply", Receiver, (_REGISTER, _APPLY), _writer, _FENCED),
    Race(
        "register and apply twice",
        Receiver,
        (_REGISTER, _APPLY, _RESENT),
        _writer,
        among(1, (2, 1, 1, 0, 0), (2, 1, 1, 1, 0), (1, 1, 0, 1, 0)),
    ),
)

# The rest has no judge: every interleaving must end as some serial order does, with the same answers and
# rows.
_CANCEL = calling("operator", "cancel", **ORDER, now=110)
_AUTHORITY = calling("operator", "set_authority", **ORDER, epoch=2, policy="policy-2", now=110)
_REVOKE = calling("operator", "revoke", scope="shop", now=110)
_EXPIRE = calling("operator", "expire_result", namespace="shop", epoch=1, operation="op-1", now=20)
_ERASE = calling(
    "operator",
    "erase_identity",
    key_kind="explicit",
    tenant="shop",
    namespace="mail",
    key="message-1",
    now=20,
)
_ERASE_ALL = calling("operator", "erase_tenant", tenant="shop", now=20)
_OTHER_COPY = calling("another copy", "register", owner="shop", instance="copy-2", now=21)
_ISSUE = calling("auditor", "issue", owner="shop", generation=1, instance="first", enforced="fence", now=30)
_REQUEUE, _REQUEUE_TOO = (calling(who, "requeue", work=1, now=50) for who in ("operator", "other operator"))
_RENEW = calling("worker-a", "renew", work=1, fence=1, hold_for=500, now=90)
_FAIL = calling(
    "worker-a", "fail", work=1, fence=1, error="odd", detail="", max_attempts=5, base=10, cap=10, now=90
)
_LOOK = calling("auditor", "get", work=1)
_DEAD = calling("auditor", "dead", after=0, limit=5)


def _executed(retention: Retention) -> None:
    retention.execute(namespace="shop", epoch=1, operation="op-1", payload="one letter", now=1)


def _taken_in(intake: Intake) -> None:
    _FIRST.make(intake)


def _dead(work: Work) -> None:
    reserved(work)
    work.fail(1, 1, "odd", "", max_attempts=1, base=10, cap=10, now=40)


ALL_OTHERS = (
    Race("cancel and accept", Owner, (_CANCEL, _KEY_1), _leased, None),
    Race("new authority and accept", Owner, (_AUTHORITY, _KEY_1), _leased, None),
    Race("revoke and accept", Owner, (_REVOKE, _KEY_1), _leased, None),
    Race("expire and execute", Retention, (_EXPIRE, execute("client")), _executed, None),
    Race("erase and deliver", Intake, (_ERASE, _OTHER), _taken_in, None),
    Race("erase a tenant and deliver", Intake, (_ERASE_ALL, _OTHER), _taken_in, None),
    Race("register twice", Receiver, (_REGISTER, _OTHER_COPY), _writer, None),
    Race("issue and apply", Receiver, (_ISSUE, _APPLY), _writer, None),
    Race("requeue twice", Work, (_REQUEUE, _REQUEUE_TOO), _dead, None),
    Race("renew and reserve", Work, (_RENEW, _RESERVE), _leased_again, None),
    Race("fail and reserve", Work, (_FAIL, _RESERVE), _leased_again, None),
    Race("fail and sweep", Work, (_FAIL, _SWEEP), reserved, None, None, False),
    Race("complete and look", Work, (COMPLETE, _LOOK), reserved, None),
    Race("requeue and dead", Work, (_REQUEUE, _DEAD), _dead, None),
)

PAIRS = (*OWNER, *RETENTION, *INTAKE, *WORK, *RECEIVER, *ALL_OTHERS)
"""Every interleaving of each of these is serializable. Try other pairs with `play --interleavings`."""
