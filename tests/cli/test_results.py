"""run, run --check and run --output: the whole result, and how it is compared with the stored one."""

import json
import os
import re
import stat
from dataclasses import replace

import pytest

from receiptlab.cli import results
from receiptlab.cli.commands import main
from receiptlab.experiment.library import own_cases
from receiptlab.lesson import case
from tests.runs import ablate, all_runs

RUN = case("R-01-exact-replay")


@pytest.fixture
def everything(monkeypatch):
    """The run of every case and scenario, made once for all tests. Commands play them again from memory."""
    runs = all_runs()
    monkeypatch.setattr(results, "experiments", lambda: [lambda run=run: run for run in runs])
    monkeypatch.setattr(results, "ablate", ablate)
    return runs


def test_everything_is_as_it_is_stored(everything, capsys):
    assert main(["run", "--check"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "the same as the stored result" in err and "\x1b" not in err


@pytest.mark.parametrize("width", [None, "80"])
def test_run_prints_every_case_and_scenario_also_on_a_narrow_terminal(everything, capsys, monkeypatch, width):
    if width:
        monkeypatch.setenv("COLUMNS", width)
    assert main(["run"]) == 0
    out, err = capsys.readouterr()
    assert [each.name for each in own_cases() if each.name not in out] == []
    assert "lease-checked-by-the-worker" in out and " NO " not in out
    assert err.endswith(" 0 not as expected\n")
    if width:
        assert max(map(len, out.splitlines())) <= 80
    else:
        row = next(line for line in out.splitlines() if "O-13-fence" in line)
        cells = ["O-13", "O-13-fence", "holds", "3 × accepted, refused (key-reused: fence)", "1 1 1", "yes"]
        assert re.split(r"\s{2,}", row.strip()) == cells


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        (r".*every-point.*|O-01-crash-then-reopen", "owner accept: no run ended at its failpoint after_outbox"),
        ("closure-dies-at-every-point", "retention close_and_collect: no process died at its failpoint after_boundary"),
    ],
)  # fmt: skip
def test_a_failpoint_that_no_run_reached_is_reported(everything, missing, line):
    assert line in results.unreached([run for run in everything if not re.fullmatch(missing, run.name)])


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A copy of the results file in its place. Only one case is played."""
    path = tmp_path / "results.json"
    path.write_bytes(results.results_file().read_bytes())
    monkeypatch.setattr(results, "results_file", lambda: path)
    monkeypatch.setattr(results, "experiments", lambda: [lambda: RUN])
    monkeypatch.setattr(results, "unreached", lambda runs: [])
    monkeypatch.setattr(results, "ablate", ablate)
    return path


def test_one_changed_value_is_named_by_its_path(stored, capsys):
    whole = json.loads(stored.read_text())
    whole["runs"] = {"R-01-exact-replay": whole["runs"]["R-01-exact-replay"]}
    whole["runs"]["R-01-exact-replay"]["steps"][1]["answer"]["effect"] = 7
    whole["made by"]["sqlite"] = "another"
    stored.write_text(json.dumps(whole))
    assert main(["run", "--check"]) == 1
    err = capsys.readouterr().err
    assert "runs.R-01-exact-replay.steps[1].answer.effect: stored 7, found 1" in err
    assert "1 difference from the stored result" in err


def test_many_differences_are_cut_and_counted(stored, capsys):
    assert main(["run", "--check"]) == 1
    err = capsys.readouterr().err
    assert "found nothing" in err and "the first 10 are above" in err


def test_a_failpoint_that_was_not_reached_and_an_expectation_fail_the_run(stored, monkeypatch, capsys):
    monkeypatch.setattr(results, "differences", lambda stored, made: [])
    assert main(["run", "--check"]) == 0
    monkeypatch.setattr(results, "unreached", lambda runs: ["owner accept: no run ended at its failpoint x"])
    assert main(["run"]) == 1
    assert "no run ended at its failpoint x" in capsys.readouterr().err
    monkeypatch.setattr(results, "unreached", lambda runs: [])
    wrong = replace(RUN, steps=(replace(RUN.steps[0], wrong=("x",)),))
    monkeypatch.setattr(results, "experiments", lambda: [lambda: wrong])
    assert main(["run", "--check"]) == 1


@pytest.mark.parametrize(
    ("stored", "made", "lines"),
    [
        ({"runs": {"a": [1, True]}}, {"runs": {"a": [1, 1]}}, ["runs.a[1]: stored True, found 1"]),
        ({"runs": {"b": 1}}, {"runs": {}}, ["runs.b: stored 1, found nothing"]),
        ({"runs": {}}, {"runs": {"c": "x" * 200}}, [f"runs.c: stored nothing, found '{'x' * 96}…"]),
        ({"runs": {"a": [1]}, "made by": 1}, {"runs": {"a": [1, 2]}}, ["runs.a: stored [1], found [1, 2]"]),
        ({"ablation": {"owner": [["fence"]]}}, {"ablation": {"owner": []}}, ["ablation.owner: stored [['fence']], found []"]),
    ],
)  # fmt: skip
def test_differences_name_types_lengths_and_missing_values(stored, made, lines):
    assert list(results.differences(stored, made)) == lines


@pytest.fixture
def never_run(monkeypatch):
    monkeypatch.setattr(results, "experiments", lambda: pytest.fail("it should not run"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ('{"format": 1, "runs": {', "is damaged or cut off"),
        ('{"format": 2}', "is not a result of format 1"),
        ("[]", "is not a result of format 1"),
        ("\ufeff", "is damaged or cut off"),
        ("[" * 200_000, "is damaged or cut off"),
        ('{"format": 1, "runs": {}, "runs": {}}', "'runs' appears twice"),
    ],
)
def test_a_stored_result_that_cannot_be_used_is_refused_before_anything_runs(
    stored, never_run, capsys, text, message
):
    stored.unlink() if text is None else stored.write_text(text, encoding="utf-8")
    assert main(["run", "--check"]) == 2
    err = capsys.readouterr().err
    assert message in err and "results.json" in err and "Traceback" not in err


def test_output_writes_a_new_file_and_replaces_one_only_when_asked(stored, tmp_path, capsys):
    path = tmp_path / "mine.json"
    assert main(["run", "--output", str(path)]) == 0
    assert results.read(path)["runs"]["R-01-exact-replay"]["held"] is True
    before = stored.read_bytes()
    assert main(["run", "--output", str(stored)]) == 2
    assert "add --overwrite" in capsys.readouterr().err
    assert stored.read_bytes() == before
    assert main(["run", "--output", str(stored), "--overwrite"]) == 0
    assert stored.read_bytes() != before
    assert sorted(os.listdir(tmp_path)) == ["mine.json", "results.json"]
    assert main(["run", "--overwrite"]) == 2
    assert "only goes with --output FILE" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="POSIX files")
@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "is a folder"), ("/", "is a folder"), ("", "is a folder"), ("folder", "is a folder"),
        ("missing/mine.json", "its folder does not exist"), ("/dev/null", "is a device"),
        ("pipe", "is a device, a pipe"), ("one", "cannot be written"), ("n" * 300, "cannot be written"),
        ("/proc/here.json", "cannot be written"),
    ],
)  # fmt: skip
def test_output_that_cannot_be_written_is_refused_before_anything_runs(
    stored, never_run, tmp_path, monkeypatch, capsys, path, message
):
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    os.mkfifo("pipe")
    os.symlink("other", "one")
    os.symlink("one", "other")
    assert main(["run", "--output", path, "--overwrite"]) == 2
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_a_link_is_not_replaced(stored, tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere.json")
    assert main(["run", "--output", str(tmp_path / "link.json")]) == 2
    assert main(["run", "--output", str(tmp_path / "link.json"), "--overwrite"]) == 0
    assert (tmp_path / "link.json").is_symlink()
    assert results.read(tmp_path / "nowhere.json")["format"] == 1
