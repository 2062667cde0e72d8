"""Every interleaving of the statements of racing calls (H-6): the explorer, and what it finds."""

import json
import math
import sqlite3
import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple

import pytest

from receiptlab import show
from receiptlab.cli.commands import main
from receiptlab.contracts.receiver import Receiver, Writer
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work import lease
from receiptlab.contracts.work.claims import SweptChunk
from receiptlab.contracts.work.work import Work
from receiptlab.errors import Refused
from receiptlab.interleaving import explorer as schedules
from receiptlab.interleaving import stepper as stepping
from receiptlab.interleaving.explorer import Explorer
from receiptlab.interleaving.findings import NotRepeatable, TooManyInterleavings, WrongInterleaving
from receiptlab.interleaving.stepper import Caller, calling, short
from receiptlab.scenarios import interleaving_rows as every_interleaving
from receiptlab.scenarios import racing_mistakes as racing
from receiptlab.scenarios.interleaving_rows import EXPECTED, explored, rows, witness
from receiptlab.scenarios.interleavings import PAIRS, Race, among, execute
from receiptlab.scenarios.naive import Naive, accept_by_key_alone, write_result
from receiptlab.scenarios.racing_mistakes import PLANTED
from receiptlab.store import Store

ALL = {each.name: each for each in (*PAIRS, *PLANTED)}
TWO = ALL["accept twice, one key"]


def names(experiments):
    return [each.name for each in experiments]


def classes(found):
    return {verdict: number for verdict, number in found.classes.items() if number}


# What is found.


@pytest.mark.parametrize("name", names(PAIRS))
def test_every_interleaving_of_a_contract_is_serializable(name):
    found = explored(name)
    assert classes(found) == EXPECTED[name]
    assert found.clean


@pytest.mark.parametrize("name", names(PLANTED))
def test_a_planted_mistake_is_found(name):
    found = explored(name)
    assert classes(found) == EXPECTED[name]
    assert not found.clean
    assert not found.vacuous


class Careless(Work):
    """A sweep that goes by what it saw before its transaction."""

    def _sweep(self, overdue, db, command, current):
        for work, _ in overdue:
            db.execute(
                "UPDATE attempt SET result = 'expired', ended_at = ? WHERE work = ?", (command.now, work)
            )
            db.execute("UPDATE work SET state = 'failed', holder = NULL WHERE id = ?", (work,))
        lease.release(db, lease.SWEEP)
        return SweptChunk(len(overdue), 0, 0, 0, False)


def test_a_sweep_without_its_second_look_is_found():
    """A worker takes the item between the look and the transaction, and the sweep takes it away again. No
    count tells; the rows do, against the calls one after another."""
    calls = ALL["sweep and next"]
    held = replace(calls, callers=(calls.callers[0], *ALL["reserve twice, one lease"].callers[:1]))
    held = replace(held, prepare=ALL["reserve twice, one lease"].prepare)
    with held.explorer(judged=False) as whole:
        assert classes(whole.explore()).keys() == {"serializable"}
    with replace(held, contract=Careless).explorer(judged=False) as careless:
        found = careless.explore()
    assert found.classes["wrong"] > 0
    assert not found.vacuous


class TornLook(Work):
    """The row and its history in two reads."""

    def get(self, work):
        [row] = self.store.read("SELECT state, holder FROM work WHERE id = ?", (work,))
        history = self.store.read("SELECT result FROM attempt WHERE work = ? ORDER BY number", (work,))
        return Torn(*row, [result for (result,) in history])


class Torn(NamedTuple):
    state: str
    holder: str | None
    history: list


def test_an_answer_that_no_order_of_whole_calls_gives_is_found():
    """All rows are right; what the reader was told never was."""
    with replace(ALL["complete and look"], contract=TornLook).explorer() as explorer:
        assert explorer.explore().classes["wrong"] > 0


