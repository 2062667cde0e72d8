"""The owner beyond its case files: bytes, threads, and what a caller can do to it."""

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receiptlab.contracts.owner import GUARDS, Owner
from receiptlab.errors import Refused, WrongArgument
from receiptlab.values import sha256
from tests.conftest import RESULT, WORK


def test_a_replay_is_equal_byte_for_byte(owner):
    first = owner.accept(**RESULT)
    with owner.store.again() as second:
        again = Owner(second).accept(**RESULT | {"now": 9_000})
    assert (first.outcome, again.outcome) == ("accepted", "replayed")
    assert first == again
    assert first.to_bytes() == again.to_bytes()
    assert first.to_bytes() == (
        b'{"accepted_at":120,"id":1,"key":"key-1","result_digest":"'
        + sha256("result 1").encode()
        + b'","revision":2,"scope":"shop","work":"order-17"}'
    )


def test_a_replay_writes_nothing(owner):
    owner.accept(**RESULT)
    before = owner.store.read("PRAGMA data_version"), owner.store.db.total_changes
    with owner.store.again() as watcher:
        seen = watcher.read("PRAGMA data_version")
        owner.accept(**RESULT)
        assert (owner.store.read("PRAGMA data_version"), owner.store.db.total_changes) == before
        assert watcher.read("PRAGMA data_version") == seen


def test_accept_changes_what_it_says_and_nothing_else(owner):
    before = owner.look(**WORK)
    owner.accept(**RESULT)
    after = owner.look(**WORK)
    assert after == before._replace(
        revision=2, results=1, state="result-recorded", holder=None, expires_at=None, changed_at=120
    )
    assert owner.store.read("SELECT * FROM outbox") == [(1, "result-recorded", "1", 120)]


def test_the_fence_rises_with_every_claim(owner):
    fences = [owner.claim(**WORK, actor="worker-b", now=now, until=now + 10).fence for now in (160, 170, 180)]
    assert fences == [2, 3, 4]


def test_one_key_from_many_threads_has_one_effect(owner):
    """O-4 under load: sixteen tries of one call from eight threads, each with its own connection."""
    barrier, answers = threading.Barrier(8, timeout=15), []

    def tries():
        with owner.store.again() as store:
            store.db.execute("PRAGMA busy_timeout = 15000")
            one = Owner(store)
            barrier.wait()
            answers.extend(one.accept(**RESULT) for _ in range(2))

    threads = [threading.Thread(target=tries) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.outcome for answer in answers) == ["accepted"] + ["replayed"] * 15
    assert len({answer.to_bytes() for answer in answers}) == 1
    assert owner.counted() == (1, 1, 1)


def test_a_refusal_tells_reason_fields_and_what_to_do(owner):
    owner.accept(**RESULT)
    with pytest.raises(Refused) as refused:
        owner.accept(**RESULT | {"result_digest": sha256("result 2"), "actor": "worker-b"})
    assert refused.value.reason == "key-reused"
    assert refused.value.fields == ("actor", "result_digest")
    assert str(refused.value) == "key-reused: this key named another command; take a new key"


def test_a_refusal_discloses_no_value_of_the_receipt(owner):
    owner.accept(**RESULT)
    with pytest.raises(Refused) as refused:
        owner.accept(**RESULT | {"result_digest": sha256("result 2")})
    assert RESULT["result_digest"] not in f"{refused.value} {refused.value.fields}"


def test_the_order_of_the_owner_s_checks():
    assert [guard.__name__ for guard in GUARDS["accept"]] == [
        *("not_found", "revoked", "epoch", "policy"),
        *("unknown_field", "key_reused", "replay"),
        *("accept_state", "fence", "holder", "expired", "revision"),
    ]


def test_looking_at_work_that_is_not_there_is_refused(owner):
    with pytest.raises(Refused, match="not-found"):
        owner.look("shop", "order-99")


def test_leases_are_listed_with_their_end(owner):
    assert owner.leases() == [("shop/order-17", "worker-a", 1, 160)]


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.integers())
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(RESULT)), value=ANYTHING)
def test_no_argument_makes_the_owner_fail_in_another_way(owner, name, value):
    """Only ValueError, TypeError or Refused comes out of a wrong argument, and nothing is written."""
    if value == RESULT[name] and type(value) is type(RESULT[name]):
        return
    before = owner.counted(), owner.look(**WORK)
    try:
        receipt = owner.accept(**RESULT | {name: value})
    except (WrongArgument, Refused):
        assert (owner.counted(), owner.look(**WORK)) == before
    else:  # another key or time is a good call; it may be accepted once
        assert name in ("key", "now")
        assert receipt.outcome in ("accepted", "replayed")
