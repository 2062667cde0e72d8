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
from receiptlab.scenarios.interleaving_rows import EXPECTED, explored, rows, witness
from receiptlab.scenarios.interleavings import PAIRS, Race, among, execute
from receiptlab.scenarios.naive import Naive, accept_by_key_alone, write_result
from receiptlab.scenarios.racing_mistakes import PLANTED

ALL = {each.name: each for each in (*PAIRS, *PLANTED)}
TWO = ALL["accept twice, one key"]


def names(races):
    return [each.name for each in races]


def classes(found):
    return {verdict: number for verdict, number in found.classes.items() if number}


def explore(contract, callers, prepare=None, **how):
    with Explorer(contract, callers, prepare, **how) as explorer:
        return explorer.explore()


def explore_race(race, **how):
    with race.explorer(**how) as explorer:
        return explorer.explore()


def reading(actor, statements):
    """A caller of that many statements, none of which waits."""

    def make(naive):
        for _ in range(statements):
            naive.store.read("SELECT results FROM work")

    return Caller(actor, "read", make)


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
    assert not found.clean and not found.vacuous


def test_every_race_has_its_numbers():
    assert set(EXPECTED) == set(ALL)
    assert {each.contract.NAME for each in PAIRS} == {"owner", "retention", "intake", "work", "receiver"}


BY_SERIAL_ORDERS = [each.name for each in PAIRS if each.whole and each.judge and len(each.callers) == 2]
BY_SERIAL_ORDERS += ["execute twice and close", *names(PLANTED)[:3]]


@pytest.mark.parametrize("name", BY_SERIAL_ORDERS)
def test_a_comparison_with_the_serial_orders_finds_the_same_as_the_judge(name):
    assert classes(explore_race(ALL[name], judged=False)) == EXPECTED[name]


class Careless(Work):
    """A sweep that relies on what it read before its transaction."""

    def _sweep(self, overdue, db, command, current):
        for work, _ in overdue:
            db.execute(
                "UPDATE attempt SET result = 'expired', ended_at = ? WHERE work = ?", (command.now, work)
            )
            db.execute("UPDATE work SET state = 'failed', holder = NULL WHERE id = ?", (work,))
        lease.release(db, lease.SWEEP)
        return SweptChunk(len(overdue), 0, 0, 0, False)


def test_a_sweep_that_does_not_check_again_is_found():
    """A worker claims the item between the sweep's read and its transaction, and the sweep takes it away. No
    count shows this. The rows do, compared with the serial orders."""
    reserve = ALL["reserve twice, one lease"]
    race = ALL["sweep and next"]
    race = replace(race, callers=(race.callers[0], reserve.callers[0]), prepare=reserve.prepare)
    assert classes(explore_race(race, judged=False)).keys() == {"serializable"}
    found = explore_race(replace(race, contract=Careless), judged=False)
    assert found.classes["wrong"] > 0 and not found.vacuous


class TornRead(Work):
    """The row and its history in two reads."""

    def get(self, work):
        [row] = self.store.read("SELECT state, holder FROM work WHERE id = ?", (work,))
        history = self.store.read("SELECT result FROM attempt WHERE work = ? ORDER BY number", (work,))
        return Torn(*row, [result for (result,) in history])


class Torn(NamedTuple):
    state: str
    holder: str | None
    history: list


def test_an_answer_that_no_serial_order_gives_is_found():
    """All rows are right, but the state and the history that the reader got never existed together."""
    assert explore_race(replace(ALL["complete and look"], contract=TornRead)).classes["wrong"] > 0


class AskedBefore(Receiver):
    """It reads whether the instance is registered before its transaction."""

    def register(self, owner, instance, now):
        asked = self.store.read("SELECT generation FROM writer WHERE instance = ?", (instance,))
        if asked:
            return Writer(owner, asked[0][0], instance, "replayed")
        with self.store.write() as db:
            (last,) = db.execute("SELECT coalesce(max(generation), 0) FROM writer").fetchone()
            db.execute("INSERT INTO writer VALUES (?, ?, ?, ?, NULL)", (owner, last + 1, instance, now))
        return Writer(owner, last + 1, instance)


