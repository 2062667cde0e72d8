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


def test_the_package_works_away_from_a_checkout(installed):
    environment = {**os.environ, "PYTHONPATH": str(installed / "site")}
    asked = {"cwd": installed, "env": environment, "capture_output": True, "text": True, "timeout": 120}
    code = "import receiptlab; from receiptlab.cli import results; results.read(results.golden_file()); print(receiptlab.__file__)"
    done = subprocess.run([sys.executable, "-c", code], **asked)
    assert done.stdout.startswith(str(installed)), done.stderr
    listed = subprocess.run([sys.executable, "-m", "receiptlab", "list"], **asked)
    assert "O-07-same-holder-wrong-fence" in listed.stdout and "13_split_brain_restore" in listed.stdout
    assert listed.returncode == 0, listed.stderr


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
