"""The checks of the exercises: right answers pass, wrong ones are told at which step they are wrong."""

import pytest

from receiptlab import exercises as check
from receiptlab.contracts.owner import Owner
from receiptlab.errors import Refused
from receiptlab.exercises import like
from receiptlab.experiment.case_file import CaseError
from receiptlab.lesson import case

REPLACED = "O-06-lease-replaced"


@pytest.fixture
def said(capsys):
    """What was printed since the last look, without the line's end."""
    return lambda: capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        ({4: "refused fence", 5: "accepted"}, "done: 2 of 2 steps end as you said"),
        ({4: "refused, fence"}, "done: 1 of 1 steps end as you said"),
        (
            {4: "refused holder"},
            "not yet: step 4 (worker-a accept at 210) ends as refused, and not with the reason holder",
        ),
        (
            {4: "refused"},
            "not yet: step 4 (worker-a accept at 210) ends as refused; add its reason",
        ),
        ({5: "accepted", 4: ...}, "not yet: step 4 (worker-a accept at 210): nothing is filled in here"),
        ({9: "accepted"}, "not yet: there is no step 9; the steps are 1 to 5"),
        ({0: "accepted"}, "not yet: there is no step 0; the steps are 1 to 5"),
        ({"four": "accepted"}, "not yet: there is no step 'four'; the steps are 1 to 5"),
        (
            {4: None},
            "not yet: None is no outcome; choose from accepted, replayed, read, refused, failed, unknown, invalid",
        ),
        (
            {4: "acepted"},
            "not yet: 'acepted' is no outcome; choose from accepted, replayed, read, refused, failed, unknown, invalid",
        ),
        ({4: "accepted"}, "not yet: step 4 (worker-a accept at 210) does not end as accepted"),
        (
            {5: "accepted fence"},
            "not yet: step 5 (worker-b accept at 220) ends as accepted, and has no reason",
        ),
        (
            {4: "refused expiry"},
            "not yet: 'expiry' is no reason of owner; choose from busy, epoch, exhausted, exists, ",
        ),
        ({"4": "Refused (fence)", 5: ("accepted",)}, "done: 2 of 2 steps end as you said"),
        (..., "not yet: nothing is filled in here"),
        ({}, "not yet: nothing is filled in here"),
        ("accepted", "not yet: this needs the number of each step, such as {3: 'accepted'}"),
    ],
)
def test_predicted(mine, told, said):
    check.predicted(case(REPLACED), mine)
    assert said().startswith(told) if told.endswith(", ") else said() == told


@pytest.mark.parametrize("words", ["unknown after_commit", "unknown after commit", "Unknown (after-commit)"])
def test_a_reason_may_be_put_in_more_than_one_way(words, said):
    check.predicted(case("O-02-answer-lost"), {3: words})
    assert said() == "done: 1 of 1 steps end as you said"


def test_an_unknown_outcome_has_what_was_done_for_its_reason(said):
    check.predicted(case("O-02-answer-lost"), {3: "unknown"})
    assert said().endswith("ends as unknown; add what was done to it, as it stands in brackets")


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        ((1, 1, 1), "done: the counts: (1, 1, 1)"),
        ([1, 1, 1], "done: the counts: [1, 1, 1]"),
        ((1, 1, 2), "not yet: the counts: (1, 1, 2) is not what the run shows"),
        ((1, 1), "not yet: the counts: 3 are asked for; you have 2"),
        ("(1, 1, 1)", "not yet: the counts: write it without quotes"),
        ((1, ..., 1), "not yet: nothing is filled in here"),
        (..., "not yet: nothing is filled in here"),
    ],
)
def test_same(mine, told, said):
    check.same("the counts", mine, case(REPLACED).last.counts)
    assert said() == told


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        ({3: {"now": 159}}, "done: O-06-expired-lease with your change: 3 × accepted, 2 × refused (state)"),
        (
            {3: {"now": 161}},
            "not yet: step 3 (worker-a accept at 161) must end as accepted, and ends as refused expired",
        ),
        (
            {3: {"nwo": 1}},
            "not yet: step 3 has no nwo; it has scope, work, actor, key, revision, epoch, policy, ",
        ),
        ({3: {"now": ...}}, "not yet: step 3: nothing is filled in here"),
        ({3: ...}, "not yet: nothing is filled in here"),
        ({33: {"now": 1}}, "not yet: there is no step 33; the steps are 1 to 5"),
        ({3: 159}, "not yet: this needs what to change in a step by its number, such as {1: {'until': 90}}"),
        (159, "not yet: this needs what to change in a step by its number, such as {1: {'until': 90}}"),
        ({3: {"fault": "never"}}, "not yet: your case, step 3: unknown fault 'never'"),
        (
            {3: {"falt": "x"}},
            "not yet: step 3 has no falt; it has scope, work, actor, key, revision, epoch, policy, fence, result_digest, now, and a fault",
        ),
        ({3: {"fault": None, "now": 159}}, "done: O-06-expired-lease with your change: "),
        ({3: {"fault": ["before_commit"]}}, "not yet: your case, step 3: fault in the line must be a text"),
        (..., "not yet: nothing is filled in here"),
    ],
)
def test_changed(mine, told, said):
    check.changed("O-06-expired-lease", mine, ends={3: "accepted"})
    assert said().startswith(told)


