"""The consumers of intake: letters of an mbox, webhook deliveries, and the command over both."""

import argparse
import base64
import io
import json
import re
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from receiptlab.cli import intake_command as command
from receiptlab.contracts.intake.content import content_digest
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.intake.items import identity_of
from receiptlab.contracts.work.work import Work
from receiptlab.errors import FileRefused, LabError, Refused, WrongArgument
from receiptlab.examples import batches, mailbox, webhooks
from receiptlab.examples.batches import Broken, Doubtful, forget, take_in
from receiptlab.examples.handler import Failure, item_of
from receiptlab.examples.mailbox import Letter, letters
from receiptlab.examples.mbox import PIECE, Mbox
from receiptlab.examples.webhooks import Webhook
from receiptlab.examples.worker import Policy, Worker
from receiptlab.scenarios.intake_runs import traces
from receiptlab.store import Store
from receiptlab.values import sha256

DATA = Path(__file__).parents[2] / "data"
UNCLOSED = "its closing multipart boundary is missing; taken in as it is"
INBOX, DELIVERIES = DATA / "inbox.mbox", DATA / "deliveries.jsonl"


@pytest.fixture
def intake(tmp_path):
    with Store.create(tmp_path / "receipts.db", command.SCHEMA, timeout_ms=200) as store:
        yield Intake(store)


def mail(intake, data, now=0, **more):
    return take_in(intake.store, intake, letters(io.BytesIO(data), "acme", "inbox"), now=now, **more)


def hooks(intake, data, now=0, volatile=(), **more):
    source = webhooks.webhooks(io.BytesIO(data), "acme", volatile)
    return take_in(intake.store, intake, source, now=now, **more)


def counted(report):
    return {name: count for name, count in report.counts().items() if count}


CUT = 'Content-Type: multipart/mixed; boundary="b"'
SEPARATOR = "From ana@example.test Mon Mar  3 09:00:00 2025"
DATED = SEPARATOR.encode() + b"\n"


def letter(*headers, body="Hello\n", sender="ana@example.test", key="<1@example.test>"):
    head = [f"Message-ID: {key}"] * bool(key) + [f"From: {sender}", "Date: today", *headers]
    return (f"{SEPARATOR}\n" + "\n".join(head) + "\n\n" + body + "\n").encode("utf-8", "surrogateescape")


def hook(**fields):
    line = {"id": "evt-1", "source": "payments", "body": "{}"} | fields
    return json.dumps({name: value for name, value in line.items() if value is not None}).encode() + b"\n"


def dump(path):
    """Every row of every table, as text."""
    db = sqlite3.connect(path)
    try:
        return "\n".join(db.iterdump())
    finally:
        db.close()


def lab(*arguments):
    """The command as the lab's command line calls it."""
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["intake", *map(str, arguments)])
    return options.command(options)


# The files that come with the lab