def test_a_call_that_fails_at_a_constraint_is_wrong():
    race = ALL["register twice"]
    race = replace(race, callers=(race.callers[0], race.callers[0]), contract=AskedBefore)
    interleavings = explore_race(race).interleavings
    failed = [each.verdict for each in interleavings if "failed" in dict(each.outcomes)]
    assert failed and set(failed) == {"wrong"}


# All interleavings, and each once.


@pytest.mark.parametrize("lengths", [(1, 1), (3, 4), (2, 2, 3), (0, 3), (1, 1, 1, 1)])
def test_there_are_as_many_interleavings_as_can_be_counted(lengths):
    """Where nobody waits it is every way to shuffle the statements: a multinomial number."""
    callers = [reading(f"reader {n}", length) for n, length in enumerate(lengths)]
    found = [each.interleaving for each in explore(Naive, callers).interleavings]
    assert len(found) == math.factorial(sum(lengths)) // math.prod(map(math.factorial, lengths))
    assert len(set(found)) == len(found)
    assert {"".join(sorted(each)) for each in found} == {
        "".join(letter * length for letter, length in zip("ABCD", lengths, strict=False))
    }


@pytest.mark.parametrize("name", ["accept twice, one key", "execute and close", "claim twice"])
def test_two_transactions_have_as_many_interleavings_as_can_be_counted(name):
    """The first one has n statements. The other one asks in one of n - 1 gaps, or not at all."""
    found = explored(name)
    apart = [each.interleaving for each in found.interleavings if not each.waits]
    assert len(apart) == 2
    assert len(found.interleavings) == sum(interleaving.count(interleaving[0]) for interleaving in apart)
    assert all(each.waits == 1 for each in found.interleavings if each.interleaving not in apart)


SMALL = [each.name for each in (*PAIRS, *PLANTED) if sum(EXPECTED[each.name].values()) < 60]


@pytest.mark.parametrize("name", SMALL)
def test_distinguishing_every_retry_changes_no_ending(name):
    """There are more interleavings then, with the same endings."""
    full, few = explore_race(ALL[name], every_retry=True), explored(name)
    # In a deadlock one caller may ask once more.
    ended = {each.interleaving for each in few.interleavings if each.verdict != "deadlock"}
    assert ended <= {each.interleaving for each in full.interleavings}
    assert {ending[:3] for ending in full.endings()} == {ending[:3] for ending in few.endings()}


def test_three_that_retry_do_not_wake_each_other_for_ever():
    def make(naive):
        with naive.store.write() as db:
            db.execute("SELECT * FROM work")

    callers = [Caller(name, "read", make) for name in "abc"]
    full, few = (explore(Naive, callers, every_retry=every) for every in (True, False))
    assert full.clean
    found, fewer = ({each.interleaving for each in one.interleavings} for one in (full, few))
    assert found > fewer


@pytest.mark.parametrize("name", ["accept twice, two keys", "execute and close", "register and apply"])
def test_distinguishing_every_retry_leaves_the_same_rows(name, monkeypatch):
    rows_of, left = stepping.Start.rows, (set(), set())
    for every in (False, True):

        def kept(start, every=every):
            left[every].add(rows_of(start))
            return rows_of(start)

        monkeypatch.setattr(stepping.Start, "rows", kept)
        explore_race(ALL[name], judged=False, every_retry=every)
    assert left[False] == left[True] and len(left[True]) > 1


@pytest.mark.parametrize("name", ["next twice", "a deferred transaction", "a transaction left open"])
def test_each_interleaving_begins_with_the_same_rows_and_no_transaction(name, monkeypatch):
    begin, same = Explorer._begin, []

    def checking(explorer, players):
        begin(explorer, players)
        same.append(explorer.start.rows() == explorer.start.kept)
        assert not any(player.db.in_transaction for player in explorer.players)

    monkeypatch.setattr(Explorer, "_begin", checking)
    assert ALL[name].explore() == explored(name)
    assert all(same) and len(same) >= len(explored(name).interleavings)


@pytest.mark.parametrize(
    "name", ["next twice", "a deferred transaction", "execute and close", "a transaction left open"]
)
def test_an_interleaving_ends_in_the_same_way_on_a_new_file_with_new_connections(name):
    for each in explored(name).interleavings[::11]:
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

    with pytest.raises(NotRepeatable):
        explore(Naive, [Caller("moody", "read", make), reading("reader", 3)])


