"""What setting up decides and says. Nothing is installed here."""

import ast
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from tools import lab, notebooks, setup_venv, workshop


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a finished .venv."""
    for name in setup_venv.INPUTS:
        (tmp_path / name).write_text(f"# {name}\n")
    python = setup_venv.venv_python(tmp_path / ".venv")
    python.parent.mkdir(parents=True)
    python.touch()
    setup_venv.write_stamp(tmp_path / ".venv", setup_venv.wanted(tmp_path))
    return tmp_path


def step(root: Path) -> str:
    return setup_venv.next_step(root / ".venv", setup_venv.wanted(root))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that would have run; the tests may make one fail."""
    seen: list[str] = []

    def build(root: Path, venv: Path) -> None:
        seen.append("build")
        setup_venv.venv_python(venv).parent.mkdir(parents=True)
        setup_venv.venv_python(venv).touch()

    monkeypatch.setattr(setup_venv, "build", build)
    monkeypatch.setattr(setup_venv, "install", lambda root, venv: seen.append("install"))
    return seen


def failing(*arguments: object) -> None:
    raise setup_venv.SetupError("pip failed")


# Decisions


def test_a_finished_environment_is_left_alone(root: Path, calls: list[str], capsys):
    setup_venv.set_up(root)
    assert (step(root), calls, capsys.readouterr().out) == ("ready", [], "")


@pytest.mark.parametrize("name", setup_venv.INPUTS)
def test_changed_bounds_are_installed_into_what_is_there(root: Path, calls: list[str], name: str):
    (root / name).write_text("# changed\n")
    assert step(root) == "install"
    setup_venv.set_up(root)
    assert (step(root), calls) == ("ready", ["install"])


def test_a_moved_checkout_is_rebuilt(root: Path, calls: list[str], tmp_path: Path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(root, moved, ignore=shutil.ignore_patterns("elsewhere"))
    assert step(moved) == "rebuild"
    setup_venv.set_up(moved)
    assert (step(moved), calls) == ("ready", ["build", "install"])


@pytest.mark.parametrize("text", [None, "", "{", "[]"], ids=["no stamp", "empty", "cut off", "a list"])
def test_an_interrupted_run_is_rebuilt(root: Path, calls: list[str], text: str | None):
    stamp, leftover = root / ".venv" / setup_venv.STAMP, root / ".venv" / "half a package"
    stamp.unlink() if text is None else stamp.write_text(text)
    leftover.touch()
    assert step(root) == "rebuild"
    setup_venv.set_up(root)
    assert (step(root), calls, leftover.exists()) == ("ready", ["build", "install"], False)


@pytest.mark.parametrize("key", ["python", "base"])
def test_another_python_is_a_rebuild(root: Path, key: str):
    setup_venv.write_stamp(root / ".venv", setup_venv.wanted(root) | {key: "another"})
    assert step(root) == "rebuild"


def test_a_python_that_is_gone_is_a_rebuild(root: Path):
    setup_venv.venv_python(root / ".venv").unlink()
    assert step(root) == "rebuild"


# Failures


def test_an_interrupted_update_leaves_no_stamp(root: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(root: Path, venv: Path) -> None:
        raise KeyboardInterrupt

    (root / "pyproject.toml").write_text("# changed\n")
    monkeypatch.setattr(setup_venv, "install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        setup_venv.set_up(root)
    assert step(root) == "rebuild"


def test_without_a_network_the_old_environment_stays(root: Path, calls: list[str], monkeypatch):
    (root / "pyproject.toml").write_text("# changed\n")
    (root / ".venv" / "a package").touch()
    monkeypatch.setattr(setup_venv, "install", failing)
    with pytest.raises(setup_venv.SetupError):
        setup_venv.set_up(root)
    assert (step(root), calls) == ("install", ["build"])
    assert (root / ".venv" / "a package").exists() and not (root / ".venv.old").exists()


def test_a_failed_first_run_leaves_nothing(root: Path, calls: list[str], monkeypatch):
    shutil.rmtree(root / ".venv")
    monkeypatch.setattr(setup_venv, "install", failing)
    with pytest.raises(setup_venv.SetupError):
        setup_venv.set_up(root)
    assert not (root / ".venv").exists()


def test_pip_that_fails_gives_a_sentence(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    with pytest.raises(setup_venv.SetupError, match="Check the network"):
        setup_venv.install(root, root / ".venv")


def test_only_one_setup_at_a_time(root: Path):
    with setup_venv.lock(root), open(root / ".venv.lock", "a") as second:
        assert not setup_venv.took_lock(second)
    with setup_venv.lock(root):
        pass


# Sentences


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 8, 18), (3, 10, 13)])
def test_an_old_python_is_told_what_to_install(version: tuple[int, ...]):
    with pytest.raises(setup_venv.SetupError) as told:
        setup_venv.check_python(version)
    assert str(told.value).startswith(
        f"Python 3.11 or newer is needed, this is {version[0]}.{version[1]}. Install"
    )


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 0), (4, 0, 0)])
def test_a_new_python_is_good(version: tuple[int, ...]):
    setup_venv.check_python(version)