def fence(call, seen):
    if call.fence != seen.work.fence:
        raise Refused("fence", "mine")


def test_a_right_guard_is_done(said):
    check.guard(Owner, "accept", fence)
    assert said().startswith("done: with your guards of accept all ")


def older(call, seen):
    if call.fence < seen.work.fence:
        raise Refused("fence", "mine")


def broken(call, seen):
    return call.no_such_field


def returned(call, seen):
    return Refused("fence", "mine") if call.fence != seen.work.fence else None


def boolean(call, seen):
    return seen.work.fence == call.fence


def never(call, seen):
    return "an answer of my own"


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (
            lambda call, seen: None,
            "not yet: accept has no guard <lambda>; call your function by one of accept_state, ",
        ),
        (
            older,
            "not yet: O-06-two-things-wrong, step 3 (worker-b accept at 120): reason: expected fence, got holder",
        ),
        (broken, "not yet: O-04-same-key-two-connections: your code raised AttributeError: "),
        (
            never,
            "not yet: fence returns 'an answer of my own'; a guard returns nothing, or an answer of the call",
        ),
        (..., "not yet: nothing is filled in here"),
        ("fence", "not yet: this needs a function"),
    ],
)
def test_a_wrong_guard_is_told_at_its_step(mine, told, said):
    if callable(mine) and mine.__name__ != "<lambda>":
        mine.__name__ = "fence"
    check.guard(Owner, "accept", mine)
    assert said().startswith(told)


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (
            ["not_found", "revoked", "claim_state", "busy", "exhausted"],
            "done: with your guards of claim all ",
        ),
        (["not_found", "claim_state", "revoked", "busy"], "not yet: O-09-revoked-before-state, step 4 "),
        (["not_found", "revoked", "claim_state"], "not yet: O-15-live-claim-not-stolen, step 3 "),
        (
            ["not_found", "revokd"],
            "not yet: claim has no guard 'revokd'; choose from busy, claim_state, exhausted, not_found, revoked",
        ),
        (["not_found", "revoked", "busy", "busy"], "not yet: busy stands there twice"),
        (["not_found", 5], "not yet: claim has no guard 5; choose from "),
        ("not_found", "not yet: this needs a list of guards"),
        ([], "not yet: nothing is filled in here"),
        (["not_found", ...], "not yet: nothing is filled in here"),
        (..., "not yet: nothing is filled in here"),
    ],
)
def test_guards_in_order(mine, told, said):
    check.guards(Owner, "claim", mine)
    assert said().startswith(told)


BASE = "O-08-same-fence-wrong-holder"
STRANGER = [like(BASE, 1), like(BASE, 2), like(BASE, 3, expect="refused holder")]


@pytest.mark.parametrize(
    ("guard", "mine", "told"),
    [
        ("holder", STRANGER, "done: your case notices: without holder, step 3 (worker-b accept at 120): "),
        (
            "fence",
            STRANGER,
            "not yet: your case holds, and comes out the same when fence is left out of accept",
        ),
        ("holder", STRANGER[:2], "not yet: your case holds, and comes out the same when holder is left out"),
        (
            "holder",
            [*STRANGER[:2], like(BASE, 3, expect="accepted")],
            "not yet: with the contract as it is, step 3 (worker-b accept at 120): outcome: expected accepted",
        ),
        ("holder", [], "not yet: nothing is filled in here"),
        ("holder", ..., "not yet: nothing is filled in here"),
        ("holder", '{"actor": "a", "call": "foo"}', "not yet: your case, step 1: unknown call 'foo'"),
        ("holder", '{"actor": "a", "call":', "not yet: your case, step 1: not JSON: "),
        (
            "holder",
            [like(BASE, 1), {"actor": "a"}],
            "not yet: your case, step 2: call is missing in the line",
        ),
        ("holder", [5], "not yet: your case, step 1: this is no call; `like` makes one"),
        ("holder", [{"actor": object()}], "not yet: your case: a line cannot be written as JSON: "),
        (
            "holder",
            [like(BASE, 9)],
            "not yet: like('O-08-same-fence-wrong-holder', 9, …): there is no step 9; the steps are 1 to 4",
        ),
        (
            "holder",
            [like(BASE, 0)],
            "not yet: like('O-08-same-fence-wrong-holder', 0, …): there is no step 0",
        ),
        ("holder", [like(case, 1)], "not yet: like needs the name of a case, in quotes"),
        ("holder", [like(BASE)], "not yet: like('O-08-same-fence-wrong-holder', 0, …): there is no step 0"),
        ("holder", BASE, "not yet: this needs a list of calls, such as [like(base, 1)]"),
        ("holder", [like("O-99", 1)], "not yet: like('O-99', 1, …): there is no case O-99"),
        (
            "holder",
            [like(BASE, 1, expect="rejected")],
            "not yet: like('O-08-same-fence-wrong-holder', 1, …): 'rejected' is no outcome",
        ),
        (
            "holder",
            [like(BASE, 1, fault="after_recept")],
            "not yet: your case, step 1: unknown fault 'after_recept'",
        ),
        (
            "holder",
            [like(BASE, 1), like(BASE, 2), like(BASE, 3)],
            "not yet: your case holds, and comes out the same when holder is left out of accept; no call says how",
        ),
        ("holder", 5, "not yet: this needs a list of calls"),
        (
            "holder",
            '{"case": "mine", "contract": "intake"}\n{"actor": "a", "call": "scrub"}',
            "not yet: your case is of the contract intake; this asks for owner",
        ),
    ],
)
def test_a_case_that_notices(guard, mine, told, said):
    check.notices(Owner, "accept", guard, mine)
    assert said().startswith(told)


