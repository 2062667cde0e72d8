"""Retention beyond its case files: load, sizes, and what reconciliation reads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receiptlab.contracts.retention import GUARDS, Retention
from receiptlab.errors import Refused, WrongArgument
from receiptlab.faults.tampering import unsafe_delete
from receiptlab.scenarios.retention_runs import sixteen_calls_on_eight_workers
from receiptlab.store import Store
from receiptlab.values import MAX_BODY, sha256

KEY = {"namespace": "shop", "epoch": 1, "operation": "op-1"}
CALL = KEY | {"payload": "pay 5", "now": 100}


@pytest.fixture
def retention(tmp_path):
    with Store.create(tmp_path / "receipts.db", Retention.SCHEMA) as store:
        yield Retention(store)


@pytest.mark.slow
def test_sixteen_calls_on_eight_workers_fifty_times_over():
    for _ in range(50):
        run = sixteen_calls_on_eight_workers()
        assert run.held
        assert len(run.steps) == 16


def test_the_order_of_the_checks():
    assert {call: [guard.__name__ for guard in guards] for call, guards in GUARDS.items()} == {
        "execute": ["closed", "conflict", "unknown_field", "replay", "result_expired"],
        "expire_result": ["closed", "not_found", "expire_result_replay"],
        "close_and_collect": ["boundary", "close_and_collect_replay"],
    }


def test_a_replay_equals_the_first_answer_and_writes_nothing(retention):
    first = retention.execute(**CALL)
    changes = retention.store.db.total_changes
    again = retention.execute(**CALL | {"now": 9_000})
    assert again == first
    assert (first.outcome, again.outcome) == ("accepted", "replayed")
    assert retention.store.db.total_changes == changes


def test_a_payload_of_exactly_one_mebibyte_passes_and_one_byte_more_is_refused(retention):
    assert retention.execute(**CALL | {"payload": "x" * MAX_BODY}).effect == 1
    for payload in ("x" * (MAX_BODY + 1), "ü" * (MAX_BODY // 2 + 1), "x" * 10_485_760):
        with pytest.raises(WrongArgument, match=r"^payload must have at most 1048576 bytes"):
            retention.execute(**CALL | {"operation": "op-2", "payload": payload})
    assert retention.counted() == (1, 1, 0)


def test_the_digest_is_that_of_the_exact_bytes(retention):
    retention.execute(**CALL | {"payload": "Zürich"})
    assert retention.effects(**KEY).digests == (sha256("Zürich"),)
    with pytest.raises(Refused, match="conflict"):
        retention.execute(**CALL | {"payload": "Zu\u0308rich"})


def test_closing_says_how_many_went_and_touches_no_other_namespace(retention):
    for namespace in ("market", "shop"):
        for number in range(30):
            key = {"namespace": namespace, "epoch": number // 10, "operation": f"op-{number}"}
            retention.execute(**key, payload="p", now=100)
    assert retention.close_and_collect("shop", through=1, now=200).collected == 20
    assert retention.counted() == (60, 40, 0)
    assert retention.store.read(
        "SELECT namespace, count(*) FROM receipt GROUP BY namespace ORDER BY namespace"
    ) == [
        ("market", 30),
        ("shop", 10),
    ]


def test_a_range_is_deleted_by_key_order_without_a_scan_or_an_index_beside(retention):
    plan = retention.store.read(
        "EXPLAIN QUERY PLAN DELETE FROM receipt WHERE namespace = ? AND epoch <= ?", ("shop", 1)
    )
    assert "SEARCH receipt USING PRIMARY KEY" in plan[0][3]
    indexed = "SELECT tbl_name FROM sqlite_schema WHERE type = 'index'"
    assert retention.store.read(indexed) == [("effect",)]


def test_execute_against_close_from_many_threads_leaves_nothing_between(retention):
    """For each epoch: an effect and its answer, or a refusal and no effect."""

    def execute(epoch):
        with Store.open(retention.store.path, timeout_ms=15_000) as store:
            try:
                return Retention(store).execute(**CALL | {"epoch": epoch}).effect
            except Refused as refused:
                return refused.reason

    def close(epoch):
        with Store.open(retention.store.path, timeout_ms=15_000) as store:
            return Retention(store).close_and_collect("shop", through=epoch, now=200).outcome

    with ThreadPoolExecutor(8) as pool:
        for epoch in range(40):
            executed, closed = pool.submit(execute, epoch), pool.submit(close, epoch)
            effects = retention.effects if executed.result() and closed.result() else None
            happened = len(effects(**KEY | {"epoch": epoch}).digests)
            assert happened == (0 if executed.result() == "closed" else 1)
            assert retention.counted()[1] == 0


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.integers())
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(CALL)), value=ANYTHING)
def test_no_argument_makes_it_fail_in_another_way(retention, name, value):
    """Only a named argument or a refusal comes out, and then nothing is written."""
    before = retention.counted()
    try:
        retention.execute(**CALL | {name: value})
    except (WrongArgument, Refused):
        assert retention.counted() == before
    else:
        assert type(value) is type(CALL[name])


def test_the_rows_as_they_stand_after_each_call(retention):
    digest = sha256("pay 5")
    retention.execute(**CALL)
    retention.execute(**CALL | {"epoch": 2, "now": 101})
    assert retention.store.read("SELECT * FROM effect ORDER BY id") == [
        (1, "shop", 1, "op-1", digest, 100),
        (2, "shop", 2, "op-1", digest, 101),
    ]
    retention.expire_result(**KEY, now=200)
    rows = "SELECT * FROM receipt ORDER BY epoch"
    kept = ("shop", 2, "op-1", digest, '{"effect":2,"executed_at":101}', 101)
    assert retention.store.read(rows) == [("shop", 1, "op-1", digest, None, 200), kept]
    retention.close_and_collect("shop", through=1, now=300)
    assert retention.store.read(rows) == [kept]
    assert retention.store.read("SELECT * FROM boundary") == [("shop", 1, 300)]
    assert retention.store.read("SELECT executed_at FROM effect ORDER BY id") == [(100,), (101,)]


def test_effects_are_those_of_the_key_in_their_order(retention):
    for namespace in ("market", "shop"):
        retention.execute(**CALL | {"namespace": namespace})
    unsafe_delete(retention, **KEY, now=110)
    retention.execute(**CALL | {"payload": "pay 6", "now": 120})
    assert retention.effects(**KEY).digests == (sha256("pay 5"), sha256("pay 6"))
    assert len(retention.effects(**KEY | {"namespace": "market"}).digests) == 1
