"""The intake contract: what is known of an item, and what may be staged about it."""

import copy
import pickle
import re
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from receiptlab.contracts import outbox
from receiptlab.contracts.intake.intake import (
    _CURRENT,
    _DELETE_MESSAGES,
    _DUE,
    _ERASURES,
    _EXPIRED,
    GUARDS,
    DeliverItem,
    Intake,
)
from receiptlab.contracts.intake.items import (
    Changed,
    CollisionRedelivered,
    Erased,
    FirstSeen,
    Handle,
    Item,
    Redelivered,
    identity_of,
    synthetic_key,
)
from receiptlab.contracts.work.work import Work
from receiptlab.errors import Refused, WrongArgument
from receiptlab.store import Store
from receiptlab.values import sha256

NAME = {"key_kind": "explicit", "tenant": "acme", "namespace": "mail", "key": "<1@example.test>"}
A, B, C = (sha256(letter) for letter in "ABC")
KEEP = {"retain_until": 1_000, "tombstone_until": 2_000}


@pytest.fixture
def intake(tmp_path):
    with Store.create(tmp_path / "receipts.db", Intake.SCHEMA, timeout_ms=200) as store:
        yield Intake(store)


def first(intake, digest=A, now=100, **name):
    with intake.store.write() as db:
        return intake.stage_first(db, intake.classify(**NAME | name, digest=digest), "row 1", **KEEP, now=now)


def revise(intake, digest, now=200, **keep):
    with intake.store.write() as db:
        handle = intake.classify(**NAME, digest=digest).handle
        return intake.stage_revision(db, handle, f"row of {digest[:4]}", **KEEP | keep, now=now)


def collide(intake, digest, now=200):
    with intake.store.write() as db:
        return intake.stage_collision(db, intake.classify(**NAME, digest=digest).handle, "", now)


def row(intake):
    [found] = intake.store.read("SELECT state, head, revisions, collisions, seen, key FROM receipt")
    return found


# I-1, I-2: identity


def test_identity_is_the_same_in_another_process():
    code = "from receiptlab.contracts.intake.items import identity_of; print(identity_of('explicit', 'acme', 'mail', 'k'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == identity_of("explicit", "acme", "mail", "k")


def test_no_two_lists_of_parts_meet():
    names = [
        ("acme", "mail", "k"),
        ("acm", "email", "k"),
        ("acme", "mai", "lk"),
        ("acme", "", "mailk"),
        ("", "acme", "mailk"),
    ]
    identities = {identity_of(kind, *name) for name in names for kind in ("explicit", "synthetic", "content")}
    assert len(identities) == 15
    assert (
        len(
            {
                synthetic_key("a", "b"),
                synthetic_key("ab"),
                synthetic_key("a", "", "b"),
                synthetic_key("ab", ""),
            }
        )
        == 4
    )


def test_an_explicit_key_that_looks_synthetic_is_another_item(intake):
    key = synthetic_key("from", "subject")
    first(intake, key_kind="synthetic", key=key)
    assert isinstance(intake.classify(**NAME | {"key": key}, digest=A), FirstSeen)
    assert isinstance(intake.classify(**NAME | {"key": key, "key_kind": "synthetic"}, digest=A), Redelivered)


def test_a_key_made_from_content_is_the_content(intake):
    with pytest.raises(WrongArgument, match="key made from content"):
        intake.classify(**NAME | {"key_kind": "content"}, digest=A)
    first(intake, key_kind="content", key=A)
    assert isinstance(intake.classify(**NAME | {"key_kind": "content", "key": A}, digest=A), Redelivered)


# I-3, I-5: classification and staging


def test_first_seen_then_redelivered_with_what_was_recorded(intake):
    assert isinstance(intake.classify(**NAME, digest=A), FirstSeen)
    assert first(intake).revision == 1
    again = intake.classify(**NAME, digest=A)
    assert again == Redelivered(again.item, 1, True, "row 1")


