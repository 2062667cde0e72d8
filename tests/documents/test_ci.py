"""The check script runs what a user runs."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci/run"


def test_the_script_is_valid_bash_and_ends_with_make_lint_and_make_test():
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    checked = subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert SCRIPT.read_text(encoding="utf-8").endswith(
        "\nmake lint || status=$?\nmake test || status=$?\nexit $status\n"
    )