class AskedBefore(Receiver):
    """It looks for the instance before its transaction."""

    def register(self, owner, instance, now):
        asked = self.store.read("SELECT generation FROM writer WHERE instance = ?", (instance,))
        if asked:
            return Writer(owner, asked[0][0], instance, "replayed")
        with self.store.write() as db:
            (last,) = db.execute("SELECT coalesce(max(generation), 0) FROM writer").fetchone()
            db.execute("INSERT INTO writer VALUES (?, ?, ?, ?, NULL)", (owner, last + 1, instance, now))
        return Writer(owner, last + 1, instance)


def test_a_call_that_meets_a_constraint_is_not_safe():
    twice = ALL["register twice"]
    twice = replace(twice, callers=(twice.callers[0], twice.callers[0]), contract=AskedBefore)
    with twice.explorer() as explorer:
        found = explorer.explore()
    failed = [
        interleaving
        for interleaving in found.interleavings
        if any(word == "failed" for word, _ in interleaving.outcomes)
    ]
    assert failed
    assert {interleaving.verdict for interleaving in failed} == {"wrong"}


@pytest.mark.parametrize("call", ["next", "stage", "scrub"])
def test_calls_that_cannot_be_judged_are_refused_in_a_sentence(tmp_path, capsys, call):
    """What is two transactions, hangs on an earlier call, or packs the file."""
    contract, args = {
        "next": ("work", NEXT),
        "stage": ("intake", STAGE),
        "scrub": ("intake", {}),
    }[call]
    lines = [{"case": "at once", "contract": contract}]
    lines += [{"actor": who, "call": call, "args": args} for who in ("a", "b")]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["play", str(tmp_path / "mine.jsonl"), "--interleavings"]) == 2
    assert f"line 2: {call} " in capsys.readouterr().err


NEXT = {"namespace": "mail", "processor": "p", "worker": "w", "limit": 1, "hold_for": 1}
NEXT |= {"max_attempts": 1, "now": 0}
STAGE = {"decision": "first", "reference": "", "retain_until": 1, "tombstone_until": 2, "now": 0}


def test_every_experiment_has_its_numbers():
    assert set(EXPECTED) == set(ALL)
    assert {each.contract.NAME for each in PAIRS} == {"owner", "retention", "intake", "work", "receiver"}


@pytest.mark.parametrize("name", [each.name for each in PAIRS if each.whole])
def test_calls_of_one_transaction_end_as_they_do_one_after_another(name):
    """The judge that compares outcomes and all rows with those of whole calls says the same."""
    with ALL[name].explorer(judged=False) as explorer:
        assert classes(explorer.explore()) == EXPECTED[name]


@pytest.mark.parametrize(
    "name",
    ["check outside of the transaction", "a deferred transaction", "result and receipt in two transactions"],
)
def test_the_judge_that_compares_with_whole_calls_finds_mistakes_too(name):
    with ALL[name].explorer(judged=False) as explorer:
        assert classes(explorer.explore()) == EXPECTED[name]


