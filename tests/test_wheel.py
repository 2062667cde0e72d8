"""The package as pip installs it: away from any checkout, its cases and results with it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "O-07-same-holder-wrong-fence"),
        (["about"], "sqlite"),
        (["run", "--check"], "the same as the stored result"),
    ],
    ids=lambda each: each[0],
)
def test_commands_work_away_from_a_checkout(installed, words, said):
    environment = {**os.environ, "PYTHONPATH": str(installed / "site")}
    where = "import receiptlab, sys; sys.stderr.write(receiptlab.__file__)"
    asked = {"cwd": installed, "env": environment, "capture_output": True, "text": True, "timeout": 120}
    assert str(installed) in subprocess.run([sys.executable, "-c", where], **asked).stderr
    done = subprocess.run([sys.executable, "-m", "receiptlab", *words], **asked)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout + done.stderr


def test_the_source_archive_has_what_its_tests_need(installed):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(installed / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [archive] = (installed / "dist").glob("*.tar.gz")
    named = subprocess.run(["tar", "tzf", str(archive)], capture_output=True, text=True, timeout=60).stdout
    for needed in ("tests/conftest.py", "data/contract.csv", "notebooks/00_start_here.ipynb", "Makefile"):
        assert f"/{needed}\n" in named, needed