def test_a_then_b_then_a_again_is_a_redelivery_of_an_older_revision(intake):
    first(intake)
    changed = intake.classify(**NAME, digest=B)
    assert (type(changed), changed.head_revision, changed.head_digest) == (Changed, 1, A)
    assert revise(intake, B).revision == 2
    old = intake.classify(**NAME, digest=A)
    assert (type(old), old.revision, old.is_head) == (Redelivered, 1, False)
    assert intake.classify(**NAME, digest=B).is_head


def test_a_collision_is_counted_and_the_head_stays(intake):
    first(intake)
    assert collide(intake, B).revision == 2
    assert row(intake) == ("live", 1, 2, 1, 2, NAME["key"])
    assert intake.classify(**NAME, digest=B) == CollisionRedelivered(intake.item(**NAME, digest=B), 2)
    assert intake.classify(**NAME, digest=C).head_digest == A
    assert revise(intake, C).revision == 3
    assert row(intake)[:4] == ("live", 3, 3, 1)


def test_redeliveries_are_counted_on_request(intake):
    first(intake)
    with intake.store.write() as db:
        assert intake.stage_seen(db, intake.classify(**NAME, digest=A), 300).revision == 1
    assert row(intake)[4] == 2


# I-4, I-6, I-7: one transaction, one handle, one winner


def test_nothing_is_staged_outside_a_transaction(intake):
    seen = intake.classify(**NAME, digest=A)
    with pytest.raises(Refused, match="no-transaction"):
        intake.stage_first(intake.store.db, seen, "", **KEEP, now=1)
    with intake.store.again() as other, other.write() as db, pytest.raises(Refused, match="no-transaction"):
        intake.stage_first(db, seen, "", **KEEP, now=1)
    assert intake.counted() == (0, 0, 0)


def test_a_batch_is_all_or_nothing_with_its_domain_and_outbox_rows(intake):
    intake.store.db.execute("CREATE TABLE letter (identity TEXT NOT NULL) STRICT")
    with pytest.raises(ZeroDivisionError), intake.store.write() as db:
        staged = intake.stage_first(db, intake.classify(**NAME, digest=A), "row 1", **KEEP, now=100)
        db.execute("INSERT INTO letter VALUES (?)", (staged.identity,))
        outbox.stage(db, "letter", staged.identity, 100)
        1 / 0  # noqa: B018
    assert intake.counted() == (0, 0, 0)
    assert intake.store.read("SELECT count(*) FROM letter") == [(0,)]
    assert isinstance(intake.classify(**NAME, digest=A), FirstSeen)


def test_a_handle_cannot_be_made_copied_or_kept(intake):
    first(intake)
    handle = intake.classify(**NAME, digest=B).handle
    with pytest.raises(TypeError, match="comes from classify"):
        Handle(object(), intake.store, handle.item, (1, 1, A))
    with pytest.raises(TypeError):
        pickle.dumps(handle)
    assert copy.deepcopy(handle) is handle
    with pytest.raises(TypeError, match="cannot be changed"):
        handle.used = False
    lookalike = SimpleNamespace(item=handle.item, store=intake.store, on=handle.on, used=False)
    with pytest.raises(WrongArgument, match="handle must be"), intake.store.write() as db:
        intake.stage_revision(db, lookalike, "", **KEEP, now=200)


def test_a_handle_used_twice_rolls_the_batch_back(intake):
    first(intake)
    handle = intake.classify(**NAME, digest=B).handle
    with pytest.raises(Refused, match="handle-used"), intake.store.write() as db:
        intake.stage_revision(db, handle, "", **KEEP, now=200)
        intake.stage_collision(db, handle, "", now=200)
    assert row(intake)[:3] == ("live", 1, 1)


