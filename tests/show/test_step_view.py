"""What a step did to the rows, and the walk through a run: its list and its picture."""

import html
import json
import re
import sqlite3
from dataclasses import replace

import pytest

from receiptlab import show
from receiptlab.experiment.row_diff import SHOWN, Rows
from receiptlab.experiment.run import Change
from receiptlab.lesson import case, scenario
from tests.runs import all_runs


@pytest.fixture
def db():
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, word TEXT, rest BLOB)")
        yield db


def told(changes):
    return [(change.table, change.what, change.key, change.row, change.was) for change in changes]


def test_added_changed_and_removed_rows_are_told_apart(db):
    rows = Rows()
    assert rows.changes({"": db}) == ()
    db.execute("INSERT INTO kept VALUES (1, 'one', NULL), (2, 'two', x'6869')")
    assert told(rows.changes({"": db})) == [
        ("kept", "added", "id 1", {"id": 1, "word": "one"}, {}),
        ("kept", "added", "id 2", {"id": 2, "word": "two", "rest": "hi"}, {}),
    ]
    db.execute("UPDATE kept SET word = 'first' WHERE id = 1")
    db.execute("DELETE FROM kept WHERE id = 2")
    assert told(rows.changes({"": db})) == [
        ("kept", "changed", "id 1", {"word": "first"}, {"word": "one"}),
        ("kept", "removed", "id 2", {}, {"id": 2, "word": "two", "rest": "hi"}),
    ]
    assert rows.changes({"": db}) == ()


def test_a_value_that_went_away_is_reported(db):
    rows = Rows()
    db.execute("INSERT INTO kept VALUES (1, 'one', NULL)")
    rows.changes({"": db})
    db.execute("UPDATE kept SET word = NULL")
    assert told(rows.changes({"": db})) == [("kept", "changed", "id 1", {"word": None}, {"word": "one"})]


def test_many_rows_are_counted_and_long_values_cut(db):
    rows = Rows()
    db.executemany("INSERT INTO kept VALUES (?, ?, NULL)", [(n, "x" * 200) for n in range(100)])
    changes = rows.changes({"": db})
    assert changes[-1] == Change("kept", "more", f"{100 - SHOWN} more rows of this table")
    assert len(changes) == SHOWN + 1
    assert changes[0].row["word"] == "x" * 80 + "… (200 characters)"


@pytest.mark.parametrize("more", [0, 1])
def test_one_row_too_many_is_counted(db, more):
    rows = Rows()
    db.executemany("INSERT INTO kept VALUES (?, NULL, NULL)", [(n,) for n in range(SHOWN + more)])
    assert [change.what for change in rows.changes({"": db})] == ["added"] * SHOWN + ["more"] * more


def test_two_files_are_kept_apart(db):
    rows, other = Rows(), sqlite3.connect(":memory:")
    other.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY)")
    other.execute("INSERT INTO kept VALUES (1)")
    assert [change.table for change in rows.changes({"": db, "copy": other})] == ["copy: kept"]
    other.close()


REFUSALS = {
    ("receiver", "apply"): {"refusal"},  # a receiver writes down whom it refused (S-4)
    ("relay", "send"): {"receiver: refusal", "relay"},  # the same, and the sender what it was told
    # the file of this step is another one: the backup took its place, and then it could not be opened
    ("retention", "restore_beside_wal"): {"effect", "receipt"},
    # its rows were staged between two steps, to have a handle of another store
    ("intake", "stage_collision with a foreign handle"): {"receipt", "revision", "outbox"},
}


def test_what_is_refused_invalid_or_failed_changes_no_row():
    looked = 0
    for run in all_runs():
        for step in run.steps:
            if step.changes is not None and step.outcome in ("refused", "invalid", "failed"):
                looked += 1
                touched = {change.table for change in step.changes}
                assert touched <= REFUSALS.get((run.contract, step.call), set()), (run.name, step.number)
    assert looked > 200


def test_every_run_that_counts_tells_its_rows():
    told = 0
    for run in all_runs():
        for step in run.steps:
            if step.counts and run.name != "two-keys-at-once":  # which key is first is chance
                assert step.changes is not None, run.name
                told += len(step.changes)
                assert not any("sqlite_" in change.table for change in step.changes), run.name
    assert told > 1_000


# The walk


def test_the_page_lists_the_steps_beside_the_picture_and_is_the_same_each_time():
    run = case("O-06-lease-replaced")
    page = show.steps(run).page
    assert page == show.steps(run).page
    items = re.findall(r"<li id=\"([^\"]+)\">(.*?)</li>", page, re.S)
    assert len(items) == len({name for name, _ in items}) == len(run.steps)
    assert "holder <s>worker-a</s> → <b>worker-b</b>" in items[2][1]
    assert "4. worker-a: accept key-1, fence 1 → " in items[3][1] and "refused: fence" in items[3][1]
    assert "No row changed." in items[3][1] and "+ <b>receipt</b>" in items[4][1]
    assert page.count("<svg") == 1 and "<desc>another worker has claimed" in page


def test_each_step_has_its_place_in_the_picture():
    run = case("O-06-lease-replaced")
    rows = json.loads(html.unescape(re.search(r'data-rows="([^"]+)"', show.steps(run).page)[1]))
    assert len(rows) == len(run.steps)
    assert all(top < bottom for top, bottom in rows)
    assert [top for top, _ in rows] == sorted(top for top, _ in rows)
    assert rows[-1][1] <= float(re.search(r'height="([\d.]+)"', show.timeline(run).svg)[1])


def test_a_run_without_rows_says_so():
    assert "The rows were not compared here." in show.steps(scenario("created-once")).page


def test_a_run_without_steps_is_refused():
    run = case("O-06-lease-replaced")
    with pytest.raises(ValueError, match="has no steps"):
        show.steps(replace(run, steps=()))


def test_names_from_a_case_are_text_and_not_markup():
    run = case("O-06-lease-replaced")
    nasty = "<script>alert(1)</script>"
    change = Change(nasty, "changed", nasty, {nasty: nasty}, {nasty: None})
    step = replace(
        run.steps[0], actor=nasty, anomaly=nasty, note=nasty, args={nasty: nasty}, changes=(change,)
    )
    shown = show.steps(replace(run, steps=(step,)))
    assert nasty not in shown.page