@pytest.mark.parametrize("scenario", every_interleaving.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_scenarios_come_out_as_they_say(scenario):
    run = scenario()
    assert [step.wrong for step in run.steps if step.wrong] == []
    assert run.name == scenario.__name__.replace("_", "-")
    assert scenario().to_dict() == run.to_dict()


# All interleavings, and each once.


def reading(actor, statements):
    """A caller of that many statements, none of which waits."""

    def make(naive):
        for _ in range(statements):
            naive.store.read("SELECT results FROM work")

    return Caller(actor, "read", make)


@pytest.mark.parametrize("lengths", [(1, 1), (3, 4), (5, 5), (2, 2, 3), (0, 3), (1, 1, 1, 1)])
def test_there_are_as_many_orders_as_can_be_counted(lengths):
    """Where nobody waits it is every way to shuffle the statements: a multinomial number."""
    callers = [reading(f"reader {n}", length) for n, length in enumerate(lengths)]
    with Explorer(Naive, callers) as explorer:
        interleavings = [each.interleaving for each in explorer.explore().interleavings]
    wanted = math.factorial(sum(lengths)) // math.prod(map(math.factorial, lengths))
    assert len(interleavings) == len(set(interleavings)) == wanted
    letters = dict(zip("ABCD", lengths, strict=False))
    assert all(
        interleaving.count(letter) == length
        for interleaving in interleavings
        for letter, length in letters.items()
    )


@pytest.mark.parametrize("name", ["accept twice, one key", "execute and close", "claim twice"])
def test_two_transactions_have_as_many_orders_as_can_be_counted(name):
    """Whoever is first, with n statements: the other asks in one of n - 1 gaps, or not at all."""
    found = explored(name)
    apart = [each.interleaving for each in found.interleavings if not each.waits]
    assert len(apart) == 2
    assert len(found.interleavings) == sum(interleaving.count(interleaving[0]) for interleaving in apart)
    assert all(each.waits == 1 for each in found.interleavings if each.interleaving not in apart)


@pytest.mark.parametrize(
    "name", [each.name for each in (*PAIRS, *PLANTED) if EXPECTED[each.name].get("serializable", 0) < 20]
)
def test_asking_in_vain_changes_nothing(name):
    """With every retry told apart there are more interleavings, and the same endings."""
    if len(ALL[name].callers) > 2:
        pytest.skip("three callers have too many such interleavings")
    with ALL[name].explorer(every_retry=True) as explorer:
        full = explorer.explore()
    few = explored(name)
    assert len(full.interleavings) >= len(few.interleavings)
    ended = {
        each.interleaving for each in few.interleavings if each.verdict != "deadlock"
    }  # where one may ask once more
    assert ended <= {each.interleaving for each in full.interleavings}
    assert {ending[:3] for ending in full.endings()} == {ending[:3] for ending in few.endings()}


def test_three_that_ask_in_vain_do_not_wake_each_other_for_ever():
    def make(naive):
        with naive.store.write() as db:
            db.execute("SELECT * FROM work")

    callers = [Caller(name, "read", make) for name in "abc"]
    with Explorer(Naive, callers, every_retry=True) as explorer:
        full = explorer.explore()
    with Explorer(Naive, callers) as explorer:
        few = explorer.explore()
    assert full.clean
    assert {each.interleaving for each in full.interleavings} > {
        each.interleaving for each in few.interleavings
    }


@pytest.mark.parametrize("name", ["accept twice, two keys", "execute and close", "register and apply"])
def test_asking_in_vain_leaves_the_same_rows(name, monkeypatch):
    rows_of, left = stepping.Start.rows, set()

    def kept(stage):
        left.add(rows_of(stage))
        return rows_of(stage)

    monkeypatch.setattr(stepping.Start, "rows", kept)
    found = []
    for every in (False, True):
        left.clear()
        with ALL[name].explorer(judged=False, every_retry=every) as explorer:
            explorer.explore()
        found.append(left.copy())
    assert found[0] == found[1]
    assert len(found[0]) > 1


def test_the_same_orders_each_time():
    for name in ("next twice", "a deferred transaction"):
        assert ALL[name].explore() == explored(name)


# Each order begins anew.


def test_nothing_is_left_of_the_order_before(monkeypatch):
    """Before each order every row is as it was prepared, and nobody is inside a transaction."""
    seen = []
    begin = Explorer._begin

    def looking(explorer, players):
        begin(explorer, players)
        seen.append(explorer.start.rows() == explorer.start.kept)
        assert not any(player.db.in_transaction for player in explorer.players)

    monkeypatch.setattr(Explorer, "_begin", looking)
    for name in ("sweep and next", "a transaction left open", "a deferred transaction"):
        found = ALL[name].explore()
        assert len(seen) >= len(found.interleavings)
    assert all(seen)


@pytest.mark.parametrize(
    "name", ["next twice", "a deferred transaction", "execute and close", "a transaction left open"]
)
def test_an_order_alone_on_a_new_file_ends_in_the_same_way(name):
    """Each on a file made for it, with connections made for it: as it ended among the others."""
    for each in explored(name).interleavings[::7]:
        with ALL[name].explorer() as explorer:
            run = explorer.rerun(each.interleaving)
        assert run.last.counts == each.counts
        assert (run.last.anomaly or "serializable") == each.verdict


def test_a_file_that_is_not_put_back_is_noticed(monkeypatch):
    monkeypatch.setattr(stepping.Start, "put_back", lambda stage: None)
    with pytest.raises(NotRepeatable, match="it was"):
        TWO.explore()


def test_a_caller_that_depends_on_something_else_is_noticed():
    calls = []

    def make(naive):
        calls.append(1)
        for _ in range(1 + len(calls) % 3):
            naive.store.read("SELECT results FROM work")

    with (
        Explorer(Naive, [Caller("moody", "read", make), reading("reader", 3)]) as explorer,
        pytest.raises(NotRepeatable),
    ):
        explorer.explore()


def test_each_order_has_contracts_that_remember_nothing():
    def make(naive):
        naive.seen = getattr(naive, "seen", 0) + 1
        for _ in range(naive.seen):
            naive.store.read("SELECT results FROM work")

    with Explorer(Naive, [Caller("a", "read", make), reading("b", 1)]) as explorer:
        found = explorer.explore()
    assert [each.interleaving for each in found.interleavings] == ["AB", "BA"]
    assert (found.name, found.callers) == ("read and read", ("a: read", "b: read"))


def test_the_rows_are_put_back_to_the_last_one():
    def prepare(retention):
        for number in range(3):
            retention.execute("shop", number, "op", "x", 1)
        retention.close_and_collect("shop", 0, 2)

    with Explorer(Retention, [execute("one"), execute("two")], prepare) as explorer:
        before = explorer.start.rows()
        explorer.explore()
        explorer.start.put_back()
        assert explorer.start.rows() == before
        assert [len(table) for table in before] == [3, 2, 1]


def test_a_trigger_that_changes_what_is_put_back_is_noticed():
    class Watched(Naive):
        SCHEMA = (
            *Naive.SCHEMA,
            "CREATE TRIGGER more AFTER INSERT ON outbox BEGIN INSERT INTO receipt VALUES (NULL, 'k', 'x'); END",
        )

    with pytest.raises(ValueError, match="cannot be put back"):
        Explorer(
            Watched, [reading("a", 1), reading("b", 1)], lambda naive: accept_by_key_alone(naive, "k", "d")
        )


def test_a_caller_that_changes_the_schema_is_noticed():
    def make(naive):
        with naive.store.write() as db:
            db.execute("CREATE TABLE another (x)")

    with (
        Explorer(Naive, [Caller("builder", "build", make), reading("reader", 1)]) as explorer,
        pytest.raises(ValueError, match="changed the schema"),
    ):
        explorer.explore()


# Locks.


def test_a_lock_is_waited_for_and_is_no_error():
    found = explored("accept twice, one key")
    assert sum(each.waits for each in found.interleavings) == 12
    assert not any(word == "failed" for each in found.interleavings for word, _ in each.outcomes)


def test_a_lock_error_is_told_where_sqlite_does_not_wait():
    """Who has read in its transaction does not wait: SQLITE_BUSY at once, or SNAPSHOT where it is too late."""
    reasons = {
        why
        for each in explored("a deferred transaction").interleavings
        for word, why in each.outcomes
        if word == "failed"
    }
    assert reasons == {"SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT"}


def test_who_has_not_read_in_its_transaction_waits():
    def make(naive):
        db = naive.store.db
        db.execute("BEGIN")
        write_result(db, "x")
        db.execute("COMMIT")

    with Explorer(
        Naive, [Caller("a", "write", make), Caller("b", "write", make)], judge=among(0, (2, 2, 0, 0))
    ) as explorer:
        found = explorer.explore()
    assert found.clean
    assert any(each.waits for each in found.interleavings)


def test_a_deadlock_ends_and_is_told():
    found = explored("a transaction left open")
    assert found.witnesses["deadlock"].interleaving == "AAB"
    assert found.witnesses["deadlock"].outcomes == (("replayed", ""), ("waiting", ""))


def test_calls_that_never_meet_are_vacuous():
    for callers in ([reading("a", 2), reading("b", 2)], [calling("a", "saved", key=1), reading("b", 0)]):
        with Explorer(Naive, callers, judge=lambda counts, outcomes: "serializable") as explorer:
            found = explorer.explore()
        assert found.vacuous
        assert not found.clean


def test_a_vacuous_experiment_is_not_as_expected(monkeypatch):
    nothing = Race(
        "nothing", Naive, (reading("a", 1), reading("b", 1)), None, lambda counts, outcomes: "serializable"
    )
    monkeypatch.setattr(every_interleaving, "explored", lambda name: nothing.explore())
    monkeypatch.setitem(every_interleaving.EXPECTED, "nothing", {"serializable": 2})
    run = every_interleaving._record("nothing", "nothing", "holds", [nothing])
    assert run.last.wrong == ("answer vacuous: expected False, got True",)


# The bounds, and what cannot be run.


def test_more_orders_than_the_limit_are_told():
    with TWO.explorer() as explorer:
        with pytest.raises(TooManyInterleavings, match="more than 13 interleavings"):
            explorer.explore(limit=13)
        assert len(explorer.explore(limit=14).interleavings) == 14


def test_an_order_that_never_ends_is_told(monkeypatch):
    monkeypatch.setattr(schedules, "MAX_STEPS", 20)
    with (
        Explorer(Naive, [reading("a", 1_000), reading("b", 1)]) as explorer,
        pytest.raises(TooManyInterleavings, match="more than 20 steps"),
    ):
        explorer.explore()


@pytest.mark.parametrize(
    ("interleaving", "message"),
    [
        ("AAX", "unknown letter 'X'"),
        ("aab", "unknown letter 'a'"),
        ("", "too short: A or B"),
        ("AAA", "AAA is too short: A or B"),
        ("ABB", "ABB does not fit: at step 3 only A can continue"),
        ("AAAAAAABBBBB", "too long: every call has ended after AAAAAAABBBB"),
    ],
)
def test_an_order_that_does_not_fit_is_told(interleaving, message):
    with TWO.explorer() as explorer:
        with pytest.raises(WrongInterleaving, match=message):
            explorer.rerun(interleaving)
        if len(interleaving) < 5:
            assert explorer.start.rows() == explorer.start.kept  # a call that is given up does not go on
        assert explorer.rerun("AAAAAAABBBB").last.counts == (1, 1, 1)


def test_an_error_that_the_lab_does_not_know_comes_out_and_leaves_nothing_open():
    def make(naive):
        with naive.store.write():
            raise ZeroDivisionError

    with Explorer(Naive, [Caller("a", "fall", make), reading("b", 2)]) as explorer:
        with pytest.raises(ZeroDivisionError):
            explorer.explore()
        assert not any(player.db.in_transaction for player in explorer.players)


def test_a_statement_that_goes_around_the_gate_is_an_error():
    with (
        Explorer(
            Naive,
            [Caller("a", "sneak", lambda naive: naive.store.db.executescript("SELECT 1")), reading("b", 1)],
        ) as explorer,
        pytest.raises(AttributeError),
    ):
        explorer.explore()


@pytest.mark.parametrize("number", [0, 1, 5])
def test_two_to_four_callers(number):
    with pytest.raises(ValueError, match="callers must be 2 to 4"):
        Explorer(Naive, [reading("a", 1)] * number)


def test_every_connection_is_closed_in_the_end():
    with TWO.explorer() as explorer:
        connections = [explorer.start.observer.store.db, *(player.db for player in explorer.players)]
    for db in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            db.execute("SELECT 1")


def test_a_refusal_is_an_outcome_as_any_other():
    def make(naive):
        with naive.store.write():
            raise Refused("no", "not today")

    with Explorer(Naive, [Caller("a", "ask", make), Caller("b", "ask", make)]) as explorer:
        assert {each.outcomes for each in explorer.explore().interleavings} == {
            (("refused", "no"), ("refused", "no"))
        }


# One order, step by step.


def test_a_witness_shows_its_statements():
    run = witness("check outside of the transaction")
    assert [(step.actor, step.call) for step in run.steps[4:8]] == [
        ("client", "INSERT outbox"), ("its retry", "SELECT receipt"), ("client", "COMMIT"), ("its retry", "BEGIN IMMEDIATE"),
    ]  # fmt: skip
    assert [step.outcome for step in run.steps[4:8]] == ["accepted", "read", "accepted", "accepted"]
    assert [step.counts for step in run.steps[5:7]] == [(0, 0, 0), (1, 1, 1)]
    assert (run.kind, run.last.anomaly, run.last.counts) == ("breaks", "duplicated", (2, 2, 2))
    assert run.steps[6].reason == "accept ends: accepted"


def test_a_wait_is_a_step():
    with TWO.explorer() as explorer:
        run = explorer.rerun("ABAAAAAABBBB")
    assert (run.steps[1].call, run.steps[1].outcome, run.steps[1].reason) == (
        "waits",
        "failed",
        "BEGIN IMMEDIATE: locked",
    )
    assert run.kind == "holds"
    assert run.last.reason == "accept ends: replayed"


@pytest.mark.parametrize("name", names(PLANTED))
def test_a_witness_can_be_drawn_and_is_the_same_each_time(name):
    run = witness(name)
    assert run.to_dict() == witness(name).to_dict()
    picture = show.timeline(run)
    assert picture.svg == show.timeline(run).svg
    assert "SELECT" in picture.svg
    assert run.last.anomaly in picture.svg


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("BEGIN IMMEDIATE", "BEGIN IMMEDIATE"),
        ("COMMIT", "COMMIT"),
        ("SELECT (SELECT a FROM one) FROM two", "SELECT one"),
        ("INSERT INTO outbox (a) VALUES (?)", "INSERT outbox"),
        ("UPDATE work SET x = 1", "UPDATE work"),
        ("DELETE FROM receipt", "DELETE receipt"),
    ],
)  # fmt: skip
def test_a_statement_in_short(sql, told):
    assert short(sql) == told