def test_a_handle_of_another_store_is_refused(intake, tmp_path):
    first(intake)
    with Store.create(tmp_path / "other.db", Intake.SCHEMA) as store:
        other = Intake(store)
        first(other)
        with pytest.raises(Refused, match="other-store"), store.write() as db:
            other.stage_revision(db, intake.classify(**NAME, digest=B).handle, "", **KEEP, now=200)


@pytest.mark.parametrize("between", [lambda intake: revise(intake, C), lambda intake: collide(intake, C)])
def test_a_handle_after_the_head_moved_is_refused(intake, between):
    first(intake)
    handle = intake.classify(**NAME, digest=B).handle
    between(intake)
    with pytest.raises(Refused, match="head-moved"), intake.store.write() as db:
        intake.stage_revision(db, handle, "", **KEEP, now=300)
    assert isinstance(intake.classify(**NAME, digest=B), Changed)


def test_two_deliveries_classified_at_once_a_hundred_times_over(intake):
    """One batch lands; the other rolls back with its outbox row, and is a redelivery next time."""
    for number in range(100):
        name = NAME | {"key": f"<{number}@example.test>"}
        barrier, ended = threading.Barrier(2, timeout=15), []

        def deliver(name=name, barrier=barrier, ended=ended):
            with Store.open(intake.store.path) as store:
                mine = Intake(store)
                seen = mine.classify(**name, digest=A)
                barrier.wait()
                try:
                    with store.write() as db:
                        mine.stage_first(db, seen, "", **KEEP, now=100)
                        outbox.stage(db, "letter", seen.item.identity, 100)
                except Refused as refused:
                    ended.append(refused.reason)
                else:
                    ended.append("landed")

        threads = [threading.Thread(target=deliver) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ended) == ["head-moved", "landed"]
        assert intake.counted() == (number + 1,) * 3
        assert isinstance(intake.classify(**name, digest=A), Redelivered)


# I-8 to I-10: retention


def test_a_compacted_receipt_is_still_recognised_without_its_reference(intake):
    first(intake)
    revise(intake, B)
    assert intake.sweep(limit=10, now=999).compacted == 0
    assert intake.sweep(limit=10, now=1_000).compacted == 1
    again = intake.classify(**NAME, digest=B)
    assert (type(again), again.revision, again.is_head, again.reference) == (Redelivered, 2, True, None)
    assert row(intake) == ("compacted", 2, 2, 0, 0, None)
    assert intake.store.read(
        "SELECT number, disposition, digest, outcome, staged_at FROM revision ORDER BY number"
    ) == [
        (1, "accepted", A, None, None),
        (2, "accepted", B, None, None),
    ]


def test_unsettled_work_keeps_a_receipt_from_being_compacted(intake):
    first(intake)
    intake.store.db.execute("UPDATE receipt SET unsettled = 1")
    assert intake.sweep(limit=10, now=5_000).compacted == 0
    intake.store.db.execute("UPDATE receipt SET unsettled = 0")
    assert intake.sweep(limit=10, now=5_000).compacted == 1


def test_a_new_revision_over_a_compacted_head_makes_it_live_again(intake):
    first(intake)
    intake.sweep(limit=10, now=1_000)
    assert revise(intake, B, now=1_100, retain_until=3_000, tombstone_until=4_000).revision == 2
    assert row(intake) == ("live", 2, 2, 0, 1, NAME["key"])
    assert intake.sweep(limit=10, now=2_999).compacted == 0


def test_past_its_time_a_tombstone_goes_and_a_redelivery_is_first_seen(intake):
    first(intake)
    intake.sweep(limit=10, now=1_000)
    assert intake.sweep(limit=10, now=1_999).removed == 0
    assert intake.sweep(limit=10, now=2_000).removed == 1
    assert isinstance(intake.classify(**NAME, digest=A), FirstSeen)


def test_a_sweep_takes_no_more_than_its_limit(intake):
    for number in range(5):
        first(intake, key=f"<{number}>")
    assert [intake.sweep(limit=2, now=1_500).compacted for _ in range(4)] == [2, 2, 1, 0]