def test_each_interleaving_has_new_contract_objects():
    def make(naive):
        naive.made = getattr(naive, "made", 0) + 1
        for _ in range(naive.made):
            naive.store.read("SELECT results FROM work")

    found = explore(Naive, [Caller("a", "read", make), reading("b", 1)])
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
        TRIGGER = "CREATE TRIGGER more AFTER INSERT ON outbox BEGIN INSERT INTO receipt VALUES (NULL, 'k', 'x'); END"
        SCHEMA = (*Naive.SCHEMA, TRIGGER)

    with pytest.raises(ValueError, match="cannot be put back"):
        explore(Watched, [reading("a", 1)] * 2, lambda naive: accept_by_key_alone(naive, "k", "d"))


def test_a_caller_that_changes_the_schema_is_noticed():
    def make(naive):
        with naive.store.write() as db:
            db.execute("CREATE TABLE another (x)")

    with pytest.raises(ValueError, match="changed the schema"):
        explore(Naive, [Caller("builder", "build", make), reading("reader", 1)])


# Locks.


def test_a_caller_waits_for_a_lock_and_gets_no_error():
    found = explored("accept twice, one key")
    assert sum(each.waits for each in found.interleavings) == 12
    assert not any("failed" in dict(each.outcomes) for each in found.interleavings)


def test_sqlite_does_not_wait_in_a_transaction_that_has_read():
    """SQLITE_BUSY at once, or SQLITE_BUSY_SNAPSHOT where it is too late."""
    outcomes = [each.outcomes for each in explored("a deferred transaction").interleavings]
    reasons = {reason for each in outcomes for word, reason in each if word == "failed"}
    assert reasons == {"SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT"}


def test_a_caller_that_has_not_read_in_its_transaction_waits():
    def make(naive):
        naive.store.db.execute("BEGIN")
        write_result(naive.store.db, "x")
        naive.store.db.execute("COMMIT")

    found = explore(Naive, [Caller(who, "write", make) for who in "ab"], judge=among(0, (2, 2, 0, 0)))
    assert found.clean
    assert any(each.waits for each in found.interleavings)


def test_a_deadlock_ends_and_is_reported():
    found = explored("a transaction left open")
    assert found.witnesses["deadlock"].interleaving == "AAB"
    assert found.witnesses["deadlock"].outcomes == (("replayed", ""), ("waiting", ""))


def test_calls_that_never_meet_are_vacuous_which_is_not_as_expected(monkeypatch):
    for callers in ([reading("a", 1), reading("b", 1)], [calling("a", "saved", key=1), reading("b", 0)]):
        found = explore(Naive, callers, judge=lambda counts, outcomes: "serializable")
        assert found.vacuous and not found.clean
    race = Race(
        "nothing", Naive, (reading("a", 1), reading("b", 1)), None, lambda counts, outcomes: "serializable"
    )
    monkeypatch.setattr(every_interleaving, "explored", lambda name: race.explore())
    monkeypatch.setitem(every_interleaving.EXPECTED, "nothing", {"serializable": 2})
    run = every_interleaving._record("nothing", "nothing", "holds", [race])
    assert run.last.wrong == ("answer vacuous: expected False, got True",)


# The bounds, and what cannot be run.


def test_more_interleavings_than_the_limit_are_refused():
    with TWO.explorer() as explorer:
        with pytest.raises(TooManyInterleavings, match="more than 13 interleavings"):
            explorer.explore(limit=13)
        assert len(explorer.explore(limit=14).interleavings) == 14


def test_an_interleaving_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(schedules, "MAX_STEPS", 20)
    with pytest.raises(TooManyInterleavings, match="more than 20 steps"):
        explore(Naive, [reading("a", 1_000), reading("b", 1)])


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
def test_an_interleaving_that_does_not_fit_is_refused(interleaving, message):
    with TWO.explorer() as explorer:
        with pytest.raises(WrongInterleaving, match=message):
            explorer.rerun(interleaving)
        if len(interleaving) < 5:
            assert explorer.start.rows() == explorer.start.kept  # an abandoned call does not continue
        assert explorer.rerun("AAAAAAABBBB").last.counts == (1, 1, 1)