def test_the_bars_tell_every_verdict_in_words():
    table = rows(PLANTED)
    picture = show.interleavings(table)
    assert picture.svg == show.interleavings(table).svg
    for words in (
        "48 duplicated",
        "296 busy",
        "4 wrong",
        "4 deadlock",
        "310 interleavings",
        "14 serializable",
        "check outside of the transaction",
    ):
        assert words in picture.svg


def test_importing_the_scenarios_does_not_load_greenlet():
    code = "import sys, receiptlab.cli.commands, receiptlab.scenarios.interleaving_rows; print('greenlet' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def test_a_missing_greenlet_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "greenlet", None)
    monkeypatch.setattr(schedules, "Sandbox", None)  # it is noticed before a file is made
    with pytest.raises(ModuleNotFoundError, match="greenlet"):
        TWO.explorer()


def test_sqlite_gives_the_lock_error_at_once_to_who_has_read(tmp_path):
    """What the explorer builds on: BUSY before the other commits, SNAPSHOT after it."""
    with Store.create(tmp_path / "f.db", Naive.SCHEMA, 0) as one, one.again() as two:
        for name, commits in (("SQLITE_BUSY", False), ("SQLITE_BUSY_SNAPSHOT", True)):
            two.db.execute("BEGIN")
            two.db.execute("SELECT * FROM work").fetchall()
            one.db.execute("BEGIN " + "IMMEDIATE")
            write_result(one.db, "x")
            if commits:
                one.db.execute("COMMIT")
            with pytest.raises(sqlite3.OperationalError) as caught:
                write_result(two.db, "y")
            assert caught.value.sqlite_errorname == name
            two.db.execute("ROLLBACK")
            if not commits:
                one.db.execute("ROLLBACK")


