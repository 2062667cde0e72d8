"""The owner beyond its case files: bytes, threads, and what a caller can do to it."""

import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receiptlab.contracts.owner import GUARDS, SCHEMA, Owner
from receiptlab.contracts.retention import Retention
from receiptlab.errors import NotWritten, Refused, WrongArgument
from receiptlab.store import Store
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
    before = owner.get(**WORK)
    owner.accept(**RESULT)
    after = owner.get(**WORK)
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
    assert str(refused.value) == "key-reused: this key was used for another command; choose a new key"


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
        owner.get("shop", "order-99")


def test_a_lookup_returns_the_receipt_and_waits_for_nobody(owner):
    first = owner.accept(**RESULT)
    with owner.store.again() as second, owner.store.write():
        found = Owner(second).find("shop", "key-1", epoch=1, policy="policy-1")
    assert found.outcome == "read"
    assert found.to_bytes() == first.to_bytes()


def test_refused_lookups_are_word_for_word_the_same(owner):
    owner.accept(**RESULT)
    asked = [("key-1", 2, "policy-1"), ("key-1", 1, "policy-2"), ("key-2", 1, "policy-1"), ("key-2", 2, "p")]
    for revoked in (False, True):
        if revoked:
            owner.revoke("shop", now=200)
        answers = set()
        for key, epoch, policy in asked:
            with pytest.raises(Refused) as refused:
                owner.find("shop", key, epoch, policy)
            answers.add((str(refused.value), refused.value.fields))
        assert len(answers) == 1


def test_a_saved_command_carries_the_version_of_its_form(owner):
    owner.accept(**RESULT)
    [(command, digest)] = owner.store.read("SELECT command, digest FROM receipt")
    fields = {name: value for name, value in RESULT.items() if name != "now"}
    assert json.loads(command) == fields | {"form": 1}
    assert digest == sha256(command)


def test_a_command_in_a_newer_form_is_refused_by_name(owner):
    owner.accept(**RESULT)
    with owner.store.write() as db:
        db.execute("UPDATE receipt SET command = json_set(command, '$.form', 2), digest = ''")
    with pytest.raises(Refused) as refused:
        owner.accept(**RESULT)
    assert (refused.value.reason, refused.value.fields) == ("unknown-field", ("form",))


def test_what_sqlite_cannot_store_is_no_unknown_outcome(owner):
    """Python has no name for this error. The word unknown is kept for outcomes that nobody knows."""
    with pytest.raises(NotWritten) as failed, owner.store.write() as db:
        db.execute("UPDATE work SET fence = 9223372036854775807 + 1")
    assert failed.value.reason.startswith("SQLITE_")


def instructions(store, call, *arguments):
    """How many instructions SQLite runs for the call. Unlike its time, this number is always the same."""
    counted = []
    store.db.set_progress_handler(lambda: counted.append(1), 1)
    call(*arguments)
    store.db.set_progress_handler(None, 1)
    return len(counted)


def cost_of_each_owner_call(size):
    with Store.temporary(SCHEMA) as store:
        owner, result = Owner(store), ("a", "new", 1, 1, "p", 1, sha256("r"), 5)
        with store.write() as db:
            rows = [(f"order-{number:05}",) for number in range(size)]
            db.executemany(
                "INSERT INTO work VALUES ('s', ?, 1, 1, 'p', 0, 1, NULL, NULL, 'ready', 'open', 0, 0)", rows
            )
            db.executemany(
                "INSERT INTO receipt (scope, key, work, command, digest, revision, result_digest, accepted_at)"
                " VALUES ('s', ?1, ?1, '{}', '', 1, '', 0)",
                rows,
            )
        calls = [
            *((owner.add, "s", "one", 1, 1, "p", 0), (owner.claim, "s", "one", "a", 1, 9)),
            *((owner.renew, "s", "one", "a", 1, 2, 20), (owner.get, "s", "one")),
            *((owner.accept, "s", "one", *result), (owner.accept, "s", "one", *result)),
            *((owner.find, "s", "new", 1, "p"), (owner.set_authority, "s", "one", 1, "p", 6)),
            *((owner.add, "s", "two", 1, 1, "p", 0), (owner.claim, "s", "two", "a", 1, 9)),
            *((owner.release, "s", "two", "a", 1, 2), (owner.cancel, "s", "two", 7)),
            *((owner.add, "t", "one", 1, 1, "p", 0), (owner.revoke, "t", 8)),
        ]
        return [(call.__name__, instructions(store, call, *rest)) for call, *rest in calls]


def cost_of_each_retention_call(size):
    with Store.temporary(Retention.SCHEMA) as store:
        one = Retention(store)
        with store.write() as db:
            rows = [(f"op-{number:05}",) for number in range(size)]
            db.executemany("INSERT INTO effect VALUES (NULL, 'n', 1, ?, '', 0)", rows)
            db.executemany("INSERT INTO receipt VALUES ('n', 1, ?, '', NULL, 0)", rows)
        calls = [
            *((one.execute, "n", 1, "one", "p", 1), (one.execute, "n", 1, "one", "p", 2)),
            *((one.effects, "n", 1, "one"), (one.expire_result, "n", 1, "one", 3)),
            *((one.execute, "m", 1, "one", "p", 1), (one.close_and_collect, "m", 1, 4)),
        ]
        return [(call.__name__, instructions(store, call, *rest)) for call, *rest in calls]


@pytest.mark.parametrize("cost", [cost_of_each_owner_call, cost_of_each_retention_call])
def test_a_call_costs_the_same_in_a_large_file(cost):
    """But for revoke and close_and_collect, which have to change every row of their scope or range."""
    assert cost(2_000) == cost(10)


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
    before = owner.counted(), owner.get(**WORK)
    try:
        receipt = owner.accept(**RESULT | {name: value})
    except (WrongArgument, Refused):
        assert (owner.counted(), owner.get(**WORK)) == before
    else:  # another key or time is a good call; it may be accepted once
        assert name in ("key", "now")
        assert receipt.outcome in ("accepted", "replayed")