# I-11, I-12: erasure


def test_erasure_is_final_and_leaves_only_the_identity_and_the_time(intake):
    first(intake)
    again, handle = intake.classify(**NAME, digest=A), intake.classify(**NAME, digest=B).handle
    assert intake.erase_identity(**NAME, now=500).erased == 1
    assert intake.classify(**NAME, digest=A) == Erased(again.item, 500)
    assert intake.counted() == (0, 0, 1)
    kept = intake.store.read("SELECT * FROM receipt")
    assert kept == [(again.item.identity, "erased", *[None] * 5, 0, 0, 0, 0, None, None, 500)]
    for stage in (
        lambda db: intake.stage_first(db, FirstSeen(again.item), "", **KEEP, now=600),
        lambda db: intake.stage_seen(db, again, 600),
        lambda db: intake.stage_revision(db, handle, "", **KEEP, now=600),
        lambda db: intake.stage_collision(db, handle, "", 600),
    ):
        with pytest.raises(Refused, match="erased"), intake.store.write() as db:
            stage(db)
    intake.sweep(limit=10, now=9_999)
    assert intake.erase_identity(**NAME, now=9_999).erased == 0
    assert intake.store.read("SELECT * FROM receipt") == kept


def test_an_identity_that_was_never_delivered_can_be_erased_beforehand(intake):
    assert intake.erase_identity(**NAME, now=50).erased == 1
    assert isinstance(intake.classify(**NAME, digest=A), Erased)
    assert intake.store.read("SELECT topic, subject FROM outbox") == [("erased", identity_of(**NAME))]


def test_a_namespace_and_a_tenant_are_erased_and_no_other(intake):
    for tenant in ("acme", "umbrella"):
        for namespace in ("mail", "hooks"):
            first(intake, tenant=tenant, namespace=namespace)
    intake.sweep(limit=1, now=1_500)
    assert intake.erase_namespace("acme", "mail", now=1_600).erased == 1
    assert intake.erase_tenant("umbrella", now=1_700).erased == 2
    assert intake.store.read("SELECT tenant, namespace FROM receipt WHERE state <> 'erased'") == [
        ("acme", "hooks")
    ]
    assert intake.counted()[2] == 3


def test_after_scrub_no_erased_byte_is_in_the_file_or_its_wal(intake):
    secret = "<very-secret-key@example.test>"
    for number in range(200):
        first(intake, key=f"<{number}@example.test>")
    with intake.store.write() as db:
        seen = intake.classify(**NAME | {"key": secret}, digest=A)
        intake.stage_first(db, seen, "a very secret reference", **KEEP, now=100)
    intake.erase_identity(**NAME | {"key": secret}, now=200)
    assert intake.scrub().done
    intake.store.close()
    folder = intake.store.path.parent
    found = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"very-secret-key" not in found
    assert b"very secret reference" not in found
    assert b"<199@example.test>" in found


def test_scrub_says_so_when_a_reader_keeps_the_wal(intake):
    first(intake)
    with intake.store.again() as reader:
        reader.db.execute("BEGIN")
        reader.read("SELECT * FROM receipt")
        intake.erase_identity(**NAME, now=200)
        assert not intake.scrub().done
        reader.db.execute("COMMIT")
        assert intake.scrub().done


# Bad input


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"tenant": ""}, "tenant"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "ü" * 129}, "namespace"),
        ({"key": ""}, "key"),
        ({"key": "k" * 1_025}, "key"),
        ({"key": "\ud800"}, "key"),
        ({"key": None}, "key"),
        ({"key_kind": "guess"}, "key_kind"),
        ({"key_kind": 1}, "key_kind"),
        ({"digest": "A" * 64}, "digest"),
    ],
)
def test_a_wrong_name_is_named(intake, change, argument):
    with pytest.raises(WrongArgument) as refused:
        intake.classify(**NAME | {"digest": A} | change)
    assert refused.value.argument == argument


