"""Open the lessons in JupyterLab: python tools/lab.py [arguments for JupyterLab]

The server's root is the project, so that data/ and receiptlab/ can be looked at beside a lesson.
"""

import os
import sys
import webbrowser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START = "notebooks/00_start_here.ipynb"
SETTINGS = ROOT / "tools/jupyter"  # no question about news over the first lesson, and no calls home


def has_browser(platform: str = sys.platform) -> bool:
    """On Linux a text browser in the terminal does not count."""
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
    """What JupyterLab is told. Arguments of the user come last and win."""
    own = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/{START}",
        "--ServerApp.answer_yes=True",  # Ctrl-C stops it without a question
    ]
    if is_root():
        own.append("--allow-root")
    if not has_browser():
        own.append("--no-browser")
    return own + extra


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
    jupyterlab(told)


if __name__ == "__main__":
    main()
