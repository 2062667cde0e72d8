"""The checks of cases: changed, written, and able to notice wrong guards."""

import pytest

from receiptlab import exercises as check
from receiptlab.contracts import owner
from receiptlab.contracts.owner import Owner
from receiptlab.exercises import like
from receiptlab.experiment.case_file import CaseError
from receiptlab.faults.ablation import first
from receiptlab.lesson import case
from tests.exercises.lines import said

BLANK = "not yet: nothing is filled in here"
CHANGES = "not yet: this needs what to change in a step by its number, such as {1: {'until': 90}}"
HAS = "it has scope, work, actor, key, revision, epoch, policy, fence, result_digest, now, and a fault"


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        ({3: {"now": 159}}, "done: O-06-expired-lease with your change: 3 × accepted, 2 × refused (state)"),
        ({3: {"fault": None, "now": 159}}, "done: O-06-expired-lease with your change: "),
        ({3: {"now": 161}}, "not yet: step 3 (worker-a accept at 161) must end as accepted, but ends as refused expired"),
        ({3: {"nwo": 1}}, f"not yet: step 3 has no nwo; {HAS}"),
        ({3: {"falt": "x"}}, f"not yet: step 3 has no falt; {HAS}"),
        ({3: {"now": ...}}, "not yet: step 3: nothing is filled in here"),
        ({3: ...}, BLANK),
        ({33: {"now": 1}}, "not yet: there is no step 33; the steps are 1 to 5"),
        ({3: 159}, CHANGES),
        (159, CHANGES),
        ({3: {"fault": "never"}}, "not yet: your case, step 3: unknown fault 'never'"),
        ({3: {"fault": ["before_commit"]}}, "not yet: your case, step 3: fault in the line must be a text"),
        (..., BLANK),
    ],
)  # fmt: skip
def test_changed(mine, line):
    assert said(check.changed, "O-06-expired-lease", mine, ends={3: "accepted"}).startswith(line)


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        ({3: {"now": 159}}, "done: "),
        ({3: {"now": 159}, 4: {"now": 170}}, "done: "),
        ({3: {"now": 159, "until": 200}}, "not yet: step 3 has no until; it has scope, "),
        ({2: {"until": 200}}, "not yet: step 2: you may change now, not until"),
        ({3: {"now": 159}, 5: {"now": 300}}, "not yet: you changed 2 arguments; change only one"),
        ({4: {"now": 175}}, "not yet: leave step 4 as it is; change step 3 or 5"),
        ({3: {"now": 160}}, "not yet: this is the case as it was; nothing is changed"),
        (
            {3: {"now": 99}},
            "not yet: steps keep their order, so time cannot run backwards: step 2 is at 100, ",
        ),
    ],
)
def test_a_change_can_be_limited(mine, line):
    limits = {"only": ["now"], "steps": [3, 5], "at_most": 1}
    assert said(check.changed, "O-06-expired-lease", mine, ends={3: "accepted"}, **limits).startswith(line)


BASE = "O-08-same-fence-wrong-holder"
START = [like(BASE, 1), like(BASE, 2)]
STRANGER = [*START, like(BASE, 3, expect="refused holder")]
LIKE = f"like('{BASE}'"
NO_HEAD = '{"case": "mine", "contract": "intake"}\n{"actor": "a", "call": "scrub"}'


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        (STRANGER, "done: your case notices: without holder, step 3 (worker-b accept at 120): "),
        (START, "not yet: your case holds, but it also holds without holder"),
        ([*START, like(BASE, 3)], "not yet: your case holds, but it also holds without holder; no call says how"),
        ([*START, like(BASE, 3, expect="accepted")], "not yet: with the contract as it is, step 3 (worker-b accept at 120): outcome: expected accepted"),
        ([*START, like(BASE, 3, expect="refused")], 'not yet: step 3 (worker-b accept at 120) says only that it is refused; add the reason, as in expect="refused …"'),
        ([], BLANK),
        (..., BLANK),
        ('{"actor": "a", "call": "foo"}', "not yet: your case, step 1: unknown call 'foo'"),
        ('{"actor": "a", "call":', "not yet: your case, step 1: not JSON: "),
        ([like(BASE, 1), {"actor": "a"}], "not yet: your case, step 2: call is missing in the line"),
        ([5], "not yet: your case, step 1: this is not a call; make one with `like`"),
        ([{"actor": object()}], "not yet: your case: a line cannot be written as JSON: "),
        ([like(BASE, 9)], f"not yet: {LIKE}, 9, …): there is no step 9; the steps are 1 to 4"),
        ([like(BASE, 0)], f"not yet: {LIKE}, 0, …): there is no step 0"),
        ([like(BASE)], f"not yet: {LIKE}, 0, …): there is no step 0"),
        ([like(case, 1)], "not yet: like needs the name of a case, in quotes"),
        ([like("O-99", 1)], "not yet: like('O-99', 1, …): there is no case O-99"),
        ([like(BASE, 1, expect="rejected")], f"not yet: {LIKE}, 1, …): 'rejected' is not an outcome"),
        ([like(BASE, 1, fault="after_recept")], "not yet: your case, step 1: unknown fault 'after_recept'"),
        (BASE, "not yet: this needs a list of calls, such as [like(base, 1)]"),
        (5, "not yet: this needs a list of calls"),
        (NO_HEAD, "not yet: your case is for the contract intake; this exercise needs owner"),
    ],
)  # fmt: skip
def test_a_case_that_notices_a_missing_guard(mine, line):
    assert said(check.notices, Owner, "accept", "holder", mine).startswith(line)