def test_the_longest_names_pass(intake):
    longest = {"namespace": "ü" * 128, "key": "k" * 1_024}
    assert isinstance(intake.classify(**NAME | longest, digest=A), FirstSeen)


@pytest.mark.parametrize("wrong", [{"reference": "r" * 4_097}, {"retain_until": -1}, {"now": True}])
def test_a_wrong_staging_argument_is_named_and_nothing_is_half_written(intake, wrong):
    with pytest.raises(WrongArgument) as refused, intake.store.write() as db:
        outbox.stage(db, "letter", "1", 1)
        seen = intake.classify(**NAME, digest=A)
        intake.stage_first(db, seen, **{"reference": "", **KEEP, "now": 1} | wrong)
    assert refused.value.argument == next(iter(wrong))
    assert intake.counted() == (0, 0, 0)


def test_an_item_made_by_hand_is_checked_and_gets_the_identity_of_its_name(intake):
    item = Item(**NAME, digest=A, identity="of somebody else")
    with intake.store.write() as db:
        assert intake.stage_first(db, FirstSeen(item), "", **KEEP, now=1).identity == identity_of(**NAME)
    with pytest.raises(WrongArgument, match="key must have"), intake.store.write() as db:
        intake.stage_first(
            db, FirstSeen(Item(**NAME | {"key": ""}, digest=A, identity="x")), "", **KEEP, now=1
        )


def test_the_order_of_the_checks():
    assert [guard.__name__ for guard in GUARDS["stage"]] == [
        "handle_used",
        "erased",
        "not_found",
        "head_moved",
    ]
    assert [guard.__name__ for guard in GUARDS["deliver"]] == ["erased"]


def test_a_change_whose_receipt_is_gone_is_not_found(intake):
    first(intake)
    handle = intake.classify(**NAME, digest=B).handle
    intake.sweep(limit=10, now=1_000)
    intake.sweep(limit=10, now=2_000)
    with pytest.raises(Refused, match="not-found"), intake.store.write() as db:
        intake.stage_revision(db, handle, "", **KEEP, now=2_100)


def test_classification_sees_one_moment(intake, monkeypatch):
    """An erasure between two reads must not be half visible, so there is only one read."""
    first(intake)
    with intake.store.again() as second:
        other, read = Intake(second), intake.store.read

        def reading(sql, values=()):
            rows = read(sql, values)
            other.erase_identity(**NAME, now=500)
            return rows

        monkeypatch.setattr(intake.store, "read", reading)
        assert isinstance(intake.classify(**NAME, digest=B), Changed)
        assert isinstance(intake.classify(**NAME, digest=B), Erased)


def test_an_erasure_can_stand_beside_the_consumers_own(intake):
    first(intake)
    identity = identity_of(**NAME)
    with pytest.raises(Refused, match="no-transaction"):
        intake.stage_erasure(intake.store.db, identity, 500)
    with pytest.raises(ZeroDivisionError), intake.store.write() as db:
        assert intake.stage_erasure(db, identity, 500)
        1 / 0  # noqa: B018
    assert isinstance(intake.classify(**NAME, digest=A), Redelivered)
    with intake.store.write() as db:
        assert intake.stage_erasure(db, identity, 500)
        assert not intake.stage_erasure(db, identity, 600)
    assert intake.counted() == (0, 0, 1)


@pytest.mark.parametrize("meanwhile", [B, C])
def test_a_handle_does_not_outlive_the_receipt_it_was_made_on(intake, meanwhile):
    """The receipt is removed, and another one follows under the same identity, with the same numbers."""
    first(intake)
    handle = intake.classify(**NAME, digest=B).handle
    intake.sweep(limit=10, now=1_000)
    intake.sweep(limit=10, now=2_000)
    first(intake, digest=meanwhile, now=2_100)
    with pytest.raises(Refused, match="head-moved"), intake.store.write() as db:
        intake.stage_revision(db, handle, "", **KEEP, now=2_200)


