"""Open the lessons in JupyterLab: python tools/lab.py [arguments for JupyterLab]

The server's root is the project, so that you can open data/ and receiptlab/ beside a lesson.
"""

import contextlib
import os
import sys
import webbrowser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START = "notebooks/00_start_here.ipynb"
SETTINGS = ROOT / "tools/jupyter"  # no dialog about news over the first lesson, and no network requests
FOLDERS = ("notebooks", "workshop")


def has_browser(platform: str = sys.platform) -> bool:
    """Whether there is a browser. A text browser in the terminal does not count."""
    if platform.startswith("linux") and not any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    ):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def arguments(extra: list[str]) -> list[str]:
    """The arguments for JupyterLab. The user's come last and win."""
    own = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/{START}",
        "--ServerApp.answer_yes=True",  # Ctrl-C stops it without asking
        "--ContentsManager.pre_save_hook=tools.notebooks.keep_unchanged",
    ]
    if is_root():
        own.append("--allow-root")
    if not has_browser():
        own.append("--no-browser")
    return own + extra


def own_notebooks() -> list[Path]:
    """The lessons, exercises and solutions, and their copies in the workshop."""
    names = {path.name for path in ROOT.glob("notebooks/*.ipynb")}
    return sorted(
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*.ipynb") if path.name in names
    )


def trust(paths: list[Path]) -> None:
    """Sign notebooks, so that JupyterLab shows their stored pictures and colours as it opens them.

    The signatures are kept in Jupyter's data folder. No notebook changes.
    """
    import nbformat
    from jupyter_core.paths import jupyter_data_dir
    from nbformat.sign import NotebookNotary

    folder = Path(jupyter_data_dir())
    folder.mkdir(parents=True, exist_ok=True)
    notary = NotebookNotary(data_dir=str(folder))
    for path in paths:
        with contextlib.suppress(ValueError):  # work in progress that is not a valid notebook
            notary.sign(nbformat.read(path, as_version=4))
    notary.store.close()


def main() -> None:
    from jupyterlab.labapp import main as jupyterlab

    told = arguments(sys.argv[1:])
    if "--no-browser" in told:
        print("Open the address below that ends in a token. Ctrl-C stops the server.", flush=True)
    others = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, (str(SETTINGS), others)))
    # A terminal in JupyterLab finds this Python, and with it `python -m receiptlab`.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))  # for the hook
    try:
        trust(own_notebooks())
    except OSError as error:
        print(
            f"Pictures appear when you run a cell: the notebooks could not be signed ({error}).", flush=True
        )
    jupyterlab(told)


if __name__ == "__main__":
    main()
