"""Ruff's rules and its format hold, in the notebooks too. `make format` repairs most of it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(command: list[str]):
    run = subprocess.run(
        [sys.executable, "-m", "ruff", *command], cwd=ROOT, capture_output=True, text=True, encoding="utf-8"
    )
    assert run.returncode == 0, run.stdout + run.stderr