@pytest.mark.parametrize(
    ("file", "once", "again"),
    [
        (
            INBOX,
            {
                "first_seen": 4,
                "redelivered": 3,
                "changed": 1,
                "collisions": 1,
                "collision_redelivered": 1,
                "doubtful": 1,
            },
            {"redelivered": 8, "collision_redelivered": 2, "doubtful": 1},
        ),
        (
            DELIVERIES,
            {"first_seen": 4, "redelivered": 3, "collisions": 1, "collision_redelivered": 1, "broken": 1},
            {"redelivered": 7, "collision_redelivered": 2, "broken": 1},
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_file_taken_in_twice_changes_nothing_the_second_time(tmp_path, intake, file, once, again):
    take = mail if file == INBOX else hooks
    assert counted(take(intake, file.read_bytes())) == once
    before = dump(intake.store.path)
    assert counted(take(intake, file.read_bytes(), now=500)) == again
    assert dump(intake.store.path) == before


def test_what_is_in_the_inbox_has_its_rows(intake):
    report = mail(intake, INBOX.read_bytes())
    assert report.named == [Doubtful("message 9 at byte 2366", UNCLOSED)]
    assert intake.store.read("SELECT revision, disposition, subject FROM letter") == [
        (1, "accepted", "Order 17"),
        (2, "accepted", "Order 17"),
        (3, "collision", "Order 17"),
        (1, "accepted", "Scan from the front desk, März"),
        (1, "accepted", "A photo that was cut off on the way"),
        (1, "accepted", "Thanks"),
    ]
    assert intake.store.read("SELECT key_kind, head, collisions FROM receipt ORDER BY key_kind, head") == [
        ("explicit", 1, 0),
        ("explicit", 1, 0),
        ("explicit", 2, 1),
        ("synthetic", 1, 0),
    ]
    topics = [topic for (topic,) in intake.store.read("SELECT topic FROM outbox ORDER BY id")]
    assert topics == ["letter", "letter", "collision", "letter", "letter", "letter"]


def test_every_byte_offset_is_where_its_message_begins():
    data = INBOX.read_bytes()
    for one in letters(io.BytesIO(data), "acme", "inbox"):
        assert data[int(one.place.rpartition(" ")[2]) :].startswith(b"From ")
        if isinstance(one, Letter):
            assert data[int(one.place.rpartition(" ")[2]) + one.size :][:5] in (b"From ", b"")


# Batches


@pytest.mark.parametrize("batch", [1, 2, 3, 500])
def test_the_size_of_a_batch_changes_nothing_but_the_time(intake, batch):
    assert counted(mail(intake, INBOX.read_bytes(), batch=batch))["first_seen"] == 4
    assert intake.counted() == (4, 6, 6)


def test_what_one_batch_holds_twice_is_a_redelivery_within_it(intake):
    assert counted(mail(intake, letter() * 2 + letter(body="Bye\n"))) == {
        "first_seen": 1,
        "redelivered": 1,
        "changed": 1,
    }


def test_a_batch_ends_early_when_it_is_large(monkeypatch):
    monkeypatch.setattr(batches, "MAX_BYTES", len(letter()) + 1)
    small = list(letters(io.BytesIO(letter() * 4), "acme", "inbox"))
    assert [len(group) for group in batches._groups(small, 500)] == [2, 2]


def losing(intake, times, reason="head-moved"):
    """An intake that loses its first races, as if somebody had staged in between."""
    left = iter(range(times))

    def lost(call, seen):
        if seen.state is None and next(left, None) is not None:
            raise Refused(reason, "somebody was quicker; classify again")

    return Intake(intake.store, {**Intake.GUARDS, "stage": (lost, *Intake.GUARDS["stage"])})


def test_a_batch_that_lost_a_race_is_taken_again_one_by_one(intake):
    data = b"".join(letter(key=f"<{number}>") for number in range(5))
    done = []
    report = mail(losing(intake, 1), data, progress=lambda report: done.append(report.first_seen))
    assert counted(report) == {"first_seen": 5}
    assert done == [5]
    assert intake.counted() == (5, 5, 5)
    assert intake.store.read("SELECT count(*) FROM letter") == [(5,)]


def test_what_loses_again_alone_is_reported_and_the_rest_goes_on(intake):
    data = b"".join(letter(key=f"<{number}>") for number in range(3))
    report = mail(losing(intake, 2), data)
    assert counted(report) == {"first_seen": 2, "broken": 1}
    assert report.named[0].place == "message 1 at byte 0"
    assert "head-moved" in report.named[0].why


def test_a_refusal_that_is_no_lost_race_comes_out(intake):
    with pytest.raises(Refused, match="no-transaction"), intake.store.again() as other:
        take_in(other, intake, letters(io.BytesIO(letter()), "acme", "inbox"), now=0)
    with pytest.raises(Refused, match="other"):
        mail(losing(intake, 9, reason="other"), letter())
    assert intake.counted() == (0, 0, 0)


def test_stopped_between_two_batches_leaves_whole_batches(intake):
    def stopped():
        for number, one in enumerate(letters(io.BytesIO(data), "acme", "inbox")):
            if number == 7:
                raise KeyboardInterrupt
            yield one

    data = b"".join(letter(key=f"<{number}>") for number in range(9))
    with pytest.raises(KeyboardInterrupt):
        take_in(intake.store, intake, stopped(), 3, now=0)
    assert intake.counted() == (6, 6, 6)
    assert intake.store.read("SELECT count(*) FROM letter") == [(6,)]
    assert counted(mail(intake, data)) == {"first_seen": 3, "redelivered": 6}


def test_stopped_within_a_batch_leaves_nothing_of_it(intake, monkeypatch):
    def stop(self, db, staged, disposition, now):
        raise KeyboardInterrupt

    monkeypatch.setattr(Letter, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        mail(intake, letter())
    assert intake.counted() == (0, 0, 0)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"batch": True}, {"now": -1}, {"now": batches.LATEST + 1}])
def test_a_wrong_batch_or_time_is_named(intake, wrong):
    with pytest.raises(WrongArgument) as refused:
        take_in(intake.store, intake, [], **{"now": 0} | wrong)
    assert refused.value.argument == next(iter(wrong))


def test_the_latest_time_passes(intake):
    assert counted(mail(intake, letter(), now=batches.LATEST)) == {"first_seen": 1}


def test_a_report_names_the_first_hundred_and_counts_all(intake):
    report = hooks(intake, b"[]\n" * 250)
    assert (report.broken, len(report.named)) == (250, 100)
    assert report.named[-1] == Broken("line 100", "it must be an object, not list")


# Policies


def test_another_from_under_a_known_message_id_is_a_collision(intake):
    assert counted(mail(intake, letter() + letter(sender="mallory@example.test"))) == {
        "first_seen": 1,
        "collisions": 1,
    }
    assert counted(mail(intake, letter(body="Later\n"))) == {"changed": 1}


def test_a_head_whose_row_is_gone_cannot_be_compared_so_a_change_is_a_collision(intake):
    mail(intake, letter())
    with intake.store.write() as db:
        db.execute("DELETE FROM letter")
    assert counted(mail(intake, letter(body="Bye\n"))) == {"collisions": 1}


def test_a_changed_webhook_is_a_collision(intake):
    assert counted(hooks(intake, hook() + hook(body="{ }"))) == {"first_seen": 1, "collisions": 1}


def test_body_and_body_base64_of_the_same_bytes_are_the_same(intake):
    same = hook(body=None, body_base64=base64.b64encode('{"ü": 1}'.encode()).decode())
    assert counted(hooks(intake, hook(body='{"ü": 1}') + same)) == {"first_seen": 1, "redelivered": 1}
    assert intake.store.read("SELECT body FROM delivery") == [('{"ü": 1}'.encode(),)]


VOLATILE = ("attempt", "meta.sent_at")


def again(body, **more):
    """A delivery, and the same one with the body."""
    first = '{"amount": 5, "attempt": 1, "meta": {"sent_at": 1, "by": "x"}, "of": [1, 2]}'
    return hook(body=first, **more) + hook(body=body, **more)


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ('{"amount": 5, "attempt": 2, "meta": {"sent_at": 9, "by": "x"}, "of": [1, 2]}', "redelivered"),
        ('{"of":[1,2],"meta":{"by":"\\u0078"},"amount":5}', "redelivered"),
        ('{"amount": 6, "attempt": 1, "meta": {"sent_at": 1, "by": "x"}, "of": [1, 2]}', "collisions"),
        ('{"amount": 5, "attempt": 1, "meta": {"sent_at": 1, "by": "y"}, "of": [1, 2]}', "collisions"),
        ('{"amount": 5, "attempt": 1, "meta": {"sent_at": 1, "by": "x"}, "of": [2, 1]}', "collisions"),
        ('{"amount": "5", "attempt": 1, "meta": {"by": "x"}, "of": [1, 2]}', "collisions"),
        ('{"amount": 5.0, "attempt": 1, "meta": {"by": "x"}, "of": [1, 2]}', "collisions"),
        ('{"amount": 5, "meta": {"by": "x", "attempt": 1}, "of": [1, 2]}', "collisions"),
        ('{"amount": 5, "meta": {"by": "x"}, "meta.sent_at": 1, "of": [1, 2]}', "collisions"),
        ('{"amount": 5, "meta": [{"sent_at": 1}], "of": [1, 2]}', "collisions"),
        ('{"amount": 5, "meta": "sent_at", "of": [1, 2]}', "collisions"),
    ],
)
def test_volatile_fields_are_no_content_and_all_others_are(intake, body, finding):
    assert counted(hooks(intake, again(body), volatile=VOLATILE)) == {"first_seen": 1, finding: 1}


