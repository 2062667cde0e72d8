"""Tables and pictures: the same each time, with what they must show."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from receiptlab import Experiment, Work, show
from receiptlab.experiment.library import own_cases
from receiptlab.lesson import case, scenario
from receiptlab.outcomes import WORDS
from receiptlab.scenarios.ablation_matrix import ablate, label
from receiptlab.show.palette import COLOURS, INKS, MARKS

LESSONS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def words_in(picture):
    return [node.text for node in ET.fromstring(picture.svg).iter("{http://www.w3.org/2000/svg}text")]


def owner_matrix():
    ablation = ablate("owner")
    marks = [{(label(guard), name) for guard, name in pairs} for pairs in (ablation.noticed, ablation.named)]
    return show.matrix([label(guard) for guard in ablation.guards], ablation.cases, *marks)


def test_every_outcome_has_its_own_colour_and_mark():
    for known in (COLOURS, INKS, MARKS):
        assert set(known) == set(WORDS)
        assert len(set(known.values())) == len(WORDS)
    assert not any(mark.isalnum() for mark in MARKS.values())


@pytest.mark.parametrize("own", own_cases(), ids=lambda own: own.name)
def test_every_case_can_be_tabled(own):
    run = case(own.name)
    assert len(show.table(run).frame) == len(run.steps)


def test_pictures_and_tables_are_the_same_each_time():
    assert (
        show.timeline(case("O-04-same-key-two-connections")).svg
        == show.timeline(case("O-04-same-key-two-connections")).svg
    )
    assert show.table(case("O-13-fence")).html == show.table(case("O-13-fence")).html
    assert owner_matrix().svg == owner_matrix().svg


def test_nothing_in_an_output_changes_from_machine_to_machine():
    for text in (
        show.timeline(case("O-13-work")).svg,
        show.table(case("O-13-work")).html,
        repr(show.table(case("O-13-work"))),
    ):
        assert not re.search(r"0x[0-9a-f]{6,}|/tmp|<dc:date>", text)


def test_a_table_has_a_column_for_each_count_that_changes():
    run = scenario("two-owners-of-one-lease")
    frame = show.table(run).frame
    shown = [name for name in run.count_names if name in frame]
    assert len({step.counts for step in run.steps}) > 1 and "copy: results" in shown
    for number, name in enumerate(run.count_names):
        values = [step.counts[number] for step in run.steps]
        assert list(frame[name]) == values if name in shown else len(set(values)) == 1


def test_the_table_shows_deciding_arguments_and_answers():
    frame = show.table(case("O-07-same-holder-wrong-fence")).frame
    assert list(frame) == ["#", "actor", "call", "now", "answer", "results", "receipts", "outbox"]
    assert list(frame.iloc[3]) == [4, "worker-a", "accept key-1, fence 1", "180", "✕ refused: fence", 0, 0, 0]


def test_a_table_without_counts():
    frame = show.table(case("O-07-same-holder-wrong-fence"), counts=False).frame
    assert list(frame) == ["#", "actor", "call", "now", "answer"]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_no_picture_in_a_lesson_is_wider_than_a_page(lesson):
    """760 pixels, which JupyterLab shows without shrinking them; a point is 4/3 pixels."""
    for cell in json.loads(lesson.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            svg = "".join(output.get("data", {}).get("image/svg+xml", ""))
            for number, unit in re.findall(r'<svg[^>]*? width="([\d.]+)(pt)?"', svg):
                assert float(number) * (4 / 3 if unit else 1) <= 760, cell["id"]


def test_a_call_that_took_nothing_is_not_accepted():
    with Experiment(Work, "nothing to do", namespace="mail", processor="index") as lab:
        [worker] = lab.actors("worker")
        worker.next(limit=1, hold_for=10, max_attempts=3, now=0)
    assert list(show.table(lab.run).frame["answer"]) == ["○ no item"]


def test_the_matrix_is_a_diagonal_of_guards_and_cases():
    drawn = owner_matrix()
    assert "accept fence" in words_in(drawn) and "O-07-same-holder-wrong-fence" in drawn.words
    squares = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"[^>]+fill="#D55E00"', drawn.svg)
    first = {}
    for x, y in squares:
        first[float(x)] = min(float(y), first.get(float(x), 1e9))
    tops = [first[x] for x in sorted(first)]
    assert len(tops) > 60 and tops == sorted(tops), "the first square of each column never goes up"
    assert float(re.search(r'width="(\d+)"', drawn.svg)[1]) <= 760


def test_a_guard_that_is_not_named_or_not_noticed_is_drawn_differently():
    drawn = show.matrix(
        ["a", "b"], ["one", "two"], {("a", "one"), ("b", "two")}, {("a", "one"), ("a", "two")}
    )
    assert drawn.svg.count('fill="#D55E00"') == 1 and drawn.svg.count('stroke="#D55E00"') == 1
    assert drawn.svg.count('stroke-width="2"') == 2, "a cross"


def test_texts_of_a_user_are_not_taken_as_markup(tmp_path):
    run = case("O-13-fence")
    nasty = replace(
        run, title="<script>alert(1)</script> $x^2$", steps=(replace(run.steps[0], actor="<b>$\\frac{}{}$"),)
    )
    assert "<script>" not in show.table(nasty).html
    assert "<b>" not in show.table(nasty).html
    assert "<b>$\\frac{}{}$" in words_in(show.timeline(nasty))


def test_what_was_found_is_shown():
    run = case("I-03-seen-changed-and-seen-again")
    assert list(show.table(run).frame["answer"])[:5] == [
        "○ first-seen",
        "✓ accepted: first-seen",
        "○ redelivered",
        "○ changed",
        "✓ accepted: changed",
    ]