def test_a_whole_case_file_can_be_given(said):
    head = '{"case": "mine", "contract": "owner"}\n'
    with_head = check.read(Owner, head + '{"actor": "a", "call": "revoke", "args": {"scope": "s", "now": 1}}')
    assert (with_head.title, len(with_head.calls)) == ("mine", 1)
    with pytest.raises(CaseError, match="your case, line 2: unknown call"):
        check.read(Owner, head + '{"actor": "a", "call": "foo"}')


def test_tell_shows_calls_and_not_how_they_end(said):
    check.print_calls("O-02-answer-lost")
    told = said()
    assert told.splitlines()[0].startswith("in every call that has it: scope shop, work order-17, ")
    assert told.splitlines()[3] == " 3 worker-a  accept  now 120  [after_commit]"
    assert not any(word in told for word in ("accepted", "replayed", "unknown"))


@pytest.mark.parametrize(
    "expect", ["refused holder", "refused (holder)", "Refused: holder", ("refused", "holder")]
)
def test_an_expectation_may_be_put_in_more_than_one_way(expect):
    assert like(BASE, 3, expect=expect)["expect"] == {"outcome": "refused", "reason": "holder"}


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        ({3: {"now": 159}}, "done: "),
        ({3: {"now": 159, "until": 200}}, "not yet: step 3 has no until; it has scope, "),
        ({2: {"until": 200}}, "not yet: step 2: you may change now, not until"),
        ({3: {"now": 159}, 5: {"now": 300}}, "not yet: you changed 2 arguments; change one only"),
        ({3: {"now": 159}, 4: {"now": 170}}, "done: "),
        ({4: {"now": 175}}, "not yet: leave step 4 as it is; change step 3 or 5"),
        ({3: {"now": 160}}, "not yet: this is the case as it was; nothing is changed"),
        (
            {3: {"now": 99}},
            "not yet: steps keep their order, so time cannot run backwards: step 2 is at 100, ",
        ),
    ],
)
def test_a_change_may_be_of_some_arguments_alone(mine, told, said):
    limits = {"only": ["now"], "steps": [3, 5], "at_most": 1}
    check.changed("O-06-expired-lease", mine, ends={3: "accepted"}, **limits)
    assert said().startswith(told)


def test_steps_that_are_asked_for_are_counted(said):
    check.predicted(case(REPLACED), {4: "refused fence"}, steps=(4, 5))
    assert said() == "not yet: steps 4, 5 are asked for; 5 is missing"


def test_like_changes_what_is_named_and_nothing_else():
    line = like(BASE, 3, actor="worker-z", expect="refused holder", fault="before_commit")
    assert line["actor"] == line["args"]["actor"] == "worker-z"
    assert (line["fault"], line["expect"]) == ("before_commit", {"outcome": "refused", "reason": "holder"})
    assert line["args"] == case(BASE).steps[2].args | {"actor": "worker-z"}


def exits(call, seen):
    raise SystemExit("enough")


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda: check.same("x", object(), 1), "not yet: x: <object object at"),
        (
            lambda: check.guards(Owner, "accept", [["not_found"], "fence"]),
            "not yet: there is a list in the list;",
        ),
        (
            lambda: check.guards(Owner, "accept", [exits]),
            "not yet: this answer cannot be judged: your code raised SystemExit",
        ),
        (lambda: check.notices(Owner, "accept", "fence", [like(BASE, 1, now=10**5000)]), "not yet: "),
        (lambda: check.predicted(case(REPLACED), {"³": "accepted"}), "not yet: there is no step '³'"),
        (lambda: check.predicted(case(REPLACED), {4: "refused\nfence\nnot"}), "not yet: "),
        (lambda: check.same("x", "y" * 10**6, "z"), "not yet: x: 'yyy"),
    ],
)
def test_whatever_comes_there_is_one_line_and_no_traceback(check, told, said):
    check()
    line = said()
    assert line.startswith(told) and "\n" not in line and len(line) < 1_000


def test_ctrl_c_is_not_an_answer():
    def stopped(call, seen):
        raise KeyboardInterrupt

    stopped.__name__ = "fence"
    with pytest.raises(KeyboardInterrupt):
        check.guard(Owner, "accept", stopped)
