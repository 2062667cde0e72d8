"""The command line: what it prints, its exit status, and that bad input gets no traceback."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from receiptlab.cli.commands import main
from receiptlab.contracts.owner import Owner
from receiptlab.experiment.case_file import read_case
from receiptlab.experiment.player import play
from receiptlab.experiment.row_diff import Rows

ROOT = Path(__file__).parents[2]
WRONG_FENCE = str(ROOT / "data/cases/owner/O-07-same-holder-wrong-fence.jsonl")
LINES = Path(WRONG_FENCE).read_text(encoding="utf-8").splitlines()


def written(path, *lines):
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def changed(tmp_path, before, after):
    """A copy of the case in which one text is replaced."""
    assert before in "\n".join(LINES)
    return written(tmp_path / "mine.jsonl", *(line.replace(before, after) for line in LINES))


def program(*words, **how):
    return subprocess.run(
        [sys.executable, "-m", "receiptlab", *words], cwd=ROOT, capture_output=True, timeout=60, **how
    )


def test_play_prints_a_table_or_json(capsys):
    assert main(["play", WRONG_FENCE]) == 0
    out, _ = capsys.readouterr()
    assert "worker-a" in out and "fence" in out
    assert main(["play", WRONG_FENCE, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["format"], printed["held"], len(printed["runs"])) == (1, True, 1)
    assert printed["runs"][0]["steps"][3]["reason"] == "fence"


def test_an_expectation_that_does_not_hold_is_status_1(tmp_path, capsys):
    assert main(["play", changed(tmp_path, '"reason": "fence"', '"reason": "holder"')]) == 1
    assert "mine, step 4 (accept): reason: expected holder, got fence" in capsys.readouterr().err


def test_a_timeline_replaces_a_file_only_when_asked(tmp_path, capsys):
    path = tmp_path / "mine.svg"
    drawing = ["play", WRONG_FENCE, "--timeline", str(path)]
    assert main(drawing) == 0
    assert path.read_text(encoding="utf-8").startswith("<svg")
    path.write_text("mine", encoding="utf-8")
    assert main(drawing) == 2
    assert "add --overwrite" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert main([*drawing, "--overwrite"]) == 0
    assert path.read_text(encoding="utf-8").startswith("<svg")
    assert main(["play", WRONG_FENCE, "--overwrite"]) == 2


def test_a_run_too_long_for_a_picture_is_refused(tmp_path, capsys):
    path = written(tmp_path / "long.jsonl", LINES[0], *[LINES[1]] * 300)
    assert main(["play", path, "--timeline", str(tmp_path / "out.svg")]) == 2
    assert "a timeline shows at most 200 events" in capsys.readouterr().err


def test_a_long_case_is_played_without_row_changes_and_leases(tmp_path, monkeypatch):
    """These need every row after every call, and are for cases that somebody reads."""
    path = written(tmp_path / "long.jsonl", *LINES, LINES[1].replace("order-17", "order-18"))
    short = play(read_case(Path(path)))
    assert short.steps[-1].changes and short.steps[1].leases
    monkeypatch.setattr("receiptlab.experiment.player.DETAILED", len(short.steps) - 1)
    monkeypatch.setattr(Rows, "changes", lambda *rows: pytest.fail("every row was read"))
    monkeypatch.setattr(Owner, "leases", lambda self: pytest.fail("every lease was read"))
    lengths = []
    long = play(read_case(Path(path)), through=lambda calls: lengths.append(len(calls)) or calls)
    assert lengths == [len(short.steps)]
    assert [(step.outcome, step.counts) for step in long.steps] == [
        (step.outcome, step.counts) for step in short.steps
    ]
    assert {(step.changes, step.leases) for step in long.steps} == {(None, ())}


def test_the_version_is_the_one_of_the_package():
    done = program("--version", text=True)
    assert (done.returncode, done.stdout) == (0, f"receiptlab {version('receiptlab')}\n")


def test_list_shows_clauses_cases_scenarios_and_lessons(capsys):
    assert main(["list"]) == 0
    out, _ = capsys.readouterr()
    for word in ("O-17", "S-9", "done", "O-13-fence", "two-transactions", "04_fence_and_holder"):
        assert word in out


def test_about_names_sqlite(capsys):
    assert main(["about"]) == 0
    assert "WAL-reset defect" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["play", "nothing.jsonl"], "nothing.jsonl: cannot be read"),
        (["play", WRONG_FENCE, "missing.jsonl"], "missing.jsonl: cannot be read"),  # before any is played
        (["play", "."], "is not a file"),
        (["play", WRONG_FENCE, "--timeline", "missing/out.svg"], "missing/out.svg"),
        (["play", WRONG_FENCE, "--timeline", "."], "ends in .svg"),
        (["play", WRONG_FENCE, "--timeline", WRONG_FENCE], "ends in .svg"),
        (["play", WRONG_FENCE, WRONG_FENCE, "--timeline", "out.svg"], "give one FILE"),
    ],
)
def test_bad_input_gets_a_sentence_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert message in err and "Traceback" not in err and out == ""
    assert err.splitlines()[-1].startswith("receiptlab: ")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["play"], ["run", "--fast"]])
def test_wrong_usage_is_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_read_only_folder_gets_a_sentence(plain_user, capsys):
    plain_user.chmod(0o555)
    assert main(["play", WRONG_FENCE, "--timeline", str(plain_user / "out.svg")]) == 2
    assert "Permission denied" in capsys.readouterr().err
    plain_user.chmod(0o755)


def test_a_missing_temporary_folder_gets_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert main(["play", WRONG_FENCE]) == 2
    assert "No such file or directory; check the folder and its permissions" in capsys.readouterr().err


def test_nothing_in_a_file_or_its_name_steers_the_terminal(tmp_path, capsys):
    lines = (line.replace('{"fence": 1}', '{"fence\\u001b[2J": "\\u001b[2J"}') for line in LINES)
    path = written(tmp_path / "mine\x1b[31m.jsonl", *lines)
    assert main(["play", path]) == 1
    assert main(["play", path + "missing"]) == 2
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err and "\\x1b[2J" in err


def test_a_narrow_encoding_prints_escapes(tmp_path):
    path = changed(tmp_path, "the right holder", "名前 holder")
    done = program("play", path, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert b"\\u540d" in done.stdout and b"Traceback" not in done.stderr


# Outputs that take nothing, and signals


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
@pytest.mark.parametrize("words", ["list", f"play {WRONG_FENCE}", f"play {WRONG_FENCE} --json"])
@pytest.mark.parametrize(("to", "status"), [(">&-", 0), ("> /dev/full", 2)])
def test_an_output_that_takes_nothing_gets_no_traceback(to, status, words):
    if "full" in to and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    line = ["sh", "-c", f'"$@" {to}', "sh", sys.executable, "-m", "receiptlab", *words.split()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert done.returncode == status


def test_a_reader_that_goes_away_is_no_error_and_hides_none(tmp_path):
    wrong = changed(tmp_path, '"reason": "fence"', '"reason": "holder"')
    for words, status in (["list"], 0), (["play", wrong], 1):
        line = [sys.executable, "-m", "receiptlab", *words]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.close()
            assert process.wait(timeout=60) == status
            assert ("expected holder, got fence" in (err := process.stderr.read())) is (status == 1)
            assert "Traceback" not in err and "Exception" not in err


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_without_a_traceback_and_removes_temporary_folders(tmp_path, number):
    """The case is long enough that the signal always arrives while it is played."""
    path = written(tmp_path / "long.jsonl", LINES[0], *[LINES[1]] * 9_999)
    folder = tmp_path / "temporary"
    folder.mkdir()
    # A shell starts background jobs with SIGINT ignored, and a child would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    line, environment = (
        [sys.executable, "-m", "receiptlab", "play", path],
        {**os.environ, "TMPDIR": str(folder)},
    )
    with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) as child:
        signal.signal(signal.SIGINT, before)
        while child.poll() is None and not list(folder.glob("*/receipts.db")):
            time.sleep(0.05)
        child.send_signal(number)
        assert child.wait(60) == 128 + number
        assert "Traceback" not in child.stderr.read()
    assert list(folder.iterdir()) == []
