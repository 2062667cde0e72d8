"""Workloads: for each contract, a short one that makes every writing call (for H-4 and H-5).

Each step is one call with its arguments, on the file that the earlier steps left. Steps share nothing in
memory, so a workload can continue from any step on a new connection. `invariants` has what must hold of
the file at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

from receiptlab.contracts import owner, receiver, relay, retention
from receiptlab.contracts.intake import intake
from receiptlab.contracts.work import work
from receiptlab.errors import Indefinite, NotWritten, Refused
from receiptlab.faults.disk.invariants import RULES
from receiptlab.store import Store
from receiptlab.values import sha256

OUTSIDE = "outside"
"""The failpoint at which somebody outside has seen what was committed so far."""


class CallStep(NamedTuple):
    """One call. `parts` is the number of transactions it may consist of; after a failure, any of them may
    be the last. A step that doesn't write finds what it asks for. After a step was acknowledged, `gone`
    must be in no file."""

    name: str
    call: Callable[[SimpleNamespace], object]
    parts: int = 1
    writes: bool = True
    gone: tuple[bytes, ...] = ()
    refused: str = ""


class Workload(NamedTuple):
    """The steps of one contract, how to open it, and its invariants."""

    name: str
    schema: tuple[str, ...]
    on: Callable[[Store], SimpleNamespace]
    steps: tuple[CallStep, ...]
    rules: dict[str, str]


def _owner_steps() -> tuple[CallStep, ...]:
    add = {"scope": "shop", "revision": 1, "epoch": 1, "policy": "p-1"}
    one = {"scope": "shop", "work": "order-1"}
    result = one | {"actor": "a", "key": "k-1", "revision": 1, "epoch": 1, "policy": "p-1", "fence": 1}
    result |= {"result_digest": sha256("one")}
    two = result | {"work": "order-2", "key": "k-2", "epoch": 2, "policy": "p-2", "fence": 2}
    return (
        CallStep("add", lambda at: at.owner.add(**add, work="order-1", now=0)),
        CallStep("add", lambda at: at.owner.add(**add, work="order-2", now=0)),
        CallStep("claim", lambda at: at.owner.claim(**one, actor="a", now=100, until=200)),
        CallStep("accept", lambda at: at.owner.accept(**result, now=120)),
        CallStep("accept", lambda at: at.owner.accept(**result, now=130), writes=False),
        CallStep("set_authority", lambda at: at.owner.set_authority("shop", "order-2", 2, "p-2", 140)),
        CallStep("claim", lambda at: at.owner.claim("shop", "order-2", "b", 145, 250)),
        CallStep("release", lambda at: at.owner.release("shop", "order-2", "b", 1, 148)),
        CallStep("claim", lambda at: at.owner.claim("shop", "order-2", "a", 150, 250)),
        CallStep("renew", lambda at: at.owner.renew("shop", "order-2", "a", 2, 155, 300)),
        CallStep("accept", lambda at: at.owner.accept(**two, now=160)),
        CallStep("add", lambda at: at.owner.add(**add, work="order-3", now=170)),
        CallStep("cancel", lambda at: at.owner.cancel("shop", "order-3", 180)),
        CallStep("revoke", lambda at: at.owner.revoke("shop", 190)),
    )


def _retention_steps() -> tuple[CallStep, ...]:
    def execute(epoch: int, name: str, now: int, writes: bool = True) -> CallStep:
        def call(at: SimpleNamespace) -> object:
            return at.retention.execute("shop", epoch, name, f"payload of {name}", now)

        return CallStep("execute", call, writes=writes)

    return (
        execute(1, "a", 10),
        execute(1, "b", 20),
        execute(2, "c", 30),
        execute(2, "c", 35, writes=False),
        CallStep("expire_result", lambda at: at.retention.expire_result("shop", 1, "b", 40)),
        execute(3, "d", 50),
        CallStep("close_and_collect", lambda at: at.retention.close_and_collect("shop", 1, 60)),
        execute(3, "e", 70),
        CallStep("close_and_collect", lambda at: at.retention.close_and_collect("shop", 2, 80)),
        CallStep("close_and_collect", lambda at: at.retention.close_and_collect("shop", 2, 85), writes=False),
        execute(4, "f", 90),
    )


_ITEM = {"key_kind": "explicit", "tenant": "acme", "namespace": "mail"}
_KEPT = {"retain_until": 1_000, "tombstone_until": 2_000}
SECRET = "SECRET-OF-THE-ERASED"


def _stage(at: SimpleNamespace, content: str, decision: str, now: int) -> object:
    at.intake.classify(**_ITEM, key="m-1", digest=sha256(content))
    return at.intake.stage(decision, "by hand", **_KEPT, now=now)


def _intake_steps() -> tuple[CallStep, ...]:
    def deliver(name: str, content: str, now: int, writes: bool = True, **other: object) -> CallStep:
        named = _ITEM | _KEPT | {"key": name, "digest": sha256(content), "changed_as": "revision"}
        named |= {"reference": f"reference of {name} " * 40} | other
        return CallStep("deliver", lambda at: at.intake.deliver(**named, now=now), writes=writes)

    secret = (SECRET.encode(),)
    return (
        deliver("m-1", "one", 10),
        deliver("m-1", "one", 15, writes=False),
        deliver("m-1", "two", 20),
        CallStep("stage", lambda at: _stage(at, "forged", "collision", 30)),
        CallStep("stage", lambda at: _stage(at, "two", "seen", 35)),
        deliver(f"m-2 {SECRET}", "three", 40, reference=SECRET),
        deliver("m-3", "four", 50, tenant="other", namespace="hooks"),
        deliver("m-3 too", "four", 52, tenant="other", namespace="hooks"),
        deliver("m-4", "five", 60, tenant="other"),
        deliver("m-4 too", "five", 62, tenant="other"),
        CallStep("erase_identity", lambda at: at.intake.erase_identity(**_ITEM, key=f"m-2 {SECRET}", now=70)),
        CallStep("scrub", lambda at: at.intake.scrub(), gone=secret),
        CallStep("erase_namespace", lambda at: at.intake.erase_namespace("other", "hooks", 80)),
        CallStep("erase_tenant", lambda at: at.intake.erase_tenant("other", 90)),
        deliver("m-5", "six", 100),
        CallStep("sweep", lambda at: at.intake.sweep(10, 1_500)),
        deliver("m-6", "seven", 1_600, retain_until=1_700, tombstone_until=3_000),
        CallStep("sweep", lambda at: at.intake.sweep(10, 2_500)),
        CallStep("erase_digest", lambda at: at.intake.erase_digest(sha256("another item"), 2_600)),
    )


_QUEUE = {"namespace": "mail", "processor": "index"}
_TRIES = {"max_attempts": 2}


def _work_steps() -> tuple[CallStep, ...]:
    def deliver(name: str, now: int) -> CallStep:
        named = {"tenant": "acme", "key": name, "digest": sha256(name), "processor_revision": "1"}
        return CallStep("deliver", lambda at: at.work.deliver(**_QUEUE, **named, **_KEPT, now=now))

    take = _QUEUE | _TRIES | {"worker": "a", "limit": 1, "hold_for": 100}
    failed = {"error": "odd", "detail": "d", "base": 10, "cap": 20} | _TRIES
    swept = _TRIES | {"worker": "s", "token": 1, "limit": 5}
    return (
        deliver("m-1", 10),
        deliver("m-2", 20),
        CallStep("acquire", lambda at: at.work.acquire(**_QUEUE, worker="a", now=30)),
        CallStep("reserve", lambda at: at.work.reserve(**take, token=1, now=40)),
        CallStep("renew", lambda at: at.work.renew(1, 1, 200, 50)),
        CallStep("complete", lambda at: at.work.complete(1, 1, "result 1", 60)),
        CallStep("next", lambda at: at.work.next(**take, now=70), parts=2),
        CallStep("fail", lambda at: at.work.fail(2, 1, **failed, now=80)),
        CallStep("next", lambda at: at.work.next(**take, now=200), parts=2),
        CallStep("fail", lambda at: at.work.fail(2, 2, **failed, now=210)),
        CallStep("requeue", lambda at: at.work.requeue(2, 220)),
        deliver("m-3", 230),
        CallStep("next", lambda at: at.work.next(**take | {"limit": 2}, now=240), parts=2),
        CallStep("acquire_sweep", lambda at: at.work.acquire_sweep("s", 1_200)),
        CallStep("sweep", lambda at: at.work.sweep(**swept, now=1_210)),
        CallStep("discard", lambda at: at.work.discard(2, 1_220)),
        CallStep("next", lambda at: at.work.next(**take, now=1_230), parts=2),
        CallStep("fail", lambda at: at.work.fail(3, 2, **failed, now=1_240)),
        CallStep("discard_dead", lambda at: at.work.discard_dead(0, 5, 1_250)),
        deliver("m-4", 90_000),
        CallStep("reset_ahead", lambda at: at.work.reset_ahead(1_000, 5, 1_260)),
    )


def _receiver_steps() -> tuple[CallStep, ...]:
    effect = {"subject": "shop/order-1", "revision": 2, "digest": sha256("one")}
    first = effect | {"owner": "shop", "generation": 1, "instance": "here", "key": "k-1"}
    later = first | {"generation": 2, "instance": "there", "key": "k-2"}
    return (
        CallStep("register", lambda at: at.receiver.register("shop", "here", 10)),
        CallStep("apply", lambda at: at.receiver.apply(**first, fence=3, now=20)),
        CallStep("apply", lambda at: at.receiver.apply(**first, fence=3, now=25), writes=False),
        CallStep(
            "apply", lambda at: at.receiver.apply(**first | {"key": "k-9"}, fence=2, now=30), refused="fence"
        ),
        CallStep("register", lambda at: at.receiver.register("shop", "there", 40)),
        CallStep("apply", lambda at: at.receiver.apply(**first, fence=3, now=50), refused="writer-fenced"),
        CallStep("issue", lambda at: at.receiver.issue("shop", 2, "there", "fence", 60)),
        CallStep("apply", lambda at: at.receiver.apply(**later, fence=4, now=70)),
    )


def _answer(at: SimpleNamespace, error: Exception | None = None) -> Callable:
    def receive(message: object) -> None:
        at.store.failpoint(OUTSIDE)
        if error:
            raise error

    return receive


class _Knowing:
    """A receiver that has seen fence 7 and revision 3 on everything."""

    def known(self, owner: str, subject: str) -> receiver.Known:
        return receiver.Known(7, 3)


def _relay_steps() -> tuple[CallStep, ...]:
    def send(now: int, error: Exception | None = None, **how: object) -> CallStep:
        parts = 2 if "keyed" in how else 1
        return CallStep("send", lambda at: at.relay.send(_answer(at, error), 1, now, base=0, **how), parts)

    def done(number: int, now: int) -> tuple[CallStep, ...]:
        name, key = f"order-{number}", f"k-{number}"
        result = ("shop", name, "a", key, 1, 1, "p-1", 1, sha256(name), now)
        return (
            CallStep("add", lambda at: at.owner.add("shop", name, 1, 1, "p-1", now)),
            CallStep("claim", lambda at: at.owner.claim("shop", name, "a", now, now + 50)),
            CallStep("accept", lambda at: at.owner.accept(*result)),
        )

    lost, far = Indefinite("lost", "the answer was lost"), NotWritten("far", "nothing arrived")
    return (
        CallStep("write_as", lambda at: at.relay.write_as(receiver.Writer("shop", 1, "here"))),
        *done(1, 10),
        send(20),
        *done(2, 30),
        send(40, lost, keyed=False),
        CallStep("close_entry", lambda at: at.relay.close_entry(2, "send-again", "asked", 50)),
        send(60, far, keyed=False),
        send(70, Refused("no", "no"), keyed=False),
        CallStep("close_entry", lambda at: at.relay.close_entry(2, "given-up", "asked", 80)),
        *done(3, 90),
        send(100, keyed=False),
        *done(4, 101),
        send(102, lost),
        send(103, far),
        send(104, lost, max_attempts=2),
        CallStep("close_entry", lambda at: at.relay.close_entry(4, "happened", "asked", 104)),
        CallStep(
            "claim",
            lambda at: at.owner.claim("shop", "order-1", "a", 105, 150),
            refused="state",
            writes=False,
        ),
        CallStep("jump", lambda at: at.relay.jump(_Knowing(), 110)),
    )


def _on(**kinds: type) -> Callable[[Store], SimpleNamespace]:
    return lambda store: SimpleNamespace(store=store, **{name: kind(store) for name, kind in kinds.items()})


def lives() -> tuple[Workload, ...]:
    """The workloads of all contracts."""
    made = (
        ("owner", owner.SCHEMA, _on(owner=owner.Owner), _owner_steps()),
        ("retention", retention.SCHEMA, _on(retention=retention.Retention), _retention_steps()),
        ("intake", intake.SCHEMA, _on(intake=intake.Intake), _intake_steps()),
        ("work", work.SCHEMA, _on(work=work.Work), _work_steps()),
        ("receiver", receiver.SCHEMA, _on(receiver=receiver.Receiver), _receiver_steps()),
        (
            "relay",
            relay.SCHEMA,
            _on(owner=owner.Owner, relay=relay.Relay),
            _relay_steps(),
        ),
    )
    return tuple(Workload(*each, RULES[each[0]]) for each in made)
