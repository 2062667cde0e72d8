"""Intake with real processes, a consumer's own rows, the bytes on disk, and a guessable key."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable

from receiptlab.contracts import outbox
from receiptlab.contracts.intake.content import content_digest, field_paths
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.intake.items import identity_of
from receiptlab.contracts.work.work import Work
from receiptlab.errors import InjectedFault
from receiptlab.experiment.experiment import Experiment
from receiptlab.experiment.run import Run
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.faults.processes.children import environment
from receiptlab.outcomes import Outcome, attempt
from receiptlab.store import Store
from receiptlab.values import sha256

NAME = {"key_kind": "explicit", "tenant": "acme", "namespace": "mail", "key": "message-1"}
HORIZONS = {"retain_until": 1_000, "tombstone_until": 2_000}
DELIVERY = NAME | {"digest": sha256("content A"), "changed_as": "revision", "reference": "row 1"} | HORIZONS
SECRET = "a-very-secret-key"


def identity_in_two_processes() -> Run:
    """Two processes compute the identity of one name (I-1)."""
    lab = Experiment(Intake, "two processes name one item", name="identity-in-two-processes", clauses="I-1")
    load = "from receiptlab.contracts.intake.items import identity_of"
    code = f"{load}; print(identity_of(**{NAME!r}), end='')"
    theirs = _python(code).stdout
    for actor, identity in (("this process", identity_of(**NAME)), ("another process", theirs)):
        expect = {"outcome": "read", "answer": {"identity": identity_of(**NAME)}}
        lab.note(actor, "identity", None, Outcome("read", answer={"identity": identity}), expect=expect)
    return lab.run


def crash_before_the_batch() -> Run:
    """A process classifies an item and dies before its batch: nothing is durable (C-1)."""
    lab = Experiment(
        Intake,
        "a process dies between classification and batch",
        name="crash-before-the-batch",
        clauses="C-1",
    )
    _die(lab, "after_guards", 100, [0, 0, 0])
    _again(lab, 110, "accepted", "first-seen", [1, 1, 1])
    return lab.run


def crash_before_the_source_is_acknowledged() -> Run:
    """The batch is committed, and the process dies before it acknowledges the source (C-2)."""
    lab = Experiment(
        Intake,
        "a process dies after its batch",
        name="crash-before-the-source-is-acknowledged",
        clauses="C-2",
    )
    _die(lab, "after_commit", 100, [1, 1, 1])
    _again(lab, 110, "accepted", "redelivered", [1, 1, 1])
    return lab.run


def crash_during_the_batch() -> Run:
    """A process dies at each failpoint inside its batch: all of it is durable, or none (C-3)."""
    lab = Experiment(Intake, "a process dies inside its batch", name="crash-during-the-batch", clauses="C-3")
    for number, point in enumerate(failpoints_of(Intake, "deliver")[1:-1]):
        _die(lab, point, 100 + number, [0, 0, 0])
    _again(lab, 110, "accepted", "first-seen", [1, 1, 1])
    return lab.run


def _die(lab: Experiment, point: str, now: int, counts: list[int]) -> None:
    lab.die("consumer", "deliver", DELIVERY | {"now": now}, point, counts)


def _again(lab: Experiment, now: int, outcome: str, found: str, counts: list[int]) -> None:
    expect = {"outcome": outcome, "answer": {"found": found, "revision": 1}, "counts": counts}
    lab.step("consumer", "deliver", now, lab.observer.deliver, **DELIVERY, now=now, expect=expect)


def one_batch_with_domain_rows() -> Run:
    """A batch writes a receipt, the consumer's own row and an outbox row. If it fails, it leaves none
    (I-4)."""
    lab = Experiment(
        Intake, "a consumer's batch fails, then succeeds", name="one-batch-with-domain-rows", clauses="I-4"
    )
    lab.store.db.execute("CREATE TABLE letter (identity TEXT NOT NULL, subject TEXT NOT NULL) STRICT")
    intake = Intake(lab.store)

    def batch(now: int, fail: bool) -> dict:
        seen = intake.classify(**NAME, digest=DELIVERY["digest"])
        with lab.store.write() as db:
            staged = intake.stage_first(db, seen, "letter 1", **HORIZONS, now=now)
            db.execute("INSERT INTO letter VALUES (?, 'hello')", (staged.identity,))
            outbox.stage(db, "letter", staged.identity, now)
            if fail:
                raise InjectedFault("the consumer's own code")
        return {"revision": staged.revision}

    failed = {"outcome": "unknown", "counts": [0, 0, 0]}
    lab.step("consumer", "batch", 100, batch, 100, True, expect=failed)
    lab.note(
        "consumer", "count letters", None, _letters(lab), expect={"outcome": "read", "answer": {"letters": 0}}
    )
    lab.step("consumer", "batch", 110, batch, 110, False, expect={"outcome": "accepted", "counts": [1, 1, 1]})
    lab.note(
        "consumer", "count letters", None, _letters(lab), expect={"outcome": "read", "answer": {"letters": 1}}
    )
    return lab.run


def _letters(lab: Experiment) -> Outcome:
    return Outcome("read", answer={"letters": lab.store.read("SELECT count(*) FROM letter")[0][0]})


def erased_bytes_on_disk() -> Run:
    """The bytes of the file and its WAL, before an erasure, after it, and after scrub (I-12)."""
    lab = Experiment(
        Intake, "an erased key is searched for in the bytes", name="erased-bytes-on-disk", clauses="I-12"
    )
    named = NAME | {"key": SECRET}
    lab.step("consumer", "deliver", 100, lab.observer.deliver, **DELIVERY | {"key": SECRET}, now=100)
    lab.note("auditor", "search for the key", None, _found(lab), expect=_in(True))
    lab.step("operator", "erase_identity", 200, lab.observer.erase_identity, **named, now=200)
    lab.note("auditor", "search for the key", None, _found(lab), expect=_in(True))
    with lab.store.again() as reader:
        reader.db.execute("PRAGMA busy_timeout = 0")
        reader.db.execute("BEGIN")
        reader.read("SELECT count(*) FROM receipt")
        lab.observer.store.db.execute("PRAGMA busy_timeout = 50")
        lab.step("operator", "scrub beside a reader", None, lab.observer.scrub, expect=_done(False))
        reader.db.execute("ROLLBACK")
    lab.step("operator", "scrub", None, lab.observer.scrub, expect=_done(True))
    lab.note("auditor", "search for the key", None, _found(lab), expect=_in(False))
    return lab.run


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run a few lines in another process."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=15, check=True, env=environment())


def _in(found: bool) -> dict:
    return {"outcome": "read", "answer": {"in file or WAL": found}}


def _done(done: bool) -> dict:
    return {"outcome": "accepted", "answer": {"done": done}}


def _found(lab: Experiment) -> Outcome:
    """Read the bytes in another process: reading them in this one would drop its locks."""
    code = (
        "import pathlib, sys; files = map(pathlib.Path, sys.argv[2:]); "
        "print(any(sys.argv[1].encode() in file.read_bytes() for file in files), end='')"
    )
    files = [f"{lab.path}{end}" for end in ("", "-wal")]
    return Outcome("read", answer={"in file or WAL": _python(code, SECRET, *files).stdout == "True"})


def traces(store: Store, words: Iterable[str]) -> list[str]:
    """Every "table.column" of the file in which some row has one of the words. The tables come from the
    schema, so a new table is searched too."""
    found = []
    for (table,) in store.read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"):
        columns = [name for (name,) in store.read("SELECT name FROM pragma_table_info(?)", (table,))]
        rows = store.read(f'SELECT * FROM "{table}"')
        for number, column in enumerate(columns):
            text = "\n".join(
                each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each)
                for each in (row[number] for row in rows)
            )
            found += [f"{table}.{column}"] * any(word in text for word in words)
    return found


def erasure_leaves_no_trace() -> Run:
    """Every column of every table is searched for a tenant's names and identities, before and after its
    erasure (I-15). Another tenant uses the same namespace and keeps its rows."""
    lab = Experiment(
        Work,
        "a tenant is erased, and every table is searched",
        name="erasure-leaves-no-trace",
        clauses="I-15",
    )
    by = {"processor": "index", "processor_revision": "1"} | HORIZONS
    keys = [("acme", "acme-mail", "k-1"), ("acme", "shared", "k-2"), ("umbrella", "shared", "k-3")]
    for now, (tenant, namespace, key) in enumerate(keys):
        named = {"tenant": tenant, "namespace": namespace, "key": key, "digest": DELIVERY["digest"]}
        lab.step("consumer", "deliver", now, lab.observer.deliver, **named, **by, now=now)
    claim = {"processor": "index", "worker": "worker-a", "limit": 1, "hold_for": 9_000, "max_attempts": 3}
    for now, namespace in ((100, "acme-mail"), (110, "shared")):
        taken = lab.step("worker-a", "next", now, lab.observer.next, namespace, **claim, now=now).answer
        complete = lab.observer.complete, taken["works"][0], taken["fences"][0], "page 1"
        lab.step("worker-a", "complete", now, *complete, now)
    held = lab.step("worker-b", "acquire", 120, lab.observer.acquire, "shared", "index", "worker-b", 120)
    names, identities = ("acme", "k-1", "k-2"), [identity_of("explicit", *key) for key in keys[:2]]
    receipt = ["receipt.tenant", "receipt.namespace", "receipt.key"]
    _search(lab, names, ["lease.namespace", *receipt, "work.namespace"])
    tables = ("effect.identity", "outbox.subject", "receipt.identity", "revision.identity", "work.identity")
    _search(lab, identities, list(tables))
    erase = lab.observer.intake.erase_tenant
    lab.step("operator", "erase_tenant", 200, erase, "acme", 200, expect={"outcome": "accepted"})
    _search(lab, names, [])
    _search(lab, identities, ["outbox.subject", "receipt.identity"])
    left = lab.store.read("SELECT topic FROM outbox WHERE subject IN (?, ?)", identities)
    expect = {"outcome": "read", "answer": {"topics": ["erased", "erased"]}}
    answer = {"topics": [topic for (topic,) in left]}
    lab.note("auditor", "list messages", None, Outcome("read", answer=answer), expect=expect)
    again = lab.step("worker-a", "acquire", 210, lab.observer.acquire, "shared", "index", "worker-a", 210)
    answer = {"higher": again.answer["token"] > held.answer["token"]}
    expect = {"outcome": "read", "answer": {"higher": True}}
    lab.note("auditor", "compare tokens", None, Outcome("read", answer=answer), expect=expect)
    return lab.run


def _search(lab: Experiment, words: Iterable[str], expected: list[str]) -> None:
    """Record where the words are found."""
    outcome = Outcome("read", answer={"found in": traces(lab.store, words)})
    expect = {"outcome": "read", "answer": {"found in": expected}}
    lab.note("auditor", "search every table", None, outcome, expect=expect)


def volatile_fields() -> Run:
    """A provider counts its attempts in the body. A digest over the bytes makes each retry a collision. A
    digest over chosen fields makes it a redelivery, and only a real change counts (I-18)."""
    lab = Experiment(
        Intake, "a webhook that counts its attempts is sent again", name="volatile-fields", clauses="I-18"
    )
    paths = field_paths(("attempt", "meta.sent_at"))
    for key, chosen, found in (
        ("bytes", (), ["first-seen", "changed", "changed", "changed"]),
        ("fields", paths, ["first-seen", "redelivered", "redelivered", "changed"]),
    ):
        for attempt_number, (amount, each) in enumerate(zip((5, 5, 5, 6), found, strict=True), 1):
            sent = {"sent_at": 100 * attempt_number}
            body = json.dumps({"amount": amount, "attempt": attempt_number, "meta": sent}).encode()
            digest, _ = content_digest(body, chosen)
            delivery = DELIVERY | {"key": key, "digest": digest, "changed_as": "collision"}
            expect = {"outcome": "accepted", "answer": {"found": each}}
            now = 100 * attempt_number
            lab.step("consumer", "deliver", now, lab.observer.deliver, **delivery, now=now, expect=expect)
    return lab.run


def guessable_key() -> Run:
    """Every customer number is tried until one gives the identity that an erasure left behind (I-13)."""
    lab = Experiment(
        Intake,
        "an erased customer number is found again",
        name="guessable-key",
        clauses="I-13",
        kind="breaks",
    )
    named = NAME | {"namespace": "customers", "key": "4711"}
    lab.step("operator", "erase_identity", 100, lab.observer.erase_identity, **named, now=100)
    [(left,)] = lab.store.read("SELECT identity FROM receipt")
    tried = next(n for n in range(10_000) if identity_of(**named | {"key": f"{n:04}"}) == left)
    expect = {"outcome": "read", "answer": {"key": "4711", "tried": 4_712}}
    answer = {"key": f"{tried:04}", "tried": tried + 1}
    lab.note(
        "somebody with the file",
        "try them all",
        None,
        Outcome("read", answer=answer),
        expect=expect,
        anomaly="disclosed",
    )
    return lab.run


def refusals_of_misuse() -> Run:
    """Staging outside a transaction, and with a handle from another store (I-4, I-6)."""
    lab = Experiment(Intake, "staging in the wrong place", name="refusals-of-misuse", clauses="I-4 I-6")
    mine, other = lab.observer, Experiment(Intake, "another store", name="other", clauses="I-6")
    seen = mine.classify(**NAME, digest=DELIVERY["digest"])
    outside = attempt(mine.stage_first, mine.store.db, seen, "", **HORIZONS, now=100)
    expect = {"outcome": "refused", "reason": "no-transaction", "counts": [0, 0, 0]}
    lab.note("consumer", "stage_first outside a transaction", 100, outside, expect=expect)
    for each in (mine, other.observer):
        each.deliver(**DELIVERY, now=100)
    handle = other.observer.classify(**NAME, digest=sha256("content B")).handle
    with mine.store.write() as db:
        foreign = attempt(mine.stage_collision, db, handle, "", 110)
    expect = {"outcome": "refused", "reason": "other-store", "counts": [1, 1, 1]}
    lab.note("consumer", "stage_collision with a foreign handle", 110, foreign, expect=expect)
    return lab.run


SCENARIOS = (
    identity_in_two_processes,
    one_batch_with_domain_rows,
    refusals_of_misuse,
    erased_bytes_on_disk,
    erasure_leaves_no_trace,
    volatile_fields,
    guessable_key,
    crash_before_the_batch,
    crash_before_the_source_is_acknowledged,
    crash_during_the_batch,
)