def test_an_old_python_can_read_the_script():
    source = Path(setup_venv.__file__).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 8))


def test_missing_modules_are_told():
    with pytest.raises(setup_venv.SetupError, match=r"no module ensurepip.*apt install python3-venv"):
        setup_venv.check_modules(lambda name: None if name == "ensurepip" else name)


# The Makefile


def run_make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run make with a PATH that holds only what the test put into the folder."""
    make = shutil.which("make")
    if make is None or os.name == "nt":
        pytest.skip("make is not here")
    command = [make, "-f", str(setup_venv.ROOT / "Makefile"), *arguments]
    environment = {"PATH": str(folder)}
    return subprocess.run(command, cwd=setup_venv.ROOT, env=environment, capture_output=True, text=True)


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_no_python_at_all_is_one_sentence(tmp_path: Path):
    run = run_make(tmp_path, "setup")
    assert run.returncode != 0
    assert run.stderr.startswith("No Python 3.11 or newer was found. Install one")


def test_the_first_python_that_is_new_enough_sets_up(tmp_path: Path):
    script(tmp_path / "python3", "exit 1")  # an old one: it fails the question for its version
    script(tmp_path / "python3.12", '[ "$1" = -c ] || echo "3.12 runs $1"')
    run = run_make(tmp_path, "setup")
    assert (run.returncode, run.stdout) == (0, "3.12 runs tools/setup_venv.py\n")


def test_a_python_that_was_named_is_taken(tmp_path: Path):
    folder = tmp_path / "with space"
    folder.mkdir()
    script(folder / "mine", 'echo "mine runs $1"')
    run = run_make(tmp_path, "setup", f"PYTHON={folder / 'mine'}")
    assert (run.returncode, run.stdout) == (0, "mine runs tools/setup_venv.py\n")


def test_help_is_the_default_and_names_every_target(tmp_path: Path):
    run = run_make(tmp_path)
    for target in ["lab", "test", "run", "bench", "html", "notebooks", "lint", "format", "clean"]:
        assert f"make {target} " in run.stdout


# JupyterLab


def test_the_lab_opens_the_first_lesson_with_the_project_as_root(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lab, "has_browser", lambda: False)
    monkeypatch.setattr(lab, "is_root", lambda: True)
    told = lab.arguments(["--port=9000"])
    assert f"--ServerApp.root_dir={setup_venv.ROOT}" in told
    assert "--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb" in told
    assert told[-3:] == ["--allow-root", "--no-browser", "--port=9000"]


def test_the_lab_signs_its_own_notebooks_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    shutil.copytree(setup_venv.ROOT / "notebooks", tmp_path / "notebooks")
    workshop.build(tmp_path / "notebooks", tmp_path / "workshop")
    foreign, broken = (tmp_path / f"notebooks/{name}" for name in ("solutions/mine.ipynb", "09_broken.ipynb"))
    foreign.write_bytes(
        (tmp_path / "notebooks/01_one_transaction.ipynb").read_bytes().replace(b"O-1", b"O-2")
    )
    broken.write_text("no notebook at the moment")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}

    lab.trust(lab.own_notebooks())

    notary = NotebookNotary(data_dir=str(tmp_path / "data"))
    lessons = len(list(setup_venv.ROOT.glob("notebooks/*.ipynb")))
    signed = [path for path in before if path != broken and notary.check_signature(nbformat.read(path, 4))]
    assert len(signed) == 6 * lessons and foreign not in signed
    assert {path: path.read_bytes() for path in before} == before
    notary.store.close()


def test_a_save_keeps_the_file_where_a_reader_sees_no_difference(tmp_path: Path):
    path = tmp_path / "01.ipynb"
    path.write_bytes((setup_venv.ROOT / "notebooks/01_one_transaction.ipynb").read_bytes())
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