def test_an_unknown_exception_propagates_and_leaves_no_transaction_open():
    def make(naive):
        with naive.store.write():
            raise ZeroDivisionError

    with Explorer(Naive, [Caller("a", "fall", make), reading("b", 2)]) as explorer:
        with pytest.raises(ZeroDivisionError):
            explorer.explore()
        assert not any(player.db.in_transaction for player in explorer.players)


def test_a_statement_that_goes_around_the_gate_is_an_error():
    caller = Caller("a", "sneak", lambda naive: naive.store.db.executescript("SELECT 1"))
    with pytest.raises(AttributeError):
        explore(Naive, [caller, reading("b", 1)])


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


def test_a_refusal_is_an_outcome_like_any_other():
    def make(naive):
        with naive.store.write():
            raise Refused("no", "not today")

    found = explore(Naive, [Caller("a", "ask", make), Caller("b", "ask", make)])
    assert {each.outcomes for each in found.interleavings} == {(("refused", "no"),) * 2}


# One interleaving, step by step.


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
    step = run.steps[1]
    assert (step.call, step.outcome, step.reason) == ("waits", "failed", "BEGIN IMMEDIATE: locked")
    assert (run.kind, run.last.reason) == ("holds", "accept ends: replayed")


@pytest.mark.parametrize("name", names(PLANTED))
def test_a_witness_can_be_drawn_and_is_the_same_each_time(name):
    run = witness(name)
    assert run.to_dict() == witness(name).to_dict()
    svg = show.timeline(run).svg
    assert svg == show.timeline(run).svg
    assert "SELECT" in svg and run.last.anomaly in svg


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("BEGIN IMMEDIATE", "BEGIN IMMEDIATE"),
        ("COMMIT", "COMMIT"),
        ("SELECT (SELECT a FROM one) FROM two", "SELECT one"),
        ("INSERT INTO outbox (a) VALUES (?)", "INSERT outbox"),
        ("UPDATE work SET x = 1", "UPDATE work"),
        ("DELETE FROM receipt", "DELETE receipt"),
    ],
)  # fmt: skip
def test_a_statement_in_short(sql, words):
    assert short(sql) == words


def test_the_bars_show_every_verdict_in_words():
    table = rows(PLANTED)
    svg = show.interleavings(table).svg
    assert svg == show.interleavings(table).svg
    for words in (
        "48 duplicated", "296 busy", "4 wrong", "4 deadlock", "310 interleavings", "14 serializable",
        "check outside of the transaction",
    ):  # fmt: skip
        assert words in svg


def test_importing_the_scenarios_does_not_load_greenlet():
    code = "import sys, receiptlab.cli.commands, receiptlab.scenarios.interleaving_rows; print('greenlet' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def test_a_missing_greenlet_is_reported_before_a_file_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "greenlet", None)
    monkeypatch.setattr(schedules, "Sandbox", None)
    with pytest.raises(ModuleNotFoundError, match="greenlet"):
        TWO.explorer()


# The command.

CASE = """{"format": 1, "case": "two at once", "contract": "retention"}
{"actor": "a", "call": "execute", "args": {"namespace": "shop", "epoch": 1, "operation": "op", "payload": "x", "now": 1}}
{"actor": "b", "call": "execute", "args": {"namespace": "shop", "epoch": 1, "operation": "op", "payload": "x", "now": 2}}
{"actor": "c", "call": "close_and_collect", "args": {"namespace": "shop", "through": 1, "now": 3}}
"""


@pytest.fixture
def play(tmp_path):
    """Plays the case above, after a replacement in it."""

    def run(*options, before="", after="", files=1):
        assert before in CASE
        path = tmp_path / "mine.jsonl"
        path.write_text(CASE.replace(before, after) if before else CASE, encoding="utf-8")
        return main(["play", *[str(path)] * files, *options])

    return run


def test_play_interleavings_prints_the_endings(play, capsys):
    assert play("--interleavings") == 0
    out, err = capsys.readouterr()
    for words in ("A, b: execute", "refused (closed)", "replayed"):
        assert words in out
    assert "interleavings; " in err
    assert play("--interleavings", "3") == 0
    assert "970 interleavings; 970 are serializable" in capsys.readouterr().err
    assert play("--interleavings", "--json") == 0
    assert '"clean": true' in capsys.readouterr().out