def test_without_volatile_fields_every_attempt_is_a_collision(intake):
    body = '{"amount": 5, "attempt": 2, "meta": {"sent_at": 1, "by": "x"}, "of": [1, 2]}'
    assert counted(hooks(intake, again(body))) == {"first_seen": 1, "collisions": 1}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("attempt=1", "it is not JSON"),
        ("", "it is not JSON"),
        ("\ufeff{}", "it is not JSON"),
        ("{} {}", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ('{"a": ' + "9" * 5_000 + "}", "it is not JSON"),
        ("[1]", "it is not an object"),
        ("null", "it is not an object"),
        ('{"attempt": 1, "attempt": 1}', "a field is duplicated"),
        ('{"meta": {"sent_at": 1, "sent_at": 1}}', "a field is duplicated"),
        ('{"amount": NaN}', "NaN is not a JSON number"),
        ('{"amount": -Infinity}', "-Infinity is not a JSON number"),
        ('{"amount": 12345678901234567.89}', "a number has too many digits"),
        ('{"amount": 1e400}', "a number has too many digits"),
        ('{"amount": 1e99999999999999999999}', "it is not JSON"),
    ],
    ids=lambda value: value[:40],
)
def test_a_body_without_fields_is_compared_by_its_bytes_and_reported(intake, body, why):
    report = hooks(intake, hook(body=body) * 2 + hook(body=body + " "), volatile=VOLATILE)
    assert counted(report) == {"first_seen": 1, "redelivered": 1, "collisions": 1, "doubtful": 3}
    text = f"its body has no fields to leave out ({why}); compared by its bytes"
    assert report.named[0] == Doubtful("line 1", text)
    assert counted(hooks(intake, hook(id="2", body=body))) == {"first_seen": 1}


def test_bytes_that_are_no_text_are_compared_as_they_are(intake):
    report = hooks(intake, hook(body=None, body_base64="/w=="), volatile=VOLATILE)
    assert counted(report) == {"first_seen": 1, "doubtful": 1}


def test_numbers_that_a_float_rounds_never_meet(intake):
    amounts = ["0.1", "0.10", "1e2", "100.0", "-0.0", "12345678901234567.89", "12345678901234567.88"]
    digests = {content_digest(b'{"a": %s}' % one.encode(), (("b",),))[0] for one in amounts}
    assert len(digests) == 5  # 0.1 is 0.10, and 1e2 is 100.0


@pytest.mark.parametrize("volatile", ["attempt", [""], ["a..b"], [".a"], ["a."], [1], ["a" * 129], ["a\nb"]])
def test_a_volatile_name_that_is_none_is_refused_before_anything_is_read(volatile):
    with pytest.raises(WrongArgument, match="volatile"):
        webhooks.webhooks(io.BytesIO(), "acme", volatile)


def test_the_command_leaves_volatile_fields_out(tmp_path, capsys):
    file, db = tmp_path / "mine.jsonl", tmp_path / "my.db"
    file.write_bytes(again('{"amount": 5, "meta": {"by": "x"}, "of": [1, 2]}'))
    assert lab(file, "--db", db, "--volatile", "attempt", "--volatile", "meta.sent_at") == 0
    assert "redelivered            1" in capsys.readouterr().out
    with pytest.raises(command.Unusable, match="give another --volatile"):
        lab(file, "--db", db, "--volatile", "a..b")
    with pytest.raises(command.Unusable, match="--volatile is for JSON Lines"):
        lab(INBOX, "--db", db, "--volatile", "attempt")


def test_a_webhooks_id_is_its_sources_own(intake):
    assert counted(hooks(intake, hook() + hook(source="parcels"))) == {"first_seen": 2}