# The command.

CASE = """{"format": 1, "case": "two at once", "contract": "retention"}
{"actor": "a", "call": "execute", "args": {"namespace": "shop", "epoch": 1, "operation": "op", "payload": "x", "now": 1}}
{"actor": "b", "call": "execute", "args": {"namespace": "shop", "epoch": 1, "operation": "op", "payload": "x", "now": 2}}
{"actor": "c", "call": "close_and_collect", "args": {"namespace": "shop", "through": 1, "now": 3}}
"""


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(CASE, encoding="utf-8")
    return str(path)


def test_play_orders_prints_the_endings(case, capsys):
    assert main(["play", case, "--interleavings"]) == 0
    out, err = capsys.readouterr()
    assert "A, b: execute" in out
    assert "refused (closed)" in out
    assert "replayed" in out
    assert "interleavings; " in err
    assert main(["play", case, "--interleavings", "3"]) == 0
    assert "970 interleavings; 970 are serializable" in capsys.readouterr().err


def test_play_order_shows_the_steps(case, tmp_path, capsys):
    out = tmp_path / "out.svg"
    assert (
        main(
            [
                "play",
                case,
                "--interleavings",
                "3",
                "--interleaving",
                "AAAAAABBBBCCCCC",
                "--timeline",
                str(out),
            ]
        )
        == 0
    )
    assert "INSERT effect" in capsys.readouterr().out
    assert "BEGIN IMMEDIATE" in out.read_text(encoding="utf-8")
    assert main(["play", case, "--interleaving", "AAAABBBBB", "--json"]) == 0
    assert '"call": "COMMIT"' in capsys.readouterr().out


