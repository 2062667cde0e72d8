"""run --check and run --output: the whole result against the stored one."""

import json
import os
import stat
from dataclasses import replace

import pytest

from receiptlab.cli import results
from receiptlab.cli.commands import main
from receiptlab.experiment.library import load
from receiptlab.experiment.player import play
from receiptlab.lesson import case
from tests.runs import ablate, all_runs


@pytest.fixture(scope="module")
def runs():
    return list(all_runs())


def test_everything_comes_out_as_it_is_stored(runs, monkeypatch):
    monkeypatch.setattr(results, "ablate", ablate)
    assert list(results.differences(results.read(results.results_file()), results.result(runs))) == []


def test_no_listed_crash_point_is_left_out(runs):
    assert results.unreached(runs) == []


def test_a_crash_point_that_no_run_came_to_is_told(runs):
    without = [run for run in runs if "every-point" not in run.name and run.name != "O-01-crash-then-reopen"]
    assert "owner accept: no run ended at its failpoint after_outbox" in results.unreached(without)


def test_check_passes_and_says_so(runs, capsys, monkeypatch):
    monkeypatch.setattr(results, "experiments", lambda: [lambda run=run: run for run in runs])
    monkeypatch.setattr(results, "ablate", ablate)
    assert main(["run", "--check"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "the same as the stored result" in err
    assert "\x1b" not in err


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A copy of the stored results file in its's place."""
    path = tmp_path / "results.json"
    path.write_bytes(results.results_file().read_bytes())
    monkeypatch.setattr(results, "results_file", lambda: path)
    monkeypatch.setattr(results, "experiments", lambda: [lambda: play(load("R-01-exact-replay"))])
    monkeypatch.setattr(results, "unreached", lambda runs: [])
    monkeypatch.setattr(results, "ablate", ablate)
    return path


def test_one_changed_value_is_named_by_its_path(stored, capsys, monkeypatch):
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
    assert "found nothing" in err
    assert "the first 10 are above" in err


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
def test_a_stored_result_that_cannot_be_used_is_told_before_anything_runs(stored, capsys, text, message):
    stored.unlink() if text is None else stored.write_text(text, encoding="utf-8")
    assert main(["run", "--check"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "results.json" in err
    assert "Traceback" not in err


def test_output_writes_a_new_file_and_never_over_one_that_is_there(stored, tmp_path, capsys):
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


def test_output_to_a_missing_folder_is_told(stored, tmp_path, capsys):
    assert main(["run", "--output", str(tmp_path / "missing" / "mine.json")]) == 2
    assert "its folder does not exist" in capsys.readouterr().err


def test_differences_tell_types_lengths_and_what_is_not_there():
    told = list(
        results.differences({"runs": {"a": [1, True], "b": 1}}, {"runs": {"a": [1, 1], "c": "x" * 200}})
    )
    assert told[:2] == ["runs.a[1]: stored True, found 1", "runs.b: stored 1, found nothing"]
    assert told[2].startswith("runs.c: stored nothing, found 'xxx")
    assert len(told[2]) < 140


def test_a_stored_run_is_what_a_run_says():
    stored = results.read(results.results_file())["runs"]["R-13-receipt-deleted"]
    run = case("R-13-receipt-deleted")
    assert stored["kind"] == run.kind == "breaks"
    assert [step["anomaly"] for step in stored["steps"]] == ["", "", "duplicated", ""]


@pytest.mark.parametrize("name", [".", "/", "", "folder"])
def test_a_folder_as_output_is_told_before_anything_runs(stored, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "experiments", lambda: pytest.fail("it should not run"))
    (tmp_path / "folder").mkdir()
    assert main(["run", "--output", name, "--overwrite"]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_overwrite_alone_is_told(stored, capsys):
    assert main(["run", "--overwrite"]) == 2
    assert "only goes with --output FILE" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="POSIX files")
def test_output_that_can_never_be_written_is_refused_before_anything_runs(
    stored, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(results, "experiments", lambda: pytest.fail("it should not run"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "one")
    refused = {
        "/dev/null": "is a device",
        tmp_path / "pipe": "is a device, a pipe",
        tmp_path / "one": "cannot be written",
        "/proc/here.json": "cannot be written",
        tmp_path / ("n" * 300): "cannot be written",
    }
    for path, why in refused.items():
        assert main(["run", "--output", str(path), "--overwrite"]) == 2, path
        err = capsys.readouterr().err
        assert why in err and "Traceback" not in err, path
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_a_link_is_not_replaced(stored, tmp_path, capsys):
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere.json")
    assert main(["run", "--output", str(tmp_path / "link.json")]) == 2
    assert main(["run", "--output", str(tmp_path / "link.json"), "--overwrite"]) == 0
    assert (tmp_path / "link.json").is_symlink()
    assert results.read(tmp_path / "nowhere.json")["format"] == 1


def test_a_point_that_no_run_came_to_fails_the_run(stored, monkeypatch, capsys):
    monkeypatch.setattr(results, "unreached", lambda runs: ["owner accept: no run ended at its failpoint x"])
    assert main(["run"]) == 1
    assert "no run ended at its failpoint x" in capsys.readouterr().err


def test_a_process_that_never_died_is_told(runs):
    without = [run for run in runs if run.name != "closure-dies-at-every-point"]
    assert (
        "retention close_and_collect: no process died at its failpoint after_boundary"
        in results.unreached(without)
    )


def test_a_failed_expectation_fails_the_check_too(stored, monkeypatch, capsys):
    monkeypatch.setattr(results, "differences", lambda stored, made: [])
    monkeypatch.setattr(
        results, "experiments", lambda: [lambda: replace(RUN, steps=(replace(RUN.steps[0], wrong=("x",)),))]
    )
    assert main(["run", "--check"]) == 1


def test_lists_of_unequal_length_and_the_ablation_are_compared():
    stored = {"runs": {"a": [1, 2, 3, 4]}, "ablation": {"owner": [["fence", "x"]]}}
    made = {"runs": {"a": [1, 2, 3, 5]}, "ablation": {"owner": []}}
    assert list(results.differences(stored, made)) == [
        "runs.a[3]: stored 4, found 5",
        "ablation.owner: stored [['fence', 'x']], found []",
    ]


RUN = case("R-01-exact-replay")
