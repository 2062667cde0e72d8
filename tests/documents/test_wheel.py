"""The package as pip installs it: away from any checkout, its cases and results with it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the unpacked wheel, as it lies in site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "site")
    return folder


WITHOUT = """
import sys
sys.argv[0] = "receiptlab"
for name in ("rich", "prometheus_client", "pandas", "matplotlib", "jinja2", "apsw", "greenlet", "uvicorn"):
    sys.modules[name] = None
from receiptlab.__main__ import main
sys.exit(main())
"""
CASE = str(ROOT / "data/cases/owner/O-13-actor.jsonl")


def without_extras(installed, *arguments):
    """The installed package as it is without any of its extras, in a folder that is no checkout."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed / "site")},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("--version",), "receiptlab "),
        (("about",), "sqlite"),
        (("list",), "14_split_brain_restore"),
        (("play", CASE), "key-reused: actor"),
        (("play", CASE, "--timeline", "run.svg"), "key-reused: actor"),
    ],
)
def test_the_core_needs_no_other_package(installed, arguments, printed):
    done = without_extras(installed, *arguments)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert printed in done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("play", CASE, "--interleavings"), "greenlet; install it with: pip install 'receiptlab[hazards]'"),
        (("receiver", "--db", "new.db"), "uvicorn; install it with: pip install 'receiptlab[http]'"),
    ],
)
def test_a_missing_extra_is_one_sentence(installed, arguments, extra):
    done = without_extras(installed, *arguments)
    assert (done.returncode, done.stderr) == (2, f"receiptlab: this needs {extra}\n")


def test_what_needs_an_extra_is_not_run_and_named(installed, monkeypatch, capsys):
    from receiptlab.cli import commands, results
    from receiptlab.experiment.library import load
    from receiptlab.experiment.player import play

    def every_interleaving():
        raise ModuleNotFoundError("no greenlet", name="greenlet")

    case = load("R-01-exact-replay")
    stored = results.result([play(case)]) | {"ablation": {}}
    stored["runs"]["every-interleaving"] = {}
    monkeypatch.setattr(results, "experiments", lambda: [lambda: play(case), every_interleaving])
    monkeypatch.setattr(results, "unreached", lambda runs: [])
    monkeypatch.setattr(results, "CONTRACTS", {})
    monkeypatch.setattr(results, "read", lambda path: stored)
    assert commands.main(["run", "--check"]) == 0
    errors = capsys.readouterr().err
    assert "not run: every-interleaving; this needs greenlet; install it with: pip install" in errors
    assert "the same as the stored result" in errors
    assert commands.main(["run", "--output", str(installed / "out.json")]) == 2
    assert not (installed / "out.json").exists()


def test_the_wheel_brings_one_package_and_nothing_else(installed):
    names = [path.name for path in (installed / "site").iterdir()]
    assert sorted(name.partition("-")[0] for name in names) == ["receiptlab", "receiptlab"]


def test_the_source_archive_has_what_its_tests_need(installed):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(installed / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [archive] = (installed / "dist").glob("*.tar.gz")
    named = subprocess.run(["tar", "tzf", str(archive)], capture_output=True, text=True, timeout=60).stdout
    for needed in ("tests/conftest.py", "data/contract.csv", "notebooks/00_start_here.ipynb", "Makefile"):
        assert f"/{needed}\n" in named, needed
