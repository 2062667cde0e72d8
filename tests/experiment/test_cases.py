"""Each case file is a test; and what a case file that cannot be read gets."""

import json
import os
import shutil

import pytest

from receiptlab.contracts.registry import CONTRACTS
from receiptlab.experiment.case_file import FILE_CALLS, CaseError, read_case
from receiptlab.experiment.library import data_folder, load, own_cases
from receiptlab.experiment.player import play
from receiptlab.faults.ablation import without
from receiptlab.faults.failpoints import failpoints_of
from receiptlab.faults.tampering import TAMPERING
from receiptlab.store import Store

HEAD = {"format": 1, "case": "mine", "contract": "owner"}
ADD = {
    "actor": "operator",
    "call": "add",
    "args": {"scope": "shop", "work": "w", "revision": 1, "epoch": 1, "policy": "p", "now": 0},
}


@pytest.mark.parametrize("case", own_cases(), ids=lambda case: case.name)
def test_case_comes_out_as_it_says(case):
    run = play(case)
    assert [step.wrong for step in run.steps if step.wrong] == []


@pytest.mark.parametrize("case", own_cases(), ids=lambda case: case.name)
def test_case_of_the_lab_is_whole(case):
    """Every case names its clauses, and expects the outcome and the counts where it matters."""
    assert case.clauses
    for call in case.calls:
        if call.call not in (*FILE_CALLS, "get"):
            assert call.expect, f"{case.name}:{call.line} expects nothing"
        if call.call in CONTRACTS[case.contract].FAILPOINTS:
            assert "counts" in call.expect, f"{case.name}:{call.line} expects no counts"
        if call.expect and call.expect["outcome"] in ("refused", "invalid", "unknown", "failed"):
            assert call.expect.get("reason"), f"{case.name}:{call.line} expects no reason"


def test_playing_twice_gives_the_same_run():
    for case in own_cases()[::7]:
        assert play(case).to_dict() == play(case).to_dict()


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
def test_every_crash_point_and_failing_table_is_played(contract):
    runs = [play(case) for case in own_cases() if case.contract == contract.NAME]
    faults = {(step.call, step.fault) for run in runs for step in run.steps if step.fault}
    for call in contract.FAILPOINTS:
        assert {(call, point) for point in failpoints_of(contract, call)} <= faults
    assert set(contract.TABLES) <= {fault.partition(":")[2] for _, fault in faults}


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
def test_every_listed_point_is_reached_and_no_other(contract, monkeypatch):
    reached = set()
    monkeypatch.setattr("receiptlab.store._pass", reached.add)
    for case in own_cases():
        if case.contract == contract.NAME:
            play(case)
    assert reached == {point for call in contract.GUARDS for point in failpoints_of(contract, call)}


def test_names_of_cases_are_unique_and_folders_are_contracts():
    files = list((data_folder() / "cases").glob("*/*.jsonl"))
    assert len({path.stem for path in files}) == len(files)
    assert {(path.parent.name, path.stem) for path in files} == {
        (case.contract, case.name) for case in own_cases()
    }


def write(path, *lines):
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_a_wrong_expectation_is_told_and_not_hidden(tmp_path):
    expect = {"outcome": "refused", "reason": "exists", "counts": [1, 0, 0], "answer": {"fence": 2}}
    run = play(read_case(write(tmp_path / "mine.jsonl", HEAD, ADD | {"expect": expect})))
    assert not run.held
    assert run.steps[0].wrong == (
        "outcome: expected refused, got accepted",
        "reason: expected exists, got none",
        "counts: expected [1, 0, 0], got [0, 0, 0]",
        "answer fence: expected 2, got nothing",
    )


def test_true_is_not_one_in_an_expectation(tmp_path):
    claim = {
        "actor": "a",
        "call": "claim",
        "args": {"scope": "shop", "work": "w", "actor": "a", "now": 1, "until": 2},
    }
    expect = {"outcome": "accepted", "answer": {"fence": True}}
    run = play(read_case(write(tmp_path / "mine.jsonl", HEAD, ADD, claim | {"expect": expect})))
    assert run.steps[1].wrong == ("answer fence: expected True, got 1",)


def test_without_expectations_a_case_only_reports(tmp_path):
    run = play(read_case(write(tmp_path / "mine.jsonl", HEAD, ADD, ADD)))
    assert run.held
    assert [step.outcome for step in run.steps] == ["accepted", "refused"]


def test_a_fault_that_never_strikes_is_not_as_expected(tmp_path):
    accept = load("O-17-accept-not-found").calls[1]
    line = {"actor": "a", "call": "accept", "args": accept.args, "fault": "after_outbox"}
    run = play(read_case(write(tmp_path / "mine.jsonl", HEAD, ADD, line)))
    assert run.steps[1].wrong == ("fault after_outbox: it never struck",)