@pytest.mark.parametrize(
    "rewritten",
    [
        letter("Received: from mx", "X-Spam: 1", "DKIM-Signature: v=1", "Status: RO"),
        letter().replace(b"\n", b"\r\n"),
        letter() + b"\n\n\n",
        letter().replace(b"From: ana", b"from:\n\tana"),
        letter().rstrip(b"\n"),
    ],
    ids=["provider headers", "CRLF", "empty lines at the end", "folded", "no end of line"],
)
def test_what_providers_rewrite_does_not_change_a_letter(intake, rewritten):
    assert counted(mail(intake, letter())) == {"first_seen": 1}
    assert counted(mail(intake, rewritten)) == {"redelivered": 1}


@pytest.mark.parametrize(
    "changed",
    [
        letter("Subject: other"),
        letter("Cc: ben@example.test"),
        letter(body="Hello \n"),
        letter(body="\nHello\n"),
        letter(body="Hel\rlo\n"),
    ],
)
def test_any_other_change_counts(intake, changed):
    assert counted(mail(intake, letter() + changed)) == {"first_seen": 1, "changed": 1}


def test_a_letter_without_message_id_is_known_by_its_stable_parts(intake):
    data = letter(key="") + letter("Received: from mx", key="") + letter(body="Other\n", key="")
    assert counted(mail(intake, data)) == {"first_seen": 2, "redelivered": 1}
    assert counted(mail(intake, letter("Message-ID:", key=""))) == {"redelivered": 1}


def test_an_erased_letter_is_counted_and_nothing_is_written(intake):
    mail(intake, letter())
    intake.erase_identity("explicit", "acme", "inbox", "<1@example.test>", now=5)
    before = dump(intake.store.path)
    assert counted(mail(intake, letter() + letter(body="Bye\n"), now=6)) == {"erased": 2}
    assert dump(intake.store.path) == before


def test_forget_takes_the_domain_rows_of_what_was_erased_and_no_other(intake):
    secret = "Subject: a very secret subject"
    mail(intake, letter(secret) + letter(key="<2@example.test>"))
    hooks(intake, hook())
    intake.erase_identity("explicit", "acme", "inbox", "<1@example.test>", now=5)
    assert forget(intake.store, Letter, Webhook) == 1
    assert forget(intake.store, Letter, Webhook) == 0
    assert intake.scrub().done
    assert intake.store.read("SELECT count(*) FROM letter UNION ALL SELECT count(*) FROM delivery") == [
        (1,),
        (1,),
    ]
    intake.store.close()
    assert b"very secret" not in b"".join(
        path.read_bytes() for path in intake.store.path.parent.glob("receipts.db*")
    )


def lived_through(store):
    """A file in which every table has rows of the tenant acme, and of another tenant in the same namespace."""
    intake = Intake(store)
    for tenant in ("acme", "umbrella"):
        source = [
            *letters(
                io.BytesIO(letter("Subject: SECRET subject", sender="SECRET@example.test")), tenant, "SHARED"
            ),
            *letters(io.BytesIO(letter(body="Bye\n", sender="else@example.test")), tenant, "SHARED"),
            *webhooks.webhooks(io.BytesIO(hook(id="SECRET-id", source="SECRET-source")), tenant),
        ]
        take_in(store, intake, source, now=0, processors=[("index", "1"), ("fails", "1"), ("bare", "1")])

    def fails(item, beat):
        raise Failure("SECRET error", f"SECRET detail {item['key']}")

    for processor, handle in (("index", lambda item, beat: f"SECRET {item['key']}"), ("fails", fails)):
        more = {"clock": lambda: 100, "sleep": lambda wait: None}
        Worker(store, processor, "worker", Policy(max_attempts=1), handle, **more).run("drained")
    work = Work(store)
    for namespace in ("SHARED", "SECRET-source"):
        for claim in work.next(namespace, "bare", "worker", 10, 1_000, 3, 100).claims:
            work.complete(claim.work, claim.fence, "SECRET reference", 100)
    work.acquire("SECRET-source", "index", "worker", 200)
    return intake


def test_after_an_erasure_no_table_has_a_trace_of_the_tenant(tmp_path):
    """Every table that the command makes is searched, so that a new one cannot be forgotten."""
    with Store.create(tmp_path / "my.db", command.SCHEMA) as store:
        intake = lived_through(store)
        [tables] = zip(*store.read("SELECT name FROM sqlite_schema WHERE type = 'table'"), strict=True)
        empty = [table for table in tables if not store.read(f"SELECT 1 FROM {table} LIMIT 1")]
        assert not empty, "let lived_through() fill them, or this test says nothing about them"
        gone = [identity for (identity,) in store.read("SELECT identity FROM receipt WHERE tenant = 'acme'")]
        assert {"letter.identity", "delivery.identity", "result.identity"} < set(traces(store, gone))
        assert intake.erase_tenant("acme", now=300).erased == 2
        assert forget(store, Letter, Webhook) == 5
        assert traces(store, ["acme"]) == []
        assert traces(store, gone) == ["outbox.subject", "receipt.identity"]
        assert store.read("SELECT DISTINCT topic FROM outbox WHERE subject IN (?, ?)", gone) == [("erased",)]
        assert store.read("SELECT count(*) FROM letter UNION ALL SELECT count(*) FROM result") == [(2,), (2,)]
        intake.erase_tenant("umbrella", now=400)
        forget(store, Letter, Webhook)
        assert intake.scrub().done
    found = b"".join(path.read_bytes() for path in tmp_path.glob("my.db*"))
    assert not re.findall(rb"acme|umbrella|SECRET|SHARED|example", found)


