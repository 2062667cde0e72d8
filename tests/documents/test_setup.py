"""The Makefile sets up an environment, and `make lab` opens the first lesson."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from tools import lab, notebooks, workshop

ROOT = Path(__file__).parents[2]


def run_make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run make with a PATH that holds only what the test put into the folder."""
    make = shutil.which("make")
    if make is None or os.name == "nt":
        pytest.skip("make is not here")
    command = [make, "-f", str(ROOT / "Makefile"), *arguments]
    environment = {"PATH": str(folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_no_python_at_all_is_one_sentence(tmp_path: Path):
    run = run_make(tmp_path, ".venv/bin/python", "--always-make")
    assert run.returncode != 0
    assert run.stderr.startswith("No Python 3.11 or newer was found. Install one")


def test_help_is_the_default_and_names_every_target(tmp_path: Path):
    run = run_make(tmp_path)
    [targets] = re.findall(r"(?m)^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"))
    for target in set(targets.split()) - {"help"}:
        assert f"make {target} " in run.stdout, target


# JupyterLab


def test_the_lab_opens_the_first_lesson_with_the_project_as_root(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lab, "has_browser", lambda: False)
    monkeypatch.setattr(lab, "is_root", lambda: True)
    given = lab.arguments(["--port=9000"], 8888)
    assert f"--ServerApp.root_dir={ROOT}" in given
    assert "--LabApp.default_url=/lab/tree/workshop/00_start_here.ipynb" in given
    assert given[-3:] == ["--allow-root", "--no-browser", "--port=9000"]
    assert "--port=8888" not in given and "--port=8888" in lab.arguments([], 8888)


def test_the_lab_signs_its_own_notebooks_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    workshop.build(tmp_path / "notebooks", tmp_path / "workshop")
    foreign, broken = (tmp_path / f"notebooks/{name}" for name in ("solutions/mine.ipynb", "09_broken.ipynb"))
    foreign.write_bytes(
        (tmp_path / "notebooks/01_one_transaction.ipynb").read_bytes().replace(b"O-1", b"O-2")
    )
    broken.write_text("no notebook at the moment")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}

    lab.trust(lab.own_notebooks())

    notary = NotebookNotary(data_dir=str(tmp_path / "data"))
    own = len(list((ROOT / "notebooks").rglob("*.ipynb"))) * 2
    signed = [path for path in before if path != broken and notary.check_signature(nbformat.read(path, 4))]
    assert len(signed) == own and foreign not in signed
    assert {path: path.read_bytes() for path in before} == before
    notary.store.close()


def test_a_save_keeps_the_file_where_a_reader_sees_no_difference(tmp_path: Path):
    path = tmp_path / "01.ipynb"
    path.write_bytes((ROOT / "notebooks/01_one_transaction.ipynb").read_bytes())
    manager = SimpleNamespace(root_dir=str(tmp_path))

    def saved(change) -> bool:
        """Whether what the file has is saved, when JupyterLab sends this."""
        nb = nbformat.read(path, 4)
        change(nb)
        model = {"type": "notebook", "content": nb}
        notebooks.keep_unchanged(model, "01.ipynb", manager)
        return notebooks.to_text(model["content"]) == path.read_text(encoding="utf-8")

    assert saved(lambda nb: nb.metadata.language_info.update(version="3.99"))
    assert saved(lambda nb: [cell.metadata.update(trusted=True) for cell in nb.cells])
    assert saved(lambda nb: [cell.update(execution_count=7) for cell in nb.cells if cell.cell_type == "code"])
    assert not saved(lambda nb: nb.cells[0].update(source="# Mine"))
    assert not saved(lambda nb: nb.cells.pop())
    assert not saved(lambda nb: [cell.update(outputs=[]) for cell in nb.cells if cell.cell_type == "code"])
    model = {"type": "notebook", "content": "new"}
    notebooks.keep_unchanged(model, "new.ipynb", manager)
    assert model["content"] == "new", "a file that is not there yet"


def test_a_linux_without_a_screen_has_no_browser(monkeypatch: pytest.MonkeyPatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert lab.has_browser("linux") is False