def test_play_interleaving_shows_the_steps(play, tmp_path, capsys):
    path = tmp_path / "out.svg"
    one = ("--interleavings", "3", "--interleaving", "AAAAAABBBBCCCCC")
    assert play(*one, "--timeline", str(path)) == 0
    assert "INSERT effect" in capsys.readouterr().out
    assert "BEGIN IMMEDIATE" in path.read_text(encoding="utf-8")
    assert play("--interleaving", "AAAABBBBB", "--json") == 0
    assert '"call": "COMMIT"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--interleavings", "4"], "has 3 calls, --interleavings wants the last 4"),
        (["--interleavings", "1"], "--interleavings takes 2 to 4 calls, not 1"),
        (["--interleavings", "-1"], "--interleavings takes 2 to 4 calls, not -1"),
        (["--interleavings", "9"], "--interleavings takes 2 to 4 calls, not 9"),
        (["--interleaving", "AX"], "unknown letter 'X'"),
        (["--interleaving", "\x1b"], "unknown letter '\\x1b'"),
        (["--interleaving", ""], "too short"),
        (["--interleaving", "ABBB"], "does not fit"),
        (["--interleavings", "--timeline", "out.svg"], "choose it with --interleaving"),
    ],
)
def test_bad_input_gets_a_sentence_and_status_2(play, capsys, options, message):
    assert play(*options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err and len(err.splitlines()) == 1


CLOSE = '"call": "close_and_collect", "args": {"namespace": "shop", "through": 1, "now": 3}'


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"actor": "c"', '"actor": "b"', "must be of different actors"),
        (CLOSE, f'{CLOSE}, "fault": "before_commit"', "has a fault"),
        (CLOSE, '"call": "reopen"', "is reopen"),
    ],
)
def test_calls_that_cannot_be_made_at_once_are_refused(play, capsys, before, after, message):
    assert play("--interleavings", before=before, after=after) == 2
    assert message in capsys.readouterr().err


NEXT = {"namespace": "mail", "processor": "p", "worker": "w", "limit": 1, "hold_for": 1}
NEXT |= {"max_attempts": 1, "now": 0}
STAGE = {"decision": "first", "reference": "", "retain_until": 1, "tombstone_until": 2, "now": 0}


@pytest.mark.parametrize(
    ("contract", "call", "args"),
    [("work", "next", NEXT), ("intake", "stage", STAGE), ("intake", "scrub", {})],
)
def test_calls_without_a_verdict_are_refused(tmp_path, capsys, contract, call, args):
    """They are two transactions, depend on an earlier call, or pack the file."""
    lines = [{"case": "at once", "contract": contract}]
    lines += [{"actor": who, "call": call, "args": args} for who in ("a", "b")]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["play", str(tmp_path / "mine.jsonl"), "--interleavings"]) == 2
    assert f"line 2: {call} " in capsys.readouterr().err


def test_two_files_or_too_many_interleavings_are_refused(play, capsys, monkeypatch):
    assert play("--interleavings", files=2) == 2
    assert "give one FILE" in capsys.readouterr().err
    monkeypatch.setattr(schedules.Explorer.explore, "__defaults__", (8,))
    assert play("--interleavings") == 2
    assert "more than 8 interleavings" in capsys.readouterr().err


def test_an_earlier_call_that_is_not_as_expected_is_reported(play, capsys):
    wrong = '"now": 1}, "expect": {"outcome": "refused"}}'
    assert play("--interleavings", before='"now": 1}}', after=wrong) == 1
    assert "expected refused, got accepted" in capsys.readouterr().err


def test_a_finding_prints_the_command_that_runs_it_again(play, tmp_path, capsys, monkeypatch):
    found = explored("check outside of the transaction")
    monkeypatch.setattr(Explorer, "explore", lambda explorer: replace(found, name="mine"))
    assert play("--interleavings") == 1
    out, err = capsys.readouterr()
    assert "duplicated" in out
    again = f"receiptlab play {tmp_path / 'mine.jsonl'} --interleavings 2 --interleaving AAAAABABBBBB"
    assert f"duplicated: run it again with  {again}" in err
