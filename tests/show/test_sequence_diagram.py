"""The sequence diagram: what it shows of each kind of step, and that it can be read."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from receiptlab import Experiment, Owner, show
from receiptlab.experiment.library import own_cases
from receiptlab.interleaving.explorer import Explorer
from receiptlab.lesson import case, scenario
from receiptlab.scenarios import interleaving_rows, interleavings
from receiptlab.show import palette, picture, words

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn):
    return [node.text for node in ET.fromstring(drawn.svg).iter(f"{SVG}text")]


def drawn(name):
    return texts(show.timeline(case(name)))


def test_calls_show_the_arguments_that_decide_and_answers_the_outcome():
    shown = drawn("O-06-lease-replaced")
    for expected in (
        "accept key-1, fence 1",
        "refused: fence",
        "accept key-2, fence 2",
        "accepted: receipt 1",
    ):
        assert expected in shown
    assert not any("policy" in text for text in shown), "it is the same in every call"
    assert "given: operator: add order-17" in shown
    assert {"worker-a", "worker-b", "database"} <= set(shown)


def test_contents_are_shown_only_where_they_decide():
    assert any("result 400a…" in text for text in drawn("O-13-result-digest"))
    assert not any("result 400a…" in text for text in drawn("O-06-lease-replaced"))


def test_the_database_shows_what_a_step_added():
    shown = drawn("O-02-answer-lost")
    assert [text for text in shown if text.startswith("+")] == ["+ result", "+ receipt", "+ message"]
    assert shown.count("unchanged") == 1, "the replay"
    assert "epoch 1 → 2" in drawn("O-10-stale-epoch")


def test_damage_is_named_and_never_green():
    shown = show.timeline(scenario("two-transactions"))
    assert {"+ result (2 now)", "‼ duplicated"} <= set(texts(shown))
    root = ET.fromstring(shown.svg)
    (step,) = [node for node in root.iter(f"{SVG}text") if node.text == "+ result (2 now)"]
    top = float(step.get("y")) - 30
    near = [node for node in root.iter() if top < float(node.get("y", node.get("cy", node.get("y1", 0))))]
    colours = {node.get(kind) for node in near for kind in ("fill", "stroke")}
    assert palette.ANOMALY_INK in colours and palette.INKS["accepted"] not in colours


def test_a_lost_answer_and_a_crash_look_different():
    lost, crashed = drawn("O-02-answer-lost"), drawn("O-01-crash-before-commit")
    assert "answer lost" in lost and "nothing written" not in lost
    assert "no answer" in crashed and "nothing written" in crashed


def test_an_unknown_outcome_without_a_fault_shows_its_reason():
    run = case("O-02-answer-lost")
    step = replace(run.steps[2], fault="", reason="SQLITE_IOERR")
    assert "no answer: SQLITE_IOERR" in texts(show.timeline(replace(run, steps=(*run.steps[:2], step))))


def test_a_lease_that_expired_is_marked_to_the_scale_of_now():
    with Experiment(Owner, "a lease", policy="p") as lab:
        operator, a, b = lab.actors("operator", "a", "b")
        operator.add(scope="s", work="w", revision=1, epoch=1, now=0)
        a.claim(scope="s", work="w", now=100, until=160)
        b.claim(scope="s", work="w", now=170, until=300)
        early = show.timeline(lab.run).svg
    later = show.timeline(
        replace(lab.run, steps=(*lab.run.steps[:2], replace(lab.run.steps[2], now=400)))
    ).svg
    assert "lease expired 160" in early and "lease expired 160" in later

    def place(svg):
        return float(re.search(r'y="([\d.]+)"[^>]*>lease expired', svg)[1])

    assert place(later) < place(early), "160 is nearer to the claim at 100 when the next call is at 400"


def test_each_file_has_a_column_and_the_copy_begins_with_the_backup():
    shown = show.timeline(scenario("no-defence"))
    assert {"original", "copy", "receiver"} <= set(texts(shown)) and "database" not in texts(shown)
    heavy = [node for node in ET.fromstring(shown.svg).iter(f"{SVG}line") if node.get("stroke-width") == "5"]
    original, copy, receiver = sorted(heavy, key=lambda node: float(node.get("x1")))
    assert float(copy.get("y1")) > float(original.get("y1")) == float(receiver.get("y1"))


def test_an_interleaving_shows_transactions_the_lock_and_what_was_read():
    run = interleaving_rows.witness("check outside of the transaction")
    shown = texts(show.timeline(run))
    assert shown.count("SELECT receipt: nothing") == 2, "both looked before either committed"
    assert shown.count("write lock:") == 2
    with interleavings.OWNER[0].explorer() as explorer:
        assert isinstance(explorer, Explorer)
        waits = texts(show.timeline(explorer.rerun("ABAAAAAABBBB")))
    assert "BEGIN IMMEDIATE: waits for the lock" in waits and "SELECT receipt: 1 row" in waits


def test_an_invalid_argument_is_shown_as_it_was_given():
    shown = drawn("F-04-integers")
    assert "invalid argument: fence" in shown and "accept key-1, fence '1'" in shown


def test_reopening_is_a_line_across():
    assert "file reopened" in drawn("O-02-answer-lost-reopened")


def test_what_was_found_is_shown():
    assert "accepted: redelivered" in drawn("I-03-seen-changed-and-seen-again")


@pytest.mark.parametrize("own", own_cases(), ids=lambda own: own.name)
def test_every_picture_fits_the_page_and_its_text_the_picture(own):
    shown = show.timeline(case(own.name))
    root = ET.fromstring(shown.svg)
    wide, high = float(root.get("width")), float(root.get("height"))
    assert wide <= 760
    for node in root.iter(f"{SVG}text"):
        size = int(node.get("font-size"))
        assert size * 0.75 >= 9, "on a phone it is drawn at 75 % at least"
        length = picture.width(node.text, size, bool(node.get("font-weight")))
        x = float(node.get("x")) - (length / 2 if node.get("text-anchor") else 0)
        assert x >= -1 and x + length <= wide + 4, node.text
        assert 0 < float(node.get("y")) < high
    assert root.find(f"{SVG}title").text and f"{len(case(own.name).steps)}. " in root.find(f"{SVG}desc").text


def test_the_widest_pictures_fit_the_page_too():
    for name in ("restore-procedure", "both-raise-their-epoch", "sweeper-superseded-in-between"):
        assert float(ET.fromstring(show.timeline(scenario(name)).svg).get("width")) <= 760


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", [*palette.INKS.values(), palette.NOTE, palette.BLACK, palette.ANOMALY_INK])
def test_text_can_be_read_on_white(colour):
    """4.5:1 is the minimum of WCAG 2.2 for text (https://www.w3.org/TR/WCAG22/#contrast-minimum)."""
    assert contrast(colour, "#FFFFFF") >= 4.5
    assert contrast(colour, "#E0EEF6") >= 4, "on the chosen step of `show.steps`"


def test_a_picture_without_a_screen_is_a_description():
    shown = repr(show.timeline(case("O-02-answer-lost")))
    assert "3. worker-a at 120: accept key-1: answer lost; database: + result, + receipt, + message." in shown


def test_too_many_steps_or_actors_are_refused():
    run = case("O-02-answer-lost")
    many = tuple(replace(run.steps[0], number=number) for number in range(1, 202))
    with pytest.raises(ValueError, match="at most 200"):
        show.timeline(replace(run, steps=many))
    with pytest.raises(ValueError, match="12 actors"):
        show.timeline(scenario("sixteen-calls-on-eight-workers"))


def test_a_timeline_needs_neither_pandas_nor_matplotlib():
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['pandas'] = sys.modules['matplotlib'] = None\n"
        "from receiptlab.lesson import case\nfrom receiptlab import show\n"
        "print(len(show.timeline(case('O-02-answer-lost')).svg) > 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


def test_set_up_is_one_line_unless_it_is_all_there_is():
    assert words.given(case("O-06-lease-replaced"))[0]
    assert words.given(case("O-17-add-exists"))[0] == case("O-17-add-exists").steps[:1]
