"""The checks of guards that a learner wrote or put in order: for one call, and for several at once."""

import pytest

from receiptlab import exercises as check
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.work import work
from receiptlab.contracts.work.work import Work
from receiptlab.errors import Refused
from tests.exercises.lines import said

BLANK = "not yet: nothing is filled in here"


def fence(call, seen):
    if call.fence != seen.work.fence:
        raise Refused("fence", "mine")


def older(call, seen):
    if call.fence < seen.work.fence:
        raise Refused("fence", "mine")


def broken(call, seen):
    return call.no_such_field


def returned(call, seen):
    return Refused("fence", "mine") if call.fence != seen.work.fence else None


def never(call, seen):
    return "my own answer"


for function in (older, broken, returned, never):
    function.__name__ = "fence"


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        (fence, "done: all "),
        (lambda call, seen: None, "not yet: accept has no guard <lambda>; name your function as one of accept_state, "),
        (older, "not yet: O-06-two-things-wrong, step 3 (worker-b accept at 120): reason: expected fence, got holder"),
        (broken, "not yet: O-04-same-key-two-connections: your code raised AttributeError: "),
        (returned, "not yet: fence returns Refused; it must raise it"),
        (never, "not yet: fence returns 'my own answer'; a guard returns nothing, or an answer of the call"),
        (..., BLANK),
        ("fence", "not yet: this needs a function"),
    ],
)  # fmt: skip
def test_one_guard(mine, line):
    assert said(check.guard, Owner, "accept", mine).startswith(line)


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        (["not_found", "revoked", "claim_state", "busy", "exhausted"], "done: all "),
        (["not_found", "claim_state", "revoked", "busy"], "not yet: O-09-revoked-before-state, step 4 "),
        (["not_found", "revoked", "claim_state"], "not yet: O-15-live-claim-not-stolen, step 3 "),
        (["not_found", "revokd"], "not yet: claim has no guard 'revokd'; choose from busy, claim_state, exhausted, not_found, revoked"),
        (["not_found", "revoked", "busy", "busy"], "not yet: busy is in the list twice"),
        (["not_found", 5], "not yet: claim has no guard 5; choose from "),
        ("not_found", "not yet: this needs a list of guards"),
        ([], BLANK),
        (["not_found", ...], BLANK),
        (..., BLANK),
    ],
)  # fmt: skip
def test_guards_in_order(mine, line):
    assert said(check.guards, Owner, "claim", mine).startswith(line)


CLAIM = ("complete", "renew", "fail")
ALL = ["not_found", "claim_lost_fence", "already_done", "claim_lost_state", "claim_lost_expiry"]
"""The guards of `complete`. The other two calls do not have `already_done`."""
FEWER = [name for name in ALL if name != "already_done"]
RIGHT = {"complete": ALL, "renew": FEWER, "fail": FEWER}


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        (RIGHT, "done: all "),
        ({call: [*RIGHT[call][:-1], work.claim_lost_expiry] for call in CLAIM}, "done: all "),
        (RIGHT | {"renew": FEWER[:-1]}, "not yet: W-04-renew-after-the-end, step 5 (worker-a renew at 1999): outcome: "),
        (RIGHT | {"fail": FEWER[:-1]}, "not yet: W-04-fail-after-the-end, step 4 (worker-a fail at 1000): outcome: "),
        (RIGHT | {"complete": ALL[::-1]}, "not yet: W-04-complete-twice, step 4 (worker-a complete at 110): reason: "),
        (RIGHT | {"renew": ...}, "not yet: renew: nothing is filled in here"),
        (RIGHT | {"renew": []}, "not yet: renew: nothing is filled in here"),
        (RIGHT | {"renew": [...]}, BLANK),
        (RIGHT | {"renew": "claim_lost_fence"}, "not yet: renew: this needs a list, such as "),
        (RIGHT | {"renew": ["fence"]}, "not yet: renew has no guard 'fence'; choose from already_done, "),
        (RIGHT | {"sweep": FEWER}, "not yet: 'sweep' is none of the calls complete, renew, fail"),
        ({"complete": ALL, "renew": ALL}, "not yet: fail: nothing is filled in here"),
        ({}, BLANK),
        (..., BLANK),
        (ALL, "not yet: this needs a list of guards for each call"),
    ],
)  # fmt: skip
def test_guards_of_three_calls(mine, line):
    printed = said(check.guarded, Work, CLAIM, mine)
    assert printed.startswith(line)
    assert not line.startswith("done") or printed.endswith("hold with your guards of complete, renew, fail")


LEASES = {
    "acquire": ["busy"],
    "acquire_sweep": ["busy"],
    "reserve": ["lease_lost"],
    "sweep": ["lease_lost"],
    "requeue": ["not_found", "not_dead"],
}


@pytest.mark.parametrize(
    ("mine", "line"),
    [
        ({"acquire": (work.busy,)}, "done: all "),
        (
            {"acquire": ["lease_lost"]},
            "lease_lost does not fit acquire: it needs `token`, which acquire does not have",
        ),
        (
            {"reserve": ["busy", "lease_lost"]},
            "(worker-a next at 1): outcome: expected accepted, got refused (busy)",
        ),
        ({"sweep": ["busy"]}, "(sweeper sweep at 100): outcome: expected accepted"),
        ({"requeue": ["not_dead"]}, "step 1 (operator requeue at 0): outcome: expected refused"),
    ],
)
def test_a_call_can_be_given_the_guard_of_another(mine, line):
    printed = said(check.guarded, Work, tuple(LEASES), LEASES | mine)
    assert line in printed and printed.startswith(("not yet: ", line))