def test_a_handle_is_refused_when_its_content_became_known_under_the_same_head(intake):
    """The receipt is removed. The next one has the same head, and the handle's content as an older revision."""
    first(intake)
    revise(intake, C)
    handle = intake.classify(**NAME, digest=B).handle
    intake.sweep(limit=10, now=1_000)
    intake.sweep(limit=10, now=2_000)
    first(intake, digest=B, now=2_100)
    revise(intake, C, now=2_200)
    assert handle.on == (2, 2, C) and intake.classify(**NAME, digest=A).handle.on == handle.on
    with pytest.raises(Refused, match="head-moved"), intake.store.write() as db:
        intake.stage_revision(db, handle, "", **KEEP, now=2_300)


def test_a_collision_over_a_tombstone_records_nothing_and_leaves_it_one(intake):
    first(intake)
    intake.sweep(limit=10, now=1_000)
    with intake.store.write() as db:
        intake.stage_collision(db, intake.classify(**NAME, digest=B).handle, "a secret reference", 1_100)
    assert row(intake)[0] == "compacted"
    assert intake.store.read("SELECT count(*) FROM revision WHERE outcome IS NOT NULL") == [(0,)]
    assert isinstance(intake.classify(**NAME, digest=B), CollisionRedelivered)


def test_an_item_that_was_changed_by_hand_is_checked_again(intake):
    item = replace(intake.item(**NAME, digest=A), key="k" * 1_025)
    with pytest.raises(WrongArgument, match="key must have"), intake.store.write() as db:
        intake.stage_first(db, FirstSeen(item), "", **KEEP, now=1)
    item = intake.item(**NAME, digest=A)
    object.__setattr__(item, "key", "another")  # it still has the seal of the item it was
    with intake.store.write() as db:
        staged = intake.stage_first(db, FirstSeen(item), "", **KEEP, now=1)
    assert staged.identity == identity_of(**NAME | {"key": "another"})


def test_a_tombstone_does_not_end_before_the_receipt(intake):
    with pytest.raises(WrongArgument, match="tombstone_until must not be before"), intake.store.write() as db:
        seen = intake.classify(**NAME, digest=A)
        intake.stage_first(db, seen, "", retain_until=10, tombstone_until=9, now=1)


@pytest.mark.parametrize("ending", ["erased", "compacted"])
def test_after_scrub_no_byte_of_many_keys_is_left(intake, ending):
    """Keys of many lengths make SQLite split and rebalance pages, which leaves copies in free space."""
    for number in range(400):
        key = f"<SECRET-{number:04}-{'k' * (number * number * 31 % 700)}@x>"
        with intake.store.write() as db:
            seen = intake.classify(**NAME | {"tenant": "locked-tenant", "key": key}, digest=A)
            intake.stage_first(db, seen, f"REFERENCE-{number:04}", **KEEP, now=100)
    if ending == "erased":
        assert intake.erase_tenant("locked-tenant", now=200).erased == 400
    else:
        assert intake.sweep(limit=1_000, now=1_500).compacted == 400
    assert intake.scrub().done
    intake.store.close()
    found = b"".join(path.read_bytes() for path in intake.store.path.parent.iterdir())
    assert re.findall(rb"SECRET-\d+|REFERENCE-\d+", found) == []
    assert (b"locked-tenant" in found) is (ending == "compacted")


# I-15 to I-17: no traces, and erasures that outlive a restore


def test_an_announcement_never_reuses_the_id_of_a_row_that_was_deleted(intake):
    """Otherwise a relay that remembers the last id it sent would skip the announcement."""
    first(intake)
    with intake.store.write() as db:
        last = outbox.stage(db, "letter", identity_of(**NAME), 100)
    intake.erase_identity(**NAME, now=500)
    assert intake.store.read("SELECT id, topic FROM outbox") == [(last + 1, "erased")]