def test_play_orders_as_json(case, capsys):
    assert main(["play", case, "--interleavings", "--json"]) == 0
    assert '"clean": true' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--interleavings", "4"], "has 3 calls, --interleavings wants the last 4"),
        (["--interleavings", "1"], "--interleavings takes 2 to 4 calls, not 1"),
        (["--interleavings", "-1"], "--interleavings takes 2 to 4 calls, not -1"),
        (["--interleavings", "0"], "--interleavings takes 2 to 4 calls, not 0"),
        (["--interleavings", "9"], "--interleavings takes 2 to 4 calls, not 9"),
        (["--interleaving", "AX"], "unknown letter 'X'"),
        (["--interleaving", "\x1b"], "unknown letter '\\x1b'"),
        (["--interleaving", ""], "too short"),
        (["--interleaving", "ABBB"], "does not fit"),
        (["--interleavings", "--timeline", "out.svg"], "choose it with --interleaving"),
    ],
)
def test_bad_input_gets_a_sentence_and_status_2(case, capsys, arguments, message):
    assert main(["play", case, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"actor": "c"', '"actor": "b"', "must be of different actors"),
        ('"through": 1, "now": 3}}', '"through": 1, "now": 3}, "fault": "before_commit"}', "has a fault"),
        (
            '"call": "close_and_collect", "args": {"namespace": "shop", "through": 1, "now": 3}',
            '"call": "reopen"',
            "is reopen",
        ),
    ],
)
def test_calls_that_cannot_be_made_at_once_are_told(case, tmp_path, capsys, before, after, message):
    assert before in CASE
    (tmp_path / "mine.jsonl").write_text(CASE.replace(before, after), encoding="utf-8")
    assert main(["play", case, "--interleavings"]) == 2
    assert message in capsys.readouterr().err


