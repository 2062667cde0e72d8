""".ci/run finds or installs a browser, says so if it can't, and calls make lint and make test in any case."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documents.test_setup import script

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a script for bash")

ABSENT = "No Chromium or Chrome was found and none could be installed: the tests in a browser are skipped.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All that the script finds: a make that says what it got, and no browser."""
    for name in ("bash", "cp", "dirname", "env", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name))
    made = 'echo "make $* in ${CHROMIUM:-no browser}, ${RECEIPTLAB_BROWSER:-not required}"'
    script(tmp_path / "make", f'{made}; [ "$*" != "$FAILS" ]')
    script(tmp_path / "id", "echo 0")
    return tmp_path


def run(folder: Path, fails: str = "nothing", **environment: str) -> str:
    """What the script prints. It must fail exactly when make fails."""
    environment |= {"PATH": str(folder), "FAILS": fails}
    command = ["bash", str(ROOT / ".ci/run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode != 0, done.stderr) == (fails != "nothing", "")
    return done.stdout


def both(where: str) -> str:
    """What is printed when both targets ran."""
    return f"make lint in {where}\nmake test in {where}\n"


def apt(folder: Path) -> None:
    """An apt-get that installs a browser, loudly."""
    script(folder / "of-debian", "echo Chromium 150")
    told = f"echo \"$DEBIAN_FRONTEND $*\" >> '{folder}/asked'; echo loud; echo louder >&2"
    made = f"case $* in *chromium) cp '{folder}/of-debian' '{folder}/chromium';; esac"
    script(folder / "apt-get", f"{told}\n{made}")


def test_a_browser_that_is_here_is_required(folder: Path):
    script(folder / "chromium", "echo Chromium 150")
    assert run(folder) == both(f"{folder}/chromium, required")


def test_chrome_is_asked_first_and_a_script_that_cannot_start_does_not_count(folder: Path):
    script(folder / "chromium", "exit 1")
    script(folder / "google-chrome", "echo Chrome 150")
    assert run(folder) == both(f"{folder}/google-chrome, required")


def test_a_browser_that_was_named_is_taken(folder: Path):
    assert run(folder, CHROMIUM="/opt/mine") == both("/opt/mine, required")


def test_a_missing_browser_is_installed_without_a_question_or_a_word(folder: Path):
    apt(folder)
    assert run(folder) == both(f"{folder}/chromium, required")
    assert (folder / "asked").read_text().splitlines() == [
        "noninteractive update -qq",
        "noninteractive install -qq --no-install-recommends chromium",
    ]


def test_who_is_not_root_needs_a_sudo_without_a_password(folder: Path):
    apt(folder)
    script(folder / "id", "echo 1000")
    script(folder / "sudo", "exit 1")
    assert run(folder) == ABSENT + both("no browser, not required")
    script(folder / "sudo", 'shift; exec "$@"')
    (folder / "true").symlink_to(shutil.which("true"))
    assert run(folder) == both(f"{folder}/chromium, required")


@pytest.mark.parametrize("status", [None, 100], ids=["no apt-get", "an apt-get that fails"])
def test_where_none_can_be_installed_the_tests_run_without(folder: Path, status: int | None):
    if status:
        script(folder / "apt-get", f"exit {status}")
    assert run(folder) == ABSENT + both("no browser, not required")


@pytest.mark.parametrize("fails", ["lint", "test"])
def test_both_run_and_either_can_fail_the_check(folder: Path, fails: str):
    assert run(folder, fails) == ABSENT + both("no browser, not required")
