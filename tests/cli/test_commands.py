"""The command line: what it prints, its exit status, and that bad input gets no traceback."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from receiptlab.cli import results
from receiptlab.cli.commands import main
from receiptlab.contracts.owner import Owner
from receiptlab.experiment.case_file import read_case
from receiptlab.experiment.library import own_cases
from receiptlab.experiment.player import play
from receiptlab.experiment.row_diff import Rows
from tests.runs import all_runs

ROOT = Path(__file__).parents[2]
WRONG_FENCE = ROOT / "data/cases/owner/O-07-same-holder-wrong-fence.jsonl"


def changed(tmp_path, before, after):
    """A copy of a case in which one text is replaced."""
    text = WRONG_FENCE.read_text(encoding="utf-8")
    assert before in text
    path = tmp_path / "mine.jsonl"
    path.write_text(text.replace(before, after), encoding="utf-8")
    return str(path)


@pytest.fixture
def already_run(monkeypatch):
    """What `run` plays was run before, by the test of the stored results."""
    runs = all_runs()
    monkeypatch.setattr(results, "experiments", lambda: [lambda run=run: run for run in runs])


def test_run_prints_every_case_and_scenario(already_run, capsys):
    assert main(["run"]) == 0
    out, err = capsys.readouterr()
    for case in own_cases():
        assert case.name in out
    assert "lease-checked-by-the-worker" in out
    row = next(line for line in out.splitlines() if "O-13-fence" in line)
    cells = ["O-13", "O-13-fence", "holds", "3 × accepted, refused (key-reused: fence)", "1 1 1", "yes"]
    assert re.split(r"\s{2,}", row.strip()) == cells
    assert " NO " not in out
    assert err.endswith(" 0 not as expected\n")


def test_play_prints_the_outcome_table(capsys):
    assert main(["play", str(WRONG_FENCE)]) == 0
    out, _ = capsys.readouterr()
    assert "worker-a" in out
    assert "fence" in out


def test_play_says_by_its_status_that_an_expectation_did_not_hold(tmp_path, capsys):
    assert main(["play", changed(tmp_path, '"reason": "fence"', '"reason": "holder"')]) == 1
    _, err = capsys.readouterr()
    assert "mine, step 4 (accept): reason: expected holder, got fence" in err


def test_play_as_json(capsys):
    assert main(["play", str(WRONG_FENCE), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["held"], len(told["runs"])) == (1, True, 1)
    assert told["runs"][0]["steps"][3]["reason"] == "fence"


def test_a_timeline_replaces_nothing_without_being_asked(tmp_path, capsys):
    path = tmp_path / "mine.svg"
    path.write_text("mine", encoding="utf-8")
    assert main(["play", str(WRONG_FENCE), "--timeline", str(path)]) == 2
    assert "add --overwrite" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert main(["play", str(WRONG_FENCE), "--timeline", str(path), "--overwrite"]) == 0
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert main(["play", str(WRONG_FENCE), "--overwrite"]) == 2


def test_a_long_case_takes_no_more_than_a_step_per_call(tmp_path, monkeypatch):
    """Row changes and leases, which need every row after every call, are for cases that somebody reads."""
    calls = WRONG_FENCE.read_text(encoding="utf-8").splitlines()
    other = [line.replace("order-17", "order-18") for line in calls[1:]]
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(calls + other[:1]), encoding="utf-8")
    short = play(read_case(path))
    assert short.steps[-1].changes and short.steps[1].leases
    monkeypatch.setattr("receiptlab.experiment.player.DETAILED", len(short.steps) - 1)
    monkeypatch.setattr(Rows, "changes", lambda *told: pytest.fail("every row was read"))
    monkeypatch.setattr(Owner, "leases", lambda self: pytest.fail("every lease was read"))
    asked = []
    long = play(read_case(path), through=lambda calls: asked.append(len(calls)) or calls)
    assert asked == [len(short.steps)]
    assert [step.outcome for step in long.steps] == [step.outcome for step in short.steps]
    assert [step.counts for step in long.steps] == [step.counts for step in short.steps]
    assert {(step.changes, step.leases) for step in long.steps} == {(None, ())}


def program(*words):
    return [sys.executable, "-m", "receiptlab", *words]


def test_the_version_is_the_one_of_the_package():
    done = subprocess.run(program("--version"), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"receiptlab {version('receiptlab')}\n")


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
@pytest.mark.parametrize(("to", "status"), [(">&-", 0), ("> /dev/full", 2)])
@pytest.mark.parametrize(
    "words", [["list"], ["play", str(WRONG_FENCE)], ["play", str(WRONG_FENCE), "--json"]]
)
def test_an_output_that_takes_nothing_gets_no_traceback(to, status, words):
    if "full" in to and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    done = subprocess.run(
        ["sh", "-c", f'"$@" {to}', "sh", *program(*words)], capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert done.returncode == status


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_sigterm_removes_temporary_folders(tmp_path):
    """The case is long enough that the signal always comes while it is played."""
    lines = WRONG_FENCE.read_text(encoding="utf-8").splitlines()
    long = tmp_path / "long.jsonl"
    long.write_text("\n".join(lines[:1] + lines[1:2] * 9_999), encoding="utf-8")
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(program("play", str(long)), env=environment, stdout=subprocess.PIPE) as child:
        for _ in range(600):
            if list(folder.iterdir()):
                break
            time.sleep(0.05)
        child.terminate()
        assert child.wait(30) == 128 + signal.SIGTERM
    assert list(folder.iterdir()) == []


def test_play_draws_a_timeline(tmp_path):
    assert main(["play", str(WRONG_FENCE), "--timeline", str(tmp_path / "out.svg")]) == 0
    assert (tmp_path / "out.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_play_reads_every_file_before_it_plays_any(tmp_path, capsys):
    assert main(["play", str(WRONG_FENCE), str(tmp_path / "missing.jsonl")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "missing.jsonl" in err


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
        (["play", "."], "is not a file"),
        (["play", str(WRONG_FENCE), "--timeline", "missing/out.svg"], "missing/out.svg"),
        (["play", str(WRONG_FENCE), "--timeline", "."], "ends in .svg"),
        (["play", str(WRONG_FENCE), "--timeline", str(WRONG_FENCE)], "ends in .svg"),
        (["play", str(WRONG_FENCE), str(WRONG_FENCE), "--timeline", "out.svg"], "give one FILE"),
    ],
)
def test_bad_input_gets_a_sentence_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("receiptlab: ")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["play"], ["run", "--fast"]])
def test_wrong_usage_is_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_read_only_folder_gets_a_sentence(plain_user, capsys):
    plain_user.chmod(0o555)
    assert main(["play", str(WRONG_FENCE), "--timeline", str(plain_user / "out.svg")]) == 2
    assert "Permission denied" in capsys.readouterr().err
    plain_user.chmod(0o755)


def command(*arguments, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "receiptlab", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", **more,
    )  # fmt: skip


def test_no_temporary_folder_gets_a_sentence(tmp_path):
    missing = str(tmp_path / "missing")
    code = "import sys, tempfile; tempfile.tempdir = sys.argv[1]; from receiptlab.cli.commands import main; sys.exit(main(['run']))"
    done = subprocess.run(
        [sys.executable, "-c", code, missing], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error():
    process = command("list")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C reaches a child of a test in another way there")
def test_ctrl_c_stops_without_a_traceback():
    # A shell starts what it runs in the background with SIGINT ignored, and a child would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = command("run")
    finally:
        signal.signal(signal.SIGINT, before)
    for _ in range(100):
        if process.poll() is not None:
            break
        time.sleep(0.35)
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "Traceback" not in err or "receiptlab/__main__.py" not in err


def test_a_reader_that_goes_away_does_not_hide_a_failed_expectation(tmp_path):
    process = command("play", changed(tmp_path, '"reason": "fence"', '"reason": "holder"'))
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert "expected holder, got fence" in process.stderr.read()
    process.stderr.close()


def test_a_narrow_encoding_prints_escapes(tmp_path):
    path = changed(tmp_path, "the right holder", "名前 holder")
    done = subprocess.run(
        [sys.executable, "-m", "receiptlab", "play", path],
        cwd=ROOT, capture_output=True, timeout=60, env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0
    assert b"\\u540d" in done.stdout
    assert b"Traceback" not in done.stderr


def test_nothing_in_a_file_or_its_name_steers_the_terminal(tmp_path, capsys):
    path = tmp_path / "mine\x1b[31m.jsonl"
    path.write_bytes(WRONG_FENCE.read_bytes().replace(b'{"fence": 1}', b'{"fence\\u001b[2J": "\\u001b[2J"}'))
    assert main(["play", str(path)]) == 1
    assert main(["play", str(path) + "missing"]) == 2
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert "\\x1b[2J" in told.err


def test_a_run_that_is_no_picture_is_refused(tmp_path, capsys):
    lines = WRONG_FENCE.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join([lines[0], *[lines[1]] * 300]), encoding="utf-8")
    assert main(["play", str(path), "--timeline", str(tmp_path / "out.svg")]) == 2
    assert "a timeline shows at most 200 events" in capsys.readouterr().err


def test_a_narrow_terminal_still_shows_every_name_whole(already_run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["run"]) == 0
    out = capsys.readouterr().out
    assert all(case.name in out for case in own_cases())
    assert max(map(len, out.splitlines())) <= 80


def test_the_module_starts_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "receiptlab", "about"], cwd=ROOT, capture_output=True, timeout=60
    )
    assert done.returncode == 0