def test_the_outbox_rows_of_other_identities_stay(intake):
    with intake.store.write() as db:
        for subject in (identity_of(**NAME), identity_of(**NAME | {"key": "other"}), "anything"):
            outbox.stage(db, "letter", subject, 100)
    intake.erase_identity(**NAME, now=500)
    assert intake.store.read("SELECT topic FROM outbox ORDER BY id") == [
        ("letter",),
        ("letter",),
        ("erased",),
    ]


def test_erasures_are_exported_in_pages_and_applied_to_a_restored_file(intake, tmp_path):
    for number in range(5):
        first(intake, key=f"<{number}>")
    with Store.create(tmp_path / "restored.db", Intake.SCHEMA) as store:
        intake.store.db.backup(store.db)
        intake.erase_tenant("acme", now=500)
        restored, exported, after = Intake(store), [], 0
        while (page := intake.erasures(after, 2)).rows:
            exported += page.rows
            after = page.rows[-1][0]
            assert page.more is (len(exported) < 5)
        with store.write() as db:
            assert all(restored.stage_erasure(db, identity, now) for _, identity, now in exported)
        assert restored.classify(**NAME | {"key": "<3>"}, digest=A) == intake.classify(
            **NAME | {"key": "<3>"}, digest=A
        )
        assert restored.erasures(0, 10).rows[0][1:] == exported[0][1:]


def test_a_page_of_erasures_can_be_as_long_as_an_integer(intake):
    intake.erase_identity(**NAME, now=500)
    assert len(intake.erasures(0, 2**63 - 1).rows) == 1
    assert intake.erasures(0, 0).more


@pytest.mark.parametrize("statement", [_DUE, _EXPIRED, _DELETE_MESSAGES, _ERASURES, _CURRENT])
def test_no_statement_on_the_way_of_one_item_reads_a_whole_table(intake, statement):
    """So that an item costs the same in a file of any size: only searches by an index, and no sorting."""
    values = dict.fromkeys(("now", "limit"), 1) if ":now" in statement else (1,) * statement.count("?")
    with intake.store.write() as db:
        plan = [row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert all(step.startswith("SEARCH") for step in plan), plan


def steps_of(intake, call):
    """The number of steps that SQLite's virtual machine makes for a call: its cost, without a clock."""
    counted = []
    intake.store.db.set_progress_handler(lambda: counted.append(1), 1)
    call()
    intake.store.db.set_progress_handler(None, 1)
    return len(counted)


def test_an_item_costs_the_same_in_a_larger_file(tmp_path):
    costs = []
    for size in (10, 2_000):
        with Store.create(tmp_path / f"{size}.db", Work.SCHEMA) as store:
            intake, named = Intake(store), {"key_kind": "explicit", "tenant": "big", "namespace": "mail"}
            more = {"digest": A, "changed_as": "revision", "reference": "", "now": 0}
            due = {"retain_until": 5, "tombstone_until": 9}
            with store.write() as db:
                for number in range(size):
                    intake.stage_delivery(db, DeliverItem(**named, key=f"{number}", **more, **KEEP))
                db.execute("UPDATE receipt SET unsettled = 1, retain_until = 1 WHERE abs(key) % 3 = 0")
                for number in range(5):
                    delivery = DeliverItem(**named | {"namespace": "due"}, key=f"{number}", **more, **due)
                    intake.stage_delivery(db, delivery)
            calls = {
                "classify": {**named, "key": "5", "digest": A},
                "sweep": {"limit": 5, "now": 6},
                "erase_identity": {**named, "key": "5", "now": 9},
                "erase_namespace": {"tenant": "big", "namespace": "due", "now": 9},
                "erasures": {"after": 0, "limit": 5},
            }
            costs.append(
                [steps_of(intake, partial(getattr(intake, call), **args)) for call, args in calls.items()]
            )
    small, large = costs
    assert all(after <= 1.5 * before for before, after in zip(small, large, strict=True)), costs
