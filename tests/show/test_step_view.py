"""What a step did to the rows, and the walk through a run: as a widget, and without a kernel."""

import sqlite3
from dataclasses import replace

import pytest

from receiptlab import show
from receiptlab.experiment.row_diff import SHOWN, Rows
from receiptlab.experiment.run import Change
from receiptlab.lesson import case, scenario
from receiptlab.show.step_widget import walk
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


def test_a_value_that_went_away_is_told(db):
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


def test_the_page_is_a_table_and_a_picture_and_the_same_each_time():
    run = case("O-06-lease-replaced")
    page = show.steps(run).page
    assert page == show.steps(run).page
    assert page.count("<table") == 1 and page.count('alt="another worker has claimed') == 1
    assert "work: 1 changed; receipt: 1 added; outbox: 1 added" in page


def test_a_step_tells_call_outcome_and_rows():
    shown = show.steps(case("O-06-lease-replaced"))
    assert "<b>worker-b</b> calls <b>claim</b>" in shown.call(3)
    assert "holder <s>worker-a</s> → <b>worker-b</b>" in shown.rows(3)
    assert "refused" in shown.call(4) and "fence" in shown.call(4)
    assert shown.rows(4) == "<p>No row changed.</p>"
    assert "+ added" in shown.rows(5)


def test_a_run_without_rows_says_so():
    run = scenario("created-once")
    assert show.steps(run).rows(1) == "<p>The rows were not compared here.</p>"


def test_each_step_has_its_own_picture():
    shown = show.steps(case("O-06-lease-replaced"))
    assert len({shown.picture(number) for number in range(1, 6)}) == 5
    assert shown.picture(5) in shown.page


def test_the_timeline_grows_on_the_same_ground():
    run = case("O-06-lease-replaced")
    first, all_of_it = show.timeline(run, until=1).svg, show.timeline(run, until=5).svg
    assert "refused" not in first and "refused" in all_of_it
    size = [line for line in first.splitlines() if "viewBox" in line]
    assert size == [line for line in all_of_it.splitlines() if "viewBox" in line]


def test_the_widget_moves_between_its_ends():
    box = walk(show.steps(case("O-06-lease-replaced")))
    first, back, forward, last, place, slider = box.children[0].children
    assert [button.tooltip for button in (first, back, forward, last)] == [
        "first step",
        "previous step",
        "next step",
        "last step",
    ]
    seen = []
    for button in (back, forward, last, forward, back, first):
        button.click()
        seen.append(place.value)
    assert seen == [f"step {n} of 5" for n in (1, 2, 5, 5, 4, 1)]
    slider.value = 4
    assert place.value == "step 4 of 5"
    assert "fence" in box.children[1].value and "No row changed" in box.children[3].value
    assert "<img" in box.children[2].value


def test_names_from_a_case_are_text_and_not_markup():
    run = case("O-06-lease-replaced")
    nasty = "<script>alert(1)</script>"
    change = Change(nasty, "changed", nasty, {nasty: nasty}, {nasty: None})
    step = replace(
        run.steps[0], actor=nasty, anomaly=nasty, note=nasty, args={nasty: nasty}, changes=(change,)
    )
    shown = show.steps(replace(run, steps=(step,)))
    assert nasty not in shown.page + shown.call(1) + shown.rows(1)