def test_a_case_for_another_guard_notices_nothing():
    only = [*START, like(BASE, 3, expect="refused")]
    held = "not yet: your case holds, but it also holds without fence"
    assert said(check.notices, Owner, "accept", "fence", STRANGER) == held
    assert said(check.notices, Owner, "accept", "fence", only).startswith(
        f"{held}; a call says only that it is"
    )


REVOKED = "O-09-revoked-replay"
BEFORE = [like(REVOKED, number) for number in (1, 2, 3, 4)]
CANCELLED = like("O-11-cancelled-claim", 2, now=150, expect="accepted")
ORDER = ("accept", first(Owner, "accept", "key_reused")["accept"])
EXTRA = ("cancel", ["not_found", owner.revoked, "cancel_state"])


@pytest.mark.parametrize(
    ("guards", "mine", "line"),
    [
        (ORDER, [*BEFORE, like(REVOKED, 5, revision=2, expect="refused revoked")], "done: your case notices: with those guards of accept, step 5 (worker-a accept at 140): reason: expected revoked, got key-reused"),
        (ORDER, [*BEFORE, like(REVOKED, 5, expect="refused revoked")], "not yet: your case holds, but it also holds with those guards of accept"),
        (ORDER, [*BEFORE, like(REVOKED, 5, revision=2, expect="refused key-reused")], "not yet: with the contract as it is, step 5 (worker-a accept at 140): reason: expected key-reused"),
        (ORDER, [*BEFORE, {"actor": "a", "call": "foo"}], "not yet: your case, step 5: unknown call 'foo'"),
        (EXTRA, [*BEFORE[:2], CANCELLED], "not yet: your case holds, but it also holds with those guards of cancel"),
        (EXTRA, [*BEFORE[:2], BEFORE[3], CANCELLED], "done: your case notices: with those guards of cancel, step 4 (operator cancel"),
        (("cancel", ["no_such"]), BEFORE, "not yet: cancel has no guard 'no_such'; choose from cancel_state, not_found"),
        (("cancel", ["not_found"]), ..., BLANK),
        (("cancel", ["not_found"]), 5, "not yet: this needs a list of calls"),
    ],
)  # fmt: skip
def test_a_case_that_tells_guards_apart(guards, mine, line):
    assert said(check.tells_apart, Owner, *guards, mine).startswith(line)


def test_a_whole_case_file_can_be_given():
    head = '{"case": "mine", "contract": "owner"}\n'
    with_head = check.read(Owner, head + '{"actor": "a", "call": "revoke", "args": {"scope": "s", "now": 1}}')
    assert (with_head.title, len(with_head.calls)) == ("mine", 1)
    with pytest.raises(CaseError, match="your case, line 2: unknown call"):
        check.read(Owner, head + '{"actor": "a", "call": "foo"}')


def test_calls_are_printed_without_how_they_end(capsys):
    check.print_calls("O-02-answer-lost")
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].startswith("in every call that has it: scope shop, work order-17, ")
    assert printed.splitlines()[3] == " 3 worker-a  accept  now 120  [after_commit]"
    assert not any(word in printed for word in ("accepted", "replayed", "unknown"))


@pytest.mark.parametrize(
    "expect", ["refused holder", "refused (holder)", "Refused: holder", ("refused", "holder")]
)
def test_like_changes_only_what_is_named(expect):
    line = like(BASE, 3, actor="worker-z", expect=expect, fault="before_commit")
    assert line["actor"] == line["args"]["actor"] == "worker-z"
    assert (line["fault"], line["expect"]) == ("before_commit", {"outcome": "refused", "reason": "holder"})
    assert line["args"] == case(BASE).steps[2].args | {"actor": "worker-z"}
