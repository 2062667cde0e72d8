"""Whether the cost of a call grows with the file: every call of every contract, with 1,000 and 1,000,000
rows.

Both files are in one folder, and rounds are interleaved. They are written with synchronous=OFF, because a
sync costs the same in both and would hide the cost of the call. A file is filled by copying rows that real
calls made, so it always has the present tables.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from receiptlab.contracts.base import Contract
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.relay import Relay
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work
from receiptlab.outcomes import attempt
from receiptlab.store import Store
from receiptlab.values import sha256
from tools.bench_common import timed, verdict

SMALL, LARGE, GOAL, ROUNDS, WARM_UP = 1_000, 1_000_000, 1.5, 200, 20
COLUMNS = ("contract", "call", f"{SMALL:,} rows, p50 in µs", f"{LARGE:,} rows", "ratio", "goal")
DIGEST = sha256("result")
ROWS = "WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < ?)"

Calls = Iterator[tuple[str, Callable[[], object]]]


class Growth(NamedTuple):
    """A contract, how to fill its file, and the calls of one round in order."""

    contract: type[Contract]
    fill: Callable[[Contract, int], None]
    calls: Callable[[Contract, str], Calls]


def copy_rows(store: Store, table: str, count: int, **changed: str) -> None:
    """Copy the first row of `table` `count` times. `changed` has an SQL expression over `n`, the number of
    the copy, for each column that must differ."""
    columns = [name for _, name, *_ in store.read(f"PRAGMA table_info({table})")]
    told = ", ".join(changed.get(name, f"first.{name}") for name in columns)
    source = f"(SELECT * FROM {table} LIMIT 1) AS first"
    with store.write() as db:
        db.execute(f"INSERT INTO {table} {ROWS} SELECT {told} FROM {source}, row", (count,))


def _owner_fill(owner: Owner, count: int) -> None:
    for _, call in _owner_calls(owner, "a"):
        call()
    copy_rows(owner.store, "work", count, work="'b-' || n", state="'ready'", revision="1", results="0")
    copy_rows(owner.store, "receipt", count, id="NULL", key="'b-' || n", work="'b-' || n")
    copy_rows(owner.store, "outbox", count, id="NULL", subject="n")


def _owner_calls(owner: Owner, name: str) -> Calls:
    def accept() -> object:
        return owner.accept("shop", name, "worker", name, 1, 1, "policy", 2, DIGEST, 120)

    yield "add", lambda: owner.add("shop", name, 1, 1, "policy", 0)
    yield "claim", lambda: owner.claim("shop", name, "worker", 90, 200)
    yield "release", lambda: owner.release("shop", name, "worker", 1, 95)
    yield "", lambda: owner.claim("shop", name, "worker", 100, 200)
    yield "renew", lambda: owner.renew("shop", name, "worker", 2, 110, 210)
    yield "accept, first", accept
    yield "accept, replayed", accept
    yield "find", lambda: owner.find("shop", name, 1, "policy")
    yield "get", lambda: owner.get("shop", name)
    yield "set_authority", lambda: owner.set_authority("shop", name, 1, "policy", 130)
    other = f"{name}-cancelled"
    yield "", lambda: owner.add("shop", other, 1, 1, "policy", 0)
    yield "cancel", lambda: owner.cancel("shop", other, 140)


def _retention_fill(retention: Retention, count: int) -> None:
    for _, call in _retention_calls(retention, "a"):
        call()
    copy_rows(retention.store, "effect", count, id="NULL", operation="'b-' || n")
    copy_rows(retention.store, "receipt", count, operation="'b-' || n")


def _retention_calls(retention: Retention, name: str) -> Calls:
    def execute() -> object:
        return retention.execute("shop", 2, name, "pay 5", 100)

    yield "execute, first", execute
    yield "execute, replayed", execute
    yield "expire_result", lambda: retention.expire_result("shop", 2, name, 110)
    yield "effects", lambda: retention.effects("shop", 2, name)
    yield "", lambda: retention.execute(name, 1, "op", "pay 5", 100)
    yield "close_and_collect, a range of one", lambda: retention.close_and_collect(name, 1, 120)


def _intake_fill(intake: Intake, count: int) -> None:
    for _, call in _intake_calls(intake, "a"):
        call()
    _copy_receipts(intake.store, count)


def _copy_receipts(store: Store, count: int) -> None:
    copied = {"state": "'live'", "tenant": "'acme'", "namespace": "'inbox'", "key": "'b-' || n"}
    horizons = {"retain_until": "900000", "tombstone_until": "990000", "head": "1", "revisions": "1"}
    name = "printf('%064d', n)"
    copy_rows(store, "receipt", count, identity=name, unsettled="0", **copied, **horizons)
    copy_rows(store, "revision", count, identity=name, number="1")
    copy_rows(store, "outbox", count, id="NULL", subject=name)


def _intake_calls(intake: Intake, name: str) -> Calls:
    of = ("explicit", "acme", "inbox", name)

    def deliver(digest: str, *named: str) -> object:
        who = named or of
        return intake.deliver(*who, digest, "revision", "", 900_000, 990_000, 100)

    yield "deliver, first seen", lambda: deliver(DIGEST)
    yield "deliver, again", lambda: deliver(DIGEST)
    yield "deliver, changed", lambda: deliver(sha256("other"))
    yield "classify", lambda: intake.classify(*of, DIGEST)
    yield (
        "",
        lambda: intake.deliver("explicit", "acme", "inbox", f"{name} short", DIGEST, "revision", "", 0, 1, 0),
    )
    yield "sweep, one compacted", lambda: intake.sweep(1, 0)
    yield "sweep, one removed", lambda: intake.sweep(1, 1)
    yield "erase_identity", lambda: intake.erase_identity(*of, 200)
    yield "erasures, a page of ten", lambda: intake.erasures(0, 10)
    yield "", lambda: deliver(DIGEST, "explicit", f"tenant {name}", "inbox", name)
    yield "erase_tenant, of one", lambda: intake.erase_tenant(f"tenant {name}", 200)


def _work_fill(work: Work, count: int) -> None:
    for _, call in _work_calls(work, "a"):
        call()
    _copy_receipts(work.store, count)
    of = {"id": "NULL", "identity": "printf('%064d', n)", "revision": "1", "namespace": "'inbox'"}
    state = "CASE n % 3 WHEN 0 THEN 'pending' WHEN 1 THEN 'done' ELSE 'dead' END"
    due = "CASE n % 3 WHEN 0 THEN 100 + n % 100 END"
    copy_rows(work.store, "work", count, **of, state=state, due=due, holder="NULL")
    copy_rows(work.store, "effect", count, id="NULL", identity=of["identity"])
    copy_rows(work.store, "attempt", count, work="n + 1", number="9", result="'done'")


def _work_calls(work: Work, name: str) -> Calls:
    held: list = []

    def deliver(key: str) -> object:
        return work.deliver("acme", "desk", key, DIGEST, "index", "1", 900_000, 990_000, 100)

    def take() -> None:
        held[:] = work.next("desk", "index", "worker", 1, 1_000, 1, 100).claims

    def fail() -> object:
        return work.fail(held[0].work, held[0].fence, "oops", "", 1, 0, 0, 120)

    yield "deliver, first seen", lambda: deliver(name)
    yield "deliver, again", lambda: deliver(name)
    yield "next, one", take
    yield "renew", lambda: work.renew(held[0].work, held[0].fence, 1_000, 110)
    yield "complete", lambda: work.complete(held[0].work, held[0].fence, "", 120)
    yield "get", lambda: work.get(held[0].work)
    yield "history", lambda: work.history(held[0].work)
    yield "ahead", lambda: work.ahead(10_000, 120)
    yield "", lambda: deliver(f"{name} fails")
    yield "", take
    yield "fail", fail
    yield "dead, a page of ten", lambda: work.dead(0, 10)
    yield "requeue", lambda: work.requeue(held[0].work, 130)
    yield "reset_ahead, nothing", lambda: work.reset_ahead(10_000, 10, 130)
    yield "discard_dead, nothing", lambda: work.discard_dead(10_000, 10, 130)
    yield "", lambda: work.next("desk", "index", "worker", 1, 10, 1, 140)
    yield "", lambda: held.append(work.acquire_sweep("sweeper", 160))
    yield "sweep, one claim", lambda: work.sweep("sweeper", held[-1].token, 10, 5, 160)
    yield "", lambda: [work.complete(claim.work, claim.fence, "", 180) for claim in _again(work)]


def _again(work: Work) -> tuple:
    return work.next("desk", "index", "worker", 10, 1_000, 99, 170).claims


def _receiver_fill(receiver: Receiver, count: int) -> None:
    for _, call in _receiver_calls(receiver, "a"):
        call()
    copy_rows(receiver.store, "effect", count, id="NULL", key="'b-' || n", fence="1 + n % 7")


def _receiver_calls(receiver: Receiver, name: str) -> Calls:
    def apply(subject: str = "request", fence: int = 9) -> object:
        return receiver.apply("shop", 1, "one", name, subject, 1, fence, DIGEST, 100)

    yield "register", lambda: receiver.register("shop", "one", 0)
    yield "apply, first", apply
    yield "apply, replayed", apply
    yield "apply, refused", lambda: _refused(apply, "other")
    yield "look_up", lambda: receiver.look_up("shop", name)
    yield "known", lambda: receiver.known("shop", "request")


def _refused(call: Callable[..., object], *arguments: object) -> None:
    outcome = attempt(call, *arguments)
    assert outcome.word == "refused", outcome


def _relay_fill(relay: Relay, count: int) -> None:
    for _, call in _relay_calls(relay, "a"):
        call()
    store = relay.store
    copy_rows(store, "work", count, work="'b-' || n")
    copy_rows(store, "receipt", count, id="n + 1", key="'b-' || n", work="'b-' || n")
    copy_rows(store, "outbox", count, id="n + 1", subject="n + 1")  # a trigger adds the row of `relay`
    with store.write() as db:
        db.execute("UPDATE relay SET state = 'acknowledged', due = NULL")


def _relay_calls(relay: Relay, name: str) -> Calls:
    owner = Owner(relay.store)
    yield "", lambda: owner.add("shop", name, 1, 1, "policy", 0)
    yield "", lambda: owner.claim("shop", name, "worker", 100, 200)
    yield "", lambda: owner.accept("shop", name, "worker", name, 1, 1, "policy", 1, DIGEST, 120)
    yield "pending", lambda: relay.pending(10)
    yield "send, one", lambda: relay.send(lambda message: None, 10, 130)
    yield "send, nothing", lambda: relay.send(lambda message: None, 10, 140)
    yield "reconciliation", relay.reconciliation
    yield "delayed", relay.delayed


GROWTHS = (
    Growth(Owner, _owner_fill, _owner_calls),
    Growth(Retention, _retention_fill, _retention_calls),
    Growth(Intake, _intake_fill, _intake_calls),
    Growth(Work, _work_fill, _work_calls),
    Growth(Receiver, _receiver_fill, _receiver_calls),
    Growth(Relay, _relay_fill, _relay_calls),
)


def measure(
    folder: Path, growth: Growth, small: int = SMALL, large: int = LARGE, rounds: int = ROUNDS
) -> list[tuple[str, ...]]:
    """The rows of the report for one contract."""
    files = {}
    for size in (small, large):
        store = Store.create(folder / f"{growth.contract.NAME}-{size}.db", growth.contract.SCHEMA)
        store.db.execute("PRAGMA synchronous = OFF")
        files[size] = growth.contract(store)
        growth.fill(files[size], size)
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    times: dict[str, dict[int, list[int]]] = {}
    for number in range(WARM_UP + rounds):
        for size in (small, large) if number % 2 else (large, small):
            for what, call in growth.calls(files[size], f"new-{number:05}"):
                took = timed(call)
                if what and number >= WARM_UP:
                    times.setdefault(what, {small: [], large: []})[size].append(took)
    for contract in files.values():
        contract.store.close()
    return [_row(growth.contract.NAME, what, took[small], took[large]) for what, took in times.items()]


def _row(contract: str, what: str, small: list[int], large: list[int]) -> tuple[str, ...]:
    one, other = statistics.median(small) / 1_000, statistics.median(large) / 1_000
    return contract, what, f"{one:.1f}", f"{other:.1f}", f"{other / one:.2f}", verdict(other / one, GOAL)
