"""Open the lessons in JupyterLab: python tools/lab.py [arguments for JupyterLab]

It opens your own copies of the lessons, in `workshop/`. The server's root is the project, so that you can
open the stored lessons, data/ and receiptlab/ beside them.
"""

import contextlib
import os
import secrets
import socket
import sys
import threading
import time
import webbrowser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the hook, and for tools

from tools import workshop  # noqa: E402

START = "workshop/00_start_here.ipynb"
PATIENCE = 60
"""How long the server may take to start, in seconds."""
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


def free_port(first: int = 8888) -> int:
    """The first port from `first` on that nothing listens on."""
    for port in range(first, first + 50):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    return 0


def port_in(extra: list[str]) -> int:
    """The port that the user's arguments ask for, or 0."""
    asked = [each.partition("=")[2] for each in extra if each.startswith(("--port=", "--ServerApp.port="))]
    return int(asked[-1]) if asked and asked[-1].isdecimal() else 0


def arguments(extra: list[str], port: int) -> list[str]:
    """The arguments for JupyterLab. The user's come last and win."""
    own = [
        *([] if port_in(extra) else [f"--port={port}"]),
        "--Application.log_level=ERROR",
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


def announce(port: int, address: str) -> None:
    """Print the address as soon as the server listens there."""
    for _ in range(PATIENCE * 10):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            print(f"Open {address}\nCtrl-C stops it.", flush=True)
            return
        time.sleep(0.1)


def prepare() -> None:
    """Write the copies, and sign the notebooks. Prints what is new or went wrong."""
    try:
        if new := workshop.build(ROOT / "notebooks", ROOT / "workshop"):
            print(f"Your own copies of the lessons are in workshop/ ({len(new)} new files).", flush=True)
        trust(own_notebooks())
    except OSError as error:
        print(
            f"Something could not be written, so pictures may be missing until you run a cell: {error}",
            flush=True,
        )


def main() -> None:
    from jupyterlab.labapp import main as jupyterlab

    prepare()
    extra = sys.argv[1:]
    port = port_in(extra) or free_port()
    token = os.environ.setdefault("JUPYTER_TOKEN", secrets.token_hex(16))
    others = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, (str(SETTINGS), others)))
    # A terminal in JupyterLab finds this Python, and with it `python -m receiptlab`.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    os.chdir(ROOT)
    print("Starting JupyterLab ...", flush=True)
    address = f"http://127.0.0.1:{port}/lab/tree/{START}?token={token}"
    threading.Thread(target=announce, args=(port, address), daemon=True).start()
    jupyterlab(arguments(extra, port))


if __name__ == "__main__":
    main()