def test_what_is_erased_after_its_tombstone_went_leaves_nothing_either(tmp_path):
    with Store.create(tmp_path / "my.db", command.SCHEMA) as store:
        intake, work = lived_through(store), Work(store)
        assert work.discard_dead(0, 100, 100).discarded == 4
        assert intake.sweep(9, batches.RETAIN).compacted == 4
        assert intake.sweep(9, batches.TOMBSTONE).removed == 4
        assert store.read("SELECT count(*) FROM receipt") == [(0,)]
        assert traces(store, ["SHARED", "acme"]) == []
        gone = identity_of("explicit", "acme", "SHARED", "<1@example.test>")
        assert {"effect.identity", "outbox.subject"} < set(traces(store, [gone]))
        intake.erase_identity("explicit", "acme", "SHARED", "<1@example.test>", now=3_000)
        forget(store, Letter, Webhook)
        assert traces(store, [gone]) == ["outbox.subject", "receipt.identity"]


def test_forget_follows_an_erasure_that_was_applied_by_its_digest(intake):
    hooks(intake, hook())
    intake.erase_digest(identity_of("explicit", "acme", "payments", "evt-1"), now=5)
    assert forget(intake.store, Letter, Webhook) == 1


def test_past_its_tombstone_a_letter_is_first_seen_and_has_a_second_row(intake):
    mail(intake, letter())
    intake.sweep(limit=9, now=batches.RETAIN)
    assert counted(mail(intake, letter(), now=batches.RETAIN)) == {"redelivered": 1}
    intake.sweep(limit=9, now=batches.TOMBSTONE)
    assert counted(mail(intake, letter(), now=batches.TOMBSTONE)) == {"first_seen": 1}
    assert intake.store.read("SELECT revision FROM letter") == [(1,), (1,)]


