"""The check of guards for several calls at once: each call has its own, and none may be missing."""

import pytest

from receiptlab import exercises as check
from receiptlab.contracts.work import claims, lease
from receiptlab.contracts.work.work import Work

CLAIM = ("complete", "renew", "fail")
LOOKS = ["not_found", "claim_lost_fence", "already_done", "claim_lost_state", "claim_lost_expiry"]
"""The guards of `complete`. The others have no `already_done`, and where it is given to them, cases notice."""

FEWER = [name for name in LOOKS if name != "already_done"]
WHOLE = {"complete": LOOKS, "renew": FEWER, "fail": FEWER}
LEASES = ("acquire", "acquire_sweep", "reserve", "sweep", "requeue")
RIGHT = {
    "acquire": ["busy"],
    "acquire_sweep": ["busy"],
    "reserve": ["lease_lost"],
    "sweep": ["lease_lost"],
    "requeue": ["not_found", "not_dead"],
}


@pytest.fixture
def said(capsys):
    """What was printed since the last look, without the line's end."""
    return lambda: capsys.readouterr().out.rstrip("\n")


def test_names_and_functions_are_done(said):
    check.guarded(Work, CLAIM, {call: [*WHOLE[call][:-1], claims.claim_lost_expiry] for call in CLAIM})
    assert said().startswith("done: with your guards of complete, renew, fail all ")
    check.guarded(Work, LEASES, RIGHT | {"acquire": (lease.busy,)})
    assert said().startswith("done: with your guards of acquire, acquire_sweep, reserve, sweep, requeue all ")


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (
            {"renew": FEWER[:-1]},
            "not yet: W-04-renew-after-the-end, step 5 (worker-a renew at 1999): outcome: ",
        ),
        ({"fail": FEWER[:-1]}, "not yet: W-04-fail-after-the-end, step 4 (worker-a fail at 1000): outcome: "),
        (
            {"complete": LOOKS[::-1]},
            "not yet: W-04-complete-twice, step 4 (worker-a complete at 110): reason: ",
        ),
        ({"renew": ...}, "not yet: renew: nothing is filled in here"),
        ({"renew": []}, "not yet: renew: nothing is filled in here"),
        ({"renew": [...]}, "not yet: nothing is filled in here"),
        ({"renew": "claim_lost_fence"}, "not yet: renew: this needs a list, such as "),
        ({"renew": ["fence"]}, "not yet: renew has no guard 'fence'; choose from already_done, "),
        ({"sweep": FEWER}, "not yet: 'sweep' is none of the calls complete, renew, fail"),
    ],
)
def test_what_is_wrong_with_one_call_is_told(mine, told, said):
    check.guarded(Work, CLAIM, WHOLE | mine)
    assert said().startswith(told)


@pytest.mark.parametrize("mine", [..., {}, {"complete": LOOKS, "renew": LOOKS}, LOOKS])
def test_a_call_that_is_missing_is_no_answer(mine, said):
    check.guarded(Work, CLAIM, mine)
    assert said().startswith("not yet: ")


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (
            {"acquire": ["lease_lost"]},
            "lease_lost does not fit acquire: it asks for `token`, which acquire does not have",
        ),
        (
            {"reserve": ["busy", "lease_lost"]},
            "(worker-a next at 1): outcome: expected accepted, got refused (busy)",
        ),
        ({"sweep": ["busy"]}, "(sweeper sweep at 100): outcome: expected accepted"),
        ({"requeue": ["not_dead"]}, "step 1 (operator requeue at 0): outcome: expected refused"),
    ],
)
def test_the_name_of_another_calls_guard_can_be_given_and_is_played(mine, told, said):
    check.guarded(Work, LEASES, RIGHT | mine)
    line = said()
    assert line.startswith("not yet: ") and told in line