def test_a_field_that_the_answer_does_not_have_is_never_as_expected(tmp_path):
    expect = {"outcome": "accepted", "answer": {"bogus": None}}
    run = play(read_case(write(tmp_path / "mine.jsonl", HEAD, ADD | {"expect": expect})))
    assert run.steps[0].wrong == ("answer bogus: expected None, got nothing",)


def test_a_statement_that_fails_by_itself_is_not_the_fault(tmp_path):
    """Without its guard a second add fails at the primary key, not at the trigger."""
    line = ADD | {"fault": "update:outbox"}
    case = read_case(write(tmp_path / "mine.jsonl", HEAD, ADD, line))
    run = play(case, without(CONTRACTS["owner"], "add", "exists"))
    assert (run.last.outcome, run.last.wrong) == ("failed", ("fault update:outbox: it never struck",))


def test_a_byte_order_mark_and_blank_lines_are_no_obstacle(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"{json.dumps(HEAD)}\r\n\r\n{json.dumps(ADD)}\r\n".encode())
    assert play(read_case(path)).held


LONG = '{"actor": "' + "a" * 70_000 + '"}\n'
BAD = {
    "empty": ([], "mine.jsonl: the file is empty"),
    "no head": ([ADD], ":1: the head is missing"),
    "no calls": ([HEAD], "there is no call"),
    "unknown head key": ([HEAD | {"cluse": []}, ADD], ":1: unknown key 'cluse'"),
    "wrong type in head": ([HEAD | {"clause": "O-1"}, ADD], ":1: clause in the head must be a list, not a text"),
    "clause of a wrong type": ([HEAD | {"clause": [1]}, ADD], ":1: clause must be a text"),
    "no contract": ([{"case": "mine"}, ADD], ":1: contract is missing"),
    "unknown contract": ([HEAD | {"contract": "x"}, ADD], ":1: unknown contract 'x'; known are owner, retention"),
    "other format": ([HEAD | {"format": 2}, ADD], ":1: this is format 2, this lab reads format 1"),
    "bool as format": ([HEAD | {"format": True}, ADD], ":1: format in the head must be an integer"),
    "wrong expected": ([HEAD | {"expected": "maybe"}, ADD], ":1: expected in the head must be holds or breaks"),
    "control character": ([HEAD | {"case": "a\u001b[31m"}, ADD], ":1: case has a control character"),
    "unknown key": ([HEAD, ADD | {"exepct": {}}], ":2: unknown key 'exepct'"),
    "no actor": ([HEAD, {"call": "add"}], ":2: actor is missing"),
    "unknown call": ([HEAD, ADD | {"call": "addd"}], ":2: unknown call 'addd'"),
    "private call": ([HEAD, ADD | {"call": "_write"}], ":2: unknown call '_write'"),
    "unknown argument": ([HEAD, ADD | {"args": ADD["args"] | {"x": 1}}], ":2: add has no argument 'x'"),
    "missing argument": ([HEAD, ADD | {"args": {}}], ":2: add needs the argument 'scope'"),
    "wrong type of argument": ([HEAD, ADD | {"args": ADD["args"] | {"now": "0"}}], ":2: now must be an integer, not str"),
    "args of a wrong type": ([HEAD, ADD | {"args": []}], ":2: args in the line must be an object, not a list"),
    "null": ([HEAD, ADD | {"args": None}], ":2: args in the line must be an object, not null"),
    "unknown fault": ([HEAD, ADD | {"fault": "explode"}], ":2: unknown fault 'explode'"),
    "fault on another table": ([HEAD, ADD | {"fault": "insert:sqlite_schema"}], ":2: unknown fault"),
    "fault on reopen": ([HEAD, ADD, {"actor": "a", "call": "reopen", "fault": "after_commit"}], ":3: unknown fault"),
    "reopen with args": ([HEAD, {"actor": "a", "call": "reopen", "args": {"now": 1}}], ":2: reopen takes no args"),
    "restore without a snapshot": ([HEAD, ADD, {"actor": "a", "call": "restore"}], ":3: restore needs a snapshot"),
    "unknown outcome": ([HEAD, ADD | {"expect": {"outcome": "fine"}}], ":2: unknown outcome 'fine'"),
    "no outcome": ([HEAD, ADD | {"expect": {}}], ":2: outcome is missing in the expect"),
    "unknown in expect": ([HEAD, ADD | {"expect": {"outcome": "read", "x": 1}}], ":2: unknown key 'x' in the expect"),
    "too few counts": ([HEAD, ADD | {"expect": {"outcome": "accepted", "counts": [1]}}], ":2: counts must be the 3 numbers"),
    "count of a wrong type": (
        [HEAD, ADD | {"expect": {"outcome": "accepted", "counts": [0, 0, "0"]}}],
        ":2: each of counts must be an integer",
    ),
    "not JSON": ([HEAD, "{'actor': 1}\n"], ":2: not JSON"),
    "cut line": ([HEAD, json.dumps(ADD)[:-9]], ":2: not JSON"),
    "not an object": ([HEAD, "[1, 2]\n"], ":2: each line must be an object"),
    "key twice": ([HEAD, '{"actor": "a", "actor": "b", "call": "reopen"}\n'], ":2: not JSON: the key 'actor' appears twice"),
    "NaN": ([HEAD, '{"actor": "a", "call": NaN}\n'], ":2: not JSON: NaN is not a JSON number"),
    "enormous number": ([HEAD, '{"actor": "a", "call": ' + "9" * 9000 + "}\n"], ":2: not JSON"),
    "deep nesting": ([HEAD, "[" * 60_000 + "\n"], ":2: not JSON"),
    "deep argument": ([HEAD, ADD | {"args": {"now": [[[[[1]]]]]}}], ":2: nested deeper than 5 levels"),
    "infinite number": ([HEAD, '{"actor": "a", "call": 1e999}\n'], ":2: not JSON: 1e999 is too large"),
    "anomaly with a surrogate": ([HEAD, ADD | {"anomaly": "\ud800"}], ":2: anomaly has a lone surrogate"),
    "note with an escape": ([HEAD, ADD | {"note": "\u001b[2J"}], ":2: note must have at most 1000 characters"),
    "reason with an escape": ([HEAD, ADD | {"expect": {"outcome": "failed", "reason": "\u001b"}}], ":2: reason has a control"),
    "enormous line": ([HEAD, LONG], ":2: the line is longer than 65536 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(tmp_path, name):
    lines, message = BAD[name]
    with pytest.raises(CaseError) as refused:
        read_case(write(tmp_path / "mine.jsonl", *lines))
    assert message in str(refused.value)
    assert "mine.jsonl" in str(refused.value)


def test_bytes_that_are_no_utf8(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(json.dumps(HEAD).encode() + b'\n{"actor": "\xff"}\n')
    with pytest.raises(CaseError, match=r":2: not UTF-8 at byte 12"):
        read_case(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such files")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "mine.jsonl")
    with pytest.raises(CaseError, match="is not a file"):
        read_case(tmp_path / "mine.jsonl")


def test_reopen_really_opens_the_file_again(monkeypatch):
    opened = []
    real = Store.open
    monkeypatch.setattr(Store, "open", lambda *args: opened.append(1) or real(*args))
    play(load("O-02-answer-lost"))
    plain = len(opened)
    opened.clear()
    play(load("O-02-answer-lost-reopened"))
    assert len(opened) == plain + 2, "the actor and the observer"


def test_too_many_lines(tmp_path):
    with pytest.raises(CaseError, match=r":10001: a case has at most 10000 lines"):
        read_case(write(tmp_path / "mine.jsonl", HEAD, *[ADD] * 10_001))


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(CaseError, match=r"nothing\.jsonl: cannot be read: No such file"):
        read_case(tmp_path / "nothing.jsonl")
    with pytest.raises(CaseError, match=r"is not a file"):
        read_case(tmp_path)


def test_an_unknown_case_is_reported(tmp_path):
    with pytest.raises(CaseError, match="there is no case O-99"):
        load("O-99")


def test_the_format_page_names_every_key_call_and_outcome():
    from receiptlab.experiment import case_file as cases
    from receiptlab.outcomes import WORDS

    page = (data_folder() / "README.md").read_text(encoding="utf-8")
    words = {*cases._HEAD, *cases._LINE, *cases._EXPECT, *WORDS, *FILE_CALLS}
    for contract in CONTRACTS.values():
        words |= {contract.NAME, *contract.calls(), *contract.COUNTS, *TAMPERING.get(contract.NAME, {})}
        words |= {point for call in contract.calls() for point in failpoints_of(contract, call)}
        for call, guards in contract.GUARDS.items():
            words |= {
                guard.__name__.removeprefix(f"{call}_").replace("_", "-")
                for guard in guards
                if not guard.__name__.endswith("replay")
            }
    assert [word for word in sorted(words) if f"`{word}`" not in page] == []


def test_the_example_on_the_format_page_plays(tmp_path):
    page = (data_folder() / "README.md").read_text(encoding="utf-8")
    example = page.split("```json\n")[1].split("```")[0]
    run = play(read_case(write(tmp_path / "example.jsonl", example)))
    assert run.held
    assert sum(step.expect is not None for step in run.steps) >= 2


def test_without_the_data_folder_the_error_says_what_to_do(tmp_path, monkeypatch):
    from receiptlab.experiment import library as cases

    shutil.copy(cases.__file__, tmp_path / "cases.py")
    monkeypatch.setattr(cases, "__file__", str(tmp_path / "cases.py"))
    with pytest.raises(CaseError, match="install receiptlab again"):
        data_folder()