# Broken input


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (DATED + b"\nonly a body\n\n", "it has no headers at all"),
        (DATED + b"", "it has no headers at all"),
        (DATED + b"this is no header\n\n", "a line among its headers is not a header"),
        (DATED + b" folded at once\n\n", "a line among its headers is not a header"),
        (DATED + b"From: a\n: no name\n\n", "a line among its headers is not a header"),
        (DATED + b"Subject: " + b"s" * mailbox.MAX_HEADERS + b"\n\n", "its headers have over 262,144 bytes"),
        (letter(sender="a" * 4_097), "From has over 4,096 characters"),
        (letter("Content-Type: multipart/" + ";" * 4_097), "Content-Type has over 4,096 bytes"),
        (letter(key="k" * 1_025), "key must have 1 to 1024 bytes in UTF-8, it has 1025"),
        (letter(key="<a\x00b>"), "Message-ID has a control character (U+0000)"),
        (letter(key="<a\x0bb>"), "Message-ID has a control character (U+000B)"),
        (letter(key="<\udcff>"), "its Message-ID is not UTF-8"),
        (letter("Message-ID: <2@example.test>"), "it has two Message-IDs"),
        (letter("Content-Type: multipart/mixed"), "it is multipart and names no boundary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_letter_is_named_and_the_rest_goes_on(intake, broken, why):
    before, after = letter(key="<before>"), letter(key="<after>")
    report = mail(intake, before + broken.rstrip(b"\n") + b"\n\n" + after)
    assert report.named == [Broken(f"message 2 at byte {len(before)}", why)]
    assert counted(report) == {"first_seen": 2, "broken": 1}


def test_what_stands_before_the_first_message_is_reported(intake):
    report = mail(intake, b"junk\n\n" + letter())
    assert [one.place for one in report.named] == ["byte 0"]
    assert counted(report) == {"first_seen": 1, "broken": 1}
    assert counted(mail(intake, b"\n\r\n" + letter())) == {"redelivered": 1}
    assert counted(mail(intake, b"")) == {}


@pytest.mark.parametrize(
    ("subject", "kept"),
    [
        ("=?utf-8?b?4oKs?=", "€"),
        ("=?no-such-charset?q?abc?=", "=?no-such-charset?q?abc?="),
        ("=?utf-8?b?!!!?=", None),
        ("=?utf-8?q?=ff?=", None),
        ("=?unicode_escape?q?=5Cud800?=", None),
        ("=?zlib?b?AAAA?=", None),
        ("\udcff\udcfe", "\\xff\\xfe"),
        ("s" * 5_000, "s" * 4_096),
    ],
)
def test_a_subject_in_a_broken_encoding_is_kept_somehow(intake, subject, kept):
    assert counted(mail(intake, letter(f"Subject: {subject}"))) == {"first_seen": 1}
    [(found,)] = intake.store.read("SELECT subject FROM letter")
    assert kept in (None, found)


def test_a_from_line_within_a_body_is_no_new_message(intake):
    assert counted(mail(intake, letter(body="Dear all\nFrom now on\n"))) == {"first_seen": 1}


SECOND = "Message-ID: <2@example.test>\nFrom: ben@example.test\n\nBye\n"
NO_LINE = "its 'From ' line has no empty line before it; taken as the start of a letter"
NO_DATE = "its 'From ' line has no date; taken as the start of a letter"


def text_at(byte, count=1):
    return f"lines of its text begin with 'From ' ({count}, the first at byte {byte}); taken as text"


START = len(letter(body="Dear all\n")) - 1  # where the line after "Dear all" begins


@pytest.mark.parametrize(
    ("after", "taken", "finding"),
    [
        (f"\n{SEPARATOR}\n{SECOND}", 2, ""),
        (f"\n\n\n{SEPARATOR}\n{SECOND}", 2, ""),
        (f"\nFrom ana@example.test Mon, 3 Mar 2025 09:00:00 +0000\n{SECOND}", 2, ""),
        (f"\nFrom - Mon Mar  3 09:00 2025\n>{SEPARATOR}\n{SECOND}", 2, ""),
        (f"{SEPARATOR}\n{SECOND}", 2, NO_LINE),
        (f"{SEPARATOR}\n>From somebody\n{SECOND}", 2, NO_LINE),
        (f"\nFrom ben\n{SECOND}", 2, NO_DATE),
        (f"From ben\n{SECOND}", 1, text_at(START)),
        ("\nFrom now on all is well\nand so on\n", 1, text_at(START + 1)),
        (f"{SEPARATOR}\nhe wrote, and\n\n{SEPARATOR[:30]}\n\n", 1, text_at(START, 2)),
        ("From now on\nall is well\n", 1, ""),
        (f"\n>{SEPARATOR}\n{SECOND}", 1, ""),
        (f"\n From ben\n{SECOND}", 1, ""),
        (f"\n{'From '.ljust(PIECE, 'x')}more: of one long line\n", 1, text_at(START + 1)),
        (f"\n{SEPARATOR.ljust(PIECE)}\n{SECOND}", 2, ""),
    ],
)
def test_where_a_letter_begins_is_never_decided_in_silence(intake, after, taken, finding):
    report = mail(intake, letter(body="Dear all\n")[:-1] + after.encode())
    assert [one.why for one in report.named] == [finding] * bool(finding)
    assert counted(report) == {"first_seen": taken} | ({"doubtful": 1} if finding else {})


def test_a_finding_has_the_place_of_its_letter(intake):
    first, third = letter(body="Hello\nFrom now on\n")[:-1], letter(key="<3>")
    report = mail(intake, first + DATED + SECOND.encode() + b"\n" + third)
    assert report.named == [Doubtful(f"message 2 at byte {len(first)}", NO_LINE)]


def test_a_separator_without_headers_is_reported_and_takes_no_letter_along(intake):
    report = mail(intake, letter() + DATED + b"he wrote, and more\n\n" + letter(key="<3>"))
    assert report.named == [
        Broken(f"message 2 at byte {len(letter())}", "a line among its headers is not a header")
    ]
    assert counted(report) == {"first_seen": 2, "broken": 1}


def test_what_is_doubtful_within_a_broken_letter_is_reported_too(intake):
    broken = DATED + b"this is no header\n\nFrom now on\nand so on\n\n"
    report = mail(intake, broken + letter())
    assert [type(one) for one in report.named] == [Broken, Doubtful]
    assert counted(report) == {"first_seen": 1, "broken": 1, "doubtful": 1}


def test_a_quoted_separator_among_the_headers_is_left_out(intake):
    quoted = letter().replace(b"\nFrom:", b"\n>From postmaster Mon Mar  3 09:00:01 2025\nFrom:")
    assert quoted != letter()
    assert counted(mail(intake, letter() + quoted)) == {"first_seen": 1, "redelivered": 1}
    assert mail(intake, DATED + b">From ana\n\nHello\n").named[0].why == "it has no headers at all"


@pytest.mark.parametrize("body", ["--b\n\nHello\n", "--b\n\n--b-\n --b--\n"])
def test_a_multipart_letter_without_its_closing_boundary_is_taken_in_and_reported(intake, body):
    report = mail(intake, letter(CUT, body=body) + letter(key="<2>"))
    assert report.named == [Doubtful("message 1 at byte 0", UNCLOSED)]
    assert counted(report) == {"first_seen": 2, "doubtful": 1}
    whole = letter(CUT, body=body + "--b--\n")
    assert counted(mail(intake, whole)) == {"changed": 1}


@pytest.mark.parametrize("length", [1, 65_534, 65_535, 65_536, 65_537, 131_072])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n", "\r", "\r\r", "\n\r", "\nFrom y\n", "\n" * 70_000])
def test_the_digest_of_a_body_does_not_depend_on_where_its_lines_were_cut(length, end):
    text = "x" * length + end + "y" + end
    mbox = Mbox(io.BytesIO(letter(body=text)))
    assert next(mbox.messages()) == 0
    mbox.headers(1_000)
    canonical = (text + "\n").replace("\r\n", "\n").rstrip("\n") + "\n"
    assert mbox.body(b"")[0] == sha256(canonical)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"not json\n", "it is not JSON"),
        (b'{"id": "1"\n', "it is not JSON"),
        (b"[" * 100_000 + b"\n", "it is nested too deeply"),
        (b"9" * 5_000 + b"\n", "it is not JSON"),
        (b"\xff\n", "it is not UTF-8"),
        (b"[]\n", "it must be an object, not list"),
        (b"null\n", "it must be an object, not NoneType"),
        (b'{"id": "1", "id": "2", "source": "s", "body": ""}\n', "a field appears twice"),
        (b"x" * (webhooks.MAX_LINE + 1) + b"\n", "it is longer than 1,048,576 bytes"),
        (b"x" * (3 * webhooks.MAX_LINE) + b"\n", "it is longer than 1,048,576 bytes"),
        (hook(body=None), "it must have id, source, and either body or body_base64, and nothing else"),
        (hook(id=None), "it must have id, source, and either body or body_base64, and nothing else"),
        (hook(body_base64=""), "it must have id, source, and either body or body_base64, and nothing else"),
        (hook(more=1), "it must have id, source, and either body or body_base64, and nothing else"),
        (hook(id=7), "id must be a text, not int"),
        (hook(source=["s"]), "source must be a text, not list"),
        (hook(body=None, body_base64="a"), "body_base64 is not Base64"),
        (hook(body=None, body_base64="ü==="), "body_base64 is not Base64"),
        (hook(body=None, body_base64="YQ==!"), "body_base64 is not Base64"),
        (hook(body=None, body_base64="Y Q=="), "body_base64 is not Base64"),
        (hook(body="\ud800"), "body has a lone surrogate"),
        (hook(id="a\nb"), "id has a control character (U+000A)"),
        (hook(id="i" * 1_025), "key must have 1 to 1024 bytes in UTF-8, it has 1025"),
        (hook(id=""), "key must have 1 to 1024 bytes in UTF-8, it has 0"),
        (hook(id="\ud800"), "key has a lone surrogate at 0"),
        (hook(source="s" * 257), "namespace must have 1 to 256 bytes in UTF-8, it has 257"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_line_is_named_and_the_rest_goes_on(intake, broken, why):
    report = hooks(intake, b"\xef\xbb\xbf" + hook(id="before") + b"\r\n" + broken + hook(id="after"))
    assert report.named == [Broken("line 3", why)]
    assert counted(report) == {"first_seen": 2, "broken": 1}


def test_the_longest_headers_and_fields_pass(intake):
    head = b"From: " + b"a" * mailbox.MAX_FIELD + b"\nContent-Type: multipart/x; boundary=b; c="
    head += b"c" * (mailbox.MAX_FIELD - len(b"multipart/x; boundary=b; c=")) + b"\nX-Long: "
    head += b"x" * (mailbox.MAX_HEADERS - len(head) - 1) + b"\n"
    assert len(head) == mailbox.MAX_HEADERS
    assert counted(mail(intake, DATED + head + b"\n--b--\n")) == {"first_seen": 1}
    longer = mail(intake, DATED + b"X" + head + b"\n--b--\n")
    assert longer.named[0].why == "its headers have over 262,144 bytes"
    names = {"id": "i" * 1_024, "source": "s" * 256}
    assert counted(hooks(intake, hook(**names))) == {"first_seen": 1}


def test_work_is_never_done_on_the_body_of_a_collision(intake):
    """Not even where the row of the accepted one is gone and a collision has its number."""
    take = {"processors": [("index", "1")]}
    hooks(intake, hook(body="mine"), **take)
    [claim] = Work(intake.store).next("payments", "index", "worker", 1, 1_000, 3, 10).claims
    with intake.store.write() as db:
        db.execute("UPDATE delivery SET disposition = 'collision', body = x'00'")
    assert "body" not in item_of(intake.store, claim)


def test_the_longest_line_passes(intake):
    short = hook(body="")
    longest = hook(body="x" * (webhooks.MAX_LINE + 1 - len(short)))
    assert len(longest) == webhooks.MAX_LINE + 1
    assert counted(hooks(intake, longest[:-1] + b"\r\n")) == {"first_seen": 1}


PARTS = [
    b"From ", b"From x\n", b"\n", b"\r\n", b"\r", b"\n\n", b"Message-ID: <1>\n", b"Message-ID:", b"From: a\n",
    b"Content-Type: multipart/mixed; boundary=b\n", b"Content-Type: multipart/x; boundary*0*=u'x'%ff\n",
    b'Content-Type: multipart/x; boundary="', b"Content-Type:", b"; boundary*=x''%e4", b"--b--", b"--b\n",
    b"Subject: =?utf-8?b?", b"=?utf-16?q?=d8?=", b"?=", b" ", b"\t", b":", b'{"id": "1", "source": "s", ',
    b'"body": "', b'"}\n', b'"body_base64": "', b"\\ud800", b"{", b"\xff", b"\x00", b"x" * 70_000,
]  # fmt: skip
BYTES = st.lists(st.one_of(st.sampled_from(PARTS), st.binary(max_size=20)), max_size=25).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(BYTES)
@example(b"From x\nContent-Type: multipart/x; boundary*0*=''a; boundary*x=1\n\n")
def test_no_bytes_make_it_raise_anything(data):
    with Store.temporary(command.SCHEMA) as store:
        intake = Intake(store)
        for take in (mail, hooks, partial(hooks, volatile=("id", "a.b"))):
            once = take(intake, data)
            again = take(intake, data)
            assert sum(once.counts().values()) == sum(again.counts().values())
            assert again.first_seen == again.changed == again.collisions == 0
            assert again.named == once.named


# The command


def test_the_command_makes_a_fixture_then_opens_it_and_changes_nothing(tmp_path, capsys):
    db = tmp_path / "my.db"
    assert [lab(file, "--db", db) for file in (INBOX, DELIVERIES)] == [1, 1]
    out, err = capsys.readouterr()
    assert "first seen             4" in out
    assert err.splitlines() == [
        f"message 9 at byte 2366: {UNCLOSED}",
        "line 9: body must be a text, not dict; it was skipped",
    ]
    before = dump(db)
    assert [lab(file, "--db", db, "--now", 7, "--force") for file in (INBOX, DELIVERIES)] == [1, 1]
    assert "first seen             0" in capsys.readouterr().out
    assert dump(db) == before


def test_the_command_says_by_its_status_that_nothing_was_broken(tmp_path):
    file = tmp_path / "good.mbox"
    file.write_bytes(letter())
    assert lab(file, "--db", tmp_path / "my.db", "--tenant", "acme", "--now", 5) == 0
    with Store.open(tmp_path / "my.db") as store:
        assert store.read("SELECT tenant, namespace, changed_at FROM receipt") == [("acme", "good.mbox", 5)]


def test_the_command_says_how_many_more_were_skipped(tmp_path, capsys):
    file = tmp_path / "bad.jsonl"
    file.write_bytes(b"{\n" * 103)
    assert lab(file, "--db", tmp_path / "my.db") == 1
    err = capsys.readouterr().err.splitlines()
    assert (len(err), err[-1]) == (101, "3 more were skipped or are doubtful")


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        (b"", (), "begins neither as an mbox"),
        (b"Dear all,\n", (), "say --format"),
        (letter(), ("--tenant", ""), "tenant must not be empty; give another --tenant"),
        (letter(), ("--namespace", "n" * 257), "give another --namespace"),
        (hook(), ("--namespace", "n"), "leave --namespace out"),
    ],
)
def test_a_file_that_cannot_be_used_leaves_no_fixture_behind(tmp_path, data, more, message):
    file = tmp_path / "mine"
    file.write_bytes(data)
    with pytest.raises(command.Unusable, match=message):
        lab(file, "--db", tmp_path / "my.db", *more)
    assert not (tmp_path / "my.db").exists()