def test_two_files_are_told(case, capsys):
    assert main(["play", case, case, "--interleavings"]) == 2
    assert "give one FILE" in capsys.readouterr().err


def test_too_many_orders_are_told(case, capsys, monkeypatch):
    monkeypatch.setattr(schedules.Explorer.explore, "__defaults__", (8,))
    assert main(["play", case, "--interleavings"]) == 2
    assert "more than 8 interleavings" in capsys.readouterr().err


def test_an_expectation_before_that_does_not_hold_is_told(case, tmp_path, capsys):
    wrong = CASE.replace('"now": 1}}', '"now": 1}, "expect": {"outcome": "refused"}}')
    (tmp_path / "mine.jsonl").write_text(wrong, encoding="utf-8")
    assert main(["play", case, "--interleavings"]) == 1
    assert "expected refused, got accepted" in capsys.readouterr().err


def test_a_finding_prints_the_command_that_runs_it_again(case, capsys, monkeypatch):
    found = explored("check outside of the transaction")
    monkeypatch.setattr(Explorer, "explore", lambda explorer: replace(found, name="mine"))
    assert main(["play", case, "--interleavings"]) == 1
    out, err = capsys.readouterr()
    assert "duplicated" in out
    assert (
        f"duplicated: run it again with  receiptlab play {case} --interleavings 2 --interleaving AAAAABABBBBB"
        in err
    )


def test_the_large_one_is_refused_under_a_small_limit():
    with racing.LARGE.explorer() as explorer, pytest.raises(TooManyInterleavings):
        explorer.explore(limit=100)
