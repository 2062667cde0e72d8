"""JupyterLab on a copy of the lessons, started by the command of `make lab`."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import workshop
from tools.notebooks import ROOT

# Nothing is saved behind the test's back, and every cell is in the page, also far below.
SETTINGS = {
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none", "kernelShutdown": True},
}
PATIENCE = 60  # seconds, for the start and for the end
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Lab:
    """A running JupyterLab: its address, its secret, and the root of its files."""

    url: str
    token: str
    root: Path

    def page_of(self, notebook: str) -> str:
        return f"{self.url}/lab/tree/{notebook}?token={self.token}&reset"

    def answers(self) -> bool:
        request = urllib.request.Request(f"{self.url}/api", headers={"Authorization": f"token {self.token}"})
        with contextlib.suppress(OSError), NO_PROXY.open(request) as answer:
            return bool(answer.read())
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def copied(folder: Path) -> Path:
    """A project of which nothing is kept: the lessons and what `make lab` runs."""
    for name in ("notebooks", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    workshop.build(folder / "notebooks", folder / "workshop")
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Configuration, settings, workspaces and runtime files of its own."""
    for name, values in SETTINGS.items():
        path = folder / "settings/@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    folders = {key: str(folder / name) for key, name in own.items()}
    # The package is the one that the tests import, wherever the kernel starts.
    return os.environ | folders | {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_PATH": ""}


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """The server in a folder of its own; its kernels end with it."""
    root = copied(folder / "project")
    port, token = free_port(), secrets.token_hex(16)
    command = [sys.executable, "tools/lab.py", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0"]
    env = environment(folder) | {"JUPYTER_TOKEN": token}
    with open(folder / "server.log", "w+b") as log:
        server = subprocess.Popen(command, cwd=root, env=env, stdout=log, stderr=log)
        try:
            lab = Lab(f"http://127.0.0.1:{port}", token, root)
            wait_until_up(server, lab, folder / "server.log")
            yield lab
        finally:
            end(server)


def end(server: subprocess.Popen) -> None:
    """It takes its kernels with it; a kernel whose server was killed ends by itself."""
    server.terminate()
    try:
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def wait_until_up(server: subprocess.Popen, lab: Lab, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not lab.answers():
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.1)