def test_a_file_that_is_not_there_or_a_folder_is_an_error_of_the_system(tmp_path):
    for file in (tmp_path / "missing", tmp_path):
        with pytest.raises(OSError):
            lab(file, "--db", tmp_path / "my.db")
    assert not (tmp_path / "my.db").exists()


def test_a_file_that_is_none_or_lacks_the_tables_is_left_as_it_is(tmp_path):
    other = tmp_path / "other.db"
    other.write_bytes(b"something else")
    with pytest.raises(FileRefused, match="not-sqlite"):
        lab(INBOX, "--db", other)
    assert other.read_bytes() == b"something else"
    Store.create(tmp_path / "plain.db", Work.SCHEMA).close()
    with pytest.raises(FileRefused, match="table letter"):
        lab(INBOX, "--db", tmp_path / "plain.db")
    with pytest.raises(command.Unusable, match="give two files"):
        lab(INBOX, "--db", INBOX)


@pytest.mark.parametrize("now", ["-1", "x", "1.5", str(batches.LATEST + 1), "9" * 5_000])
def test_a_time_that_is_none_is_turned_away_by_the_parser(tmp_path, capsys, now):
    with pytest.raises(SystemExit) as ended:
        lab(INBOX, "--db", tmp_path / "my.db", f"--now={now}")
    assert ended.value.code == 2
    assert "must be an integer from 0 to" in capsys.readouterr().err


def test_a_format_that_is_said_is_not_guessed(tmp_path, capsys):
    assert lab(DELIVERIES, "--db", tmp_path / "my.db", "--format", "mbox") == 1
    assert "byte 0: this is no message" in capsys.readouterr().err


def test_a_terminal_gets_a_bar(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert lab(INBOX, "--db", tmp_path / "my.db") == 1
    assert "taking in" in capsys.readouterr().err


# Memory


HUGE = """
import sys
from receiptlab.examples.batches import take_in
from receiptlab.cli.intake_command import SCHEMA
from receiptlab.examples.mailbox import letters
from receiptlab.contracts.intake.intake import Intake
from receiptlab.store import Store
with open(sys.argv[1], "rb") as file, Store.create(sys.argv[2], SCHEMA) as store:
    print(take_in(store, Intake(store), letters(file, "acme", "inbox"), now=0).first_seen)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_two_hundred_megabytes_of_mail_need_less_than_a_hundred_and_fifty(tmp_path):
    """One letter has an attachment of 50 MB, and one a line of 10 MB."""
    line = base64.b64encode(bytes(57)) + b"\n"
    file, number = tmp_path / "huge.mbox", 0
    with open(file, "wb") as out:
        while out.tell() < 200_000_000:
            size = {5: 50_000_000, 6: 10_000_000}.get(number, 50_000)
            body = b"x" * size + b"\n" if number == 6 else line * (size // len(line))
            head = letter(CUT, key=f"<{number}>", body="--b\n").rstrip(b"\n")
            out.write(head + b"\n\n" + body + b"--b--\n\n")
            number += 1
    try:
        run = [sys.executable, "-c", HUGE, str(file), str(tmp_path / "huge.db")]
        done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    finally:
        file.unlink()
    assert done.stderr == ""
    taken, peak = map(int, done.stdout.split())
    assert taken == number
    assert peak < 150_000


@pytest.mark.parametrize(
    "header",
    [
        "Subject: =?é?q?x?=",
        "Subject: =?utf-8?q?=00x?=",
        "Content-Type: multipart/mixed; boundary*=undefined''x",
        "Content-Type: multipart/mixed; boundary*=idna''x",
        "Content-Type: multipart/mixed; boundary*=a\x00b''x",
        "Content-Type: multipart/mixed; boundary*0=x; boundary*=y; boundary*1*=z",
    ],
)
def test_a_header_that_the_library_cannot_read_stops_nobody_else(intake, header):
    good = letter(key="<good@example.test>")
    report = mail(intake, letter(header, key="<odd@example.test>") + good)
    assert report.first_seen + report.broken == 2
    assert report.first_seen >= 1


def test_an_mbox_behind_a_byte_order_mark_is_told_and_not_half_read(tmp_path, capsys):
    path = tmp_path / "bom.mbox"
    path.write_bytes(b"\xef\xbb\xbf" + letter())
    with pytest.raises(LabError, match="begins neither"):
        lab(path, "--db", str(tmp_path / "my.db"))
    assert not (tmp_path / "my.db").exists()
