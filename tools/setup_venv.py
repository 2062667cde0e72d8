"""Make .venv and install the project into it; do nothing if that was done already.

Run it with Python 3.11 or newer: python tools/setup_venv.py
An older Python must be able to read this file, so that it can say what is missing.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
INPUTS = ("pyproject.toml", "constraints.txt")
STAMP = "receiptlab-ready.json"


class SetupError(Exception):
    """What went wrong, as a sentence for the user."""


def check_python(version):
    if tuple(version[:2]) < OLDEST:
        raise SetupError(
            "Python 3.11 or newer is needed, this is {}.{}. Install a newer one (python.org, your system's "
            "packages, or conda) and say which: make test PYTHON=python3.12".format(*version[:2])
        )


def check_modules(find=importlib.util.find_spec):
    missing = [name for name in ("venv", "ensurepip") if find(name) is None]
    if missing:
        raise SetupError(
            "This Python has no module {}, so it cannot make a virtual environment. On Debian or Ubuntu: "
            "sudo apt install python3-venv".format(" and no module ".join(missing))
        )


def base_python():
    """The Python that makes the environment: never the one inside .venv, which may be removed."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def venv_python(venv):
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def wanted(root):
    """What the stamp must say for .venv to be ready."""
    digest = hashlib.sha256()
    for name in INPUTS:
        # The length keeps two files from being read as one.
        content = (root / name).read_bytes()
        digest.update(b"%d:" % len(content) + content)
    version = sys.version.split()[0]
    return {"root": str(root), "base": base_python(), "python": version, "inputs": digest.hexdigest()}


def read_stamp(venv):
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv, stamp):
    new = venv / (STAMP + ".new")
    new.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    os.replace(str(new), str(venv / STAMP))


def next_step(venv, want):
    """`ready`; `install` into what is there; or `rebuild` from nothing."""
    stamp = read_stamp(venv)
    same_place = all(stamp.get(key) == want[key] for key in ("root", "base", "python"))
    if not same_place or not venv_python(venv).exists():
        return "rebuild"
    return "ready" if stamp == want else "install"


def build(root, venv):
    made = subprocess.run(
        [base_python(), "-m", "venv", str(venv)],
        cwd=str(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if made.returncode:
        said = made.stdout.decode("utf-8", "replace").strip()
        raise SetupError(f"{said}\n.venv could not be made; Python's own words are above.")


def install(root, venv):
    """Run pip; the paths are relative to the project, so spaces in its path do no harm."""
    pip = [str(venv_python(venv)), "-m", "pip", "install", "-qq", "--no-input", "--disable-pip-version-check"]
    command = [*pip, "--retries", "2", "-c", "constraints.txt", "-e", ".[lab,test]"]
    # close_fds: pip keeps the lock too, so that nobody starts over while it still writes.
    if subprocess.run(command, cwd=str(root), check=False, close_fds=False).returncode:
        raise SetupError(
            "The packages could not be installed; pip's own words are above. Check the network (or the proxy "
            "that pip is told of) and run the same command again. There is nothing to clean up."
        )


def remove(folder):
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(str(folder))


def rebuild(root, venv):
    """Start from nothing. If that fails and there was a finished .venv, it comes back."""
    old = venv.with_name(venv.name + ".old")
    stamp = read_stamp(venv)
    remove(old)
    if stamp:
        venv.rename(old)
    remove(venv)
    try:
        build(root, venv)
        install(root, venv)
    except SetupError:
        remove(venv)
        if stamp:
            old.rename(venv)
            print(".venv is again what it was before.", flush=True)
        raise
    remove(old)


def update(root, venv):
    """Install into the .venv that is there; start from nothing if that fails."""
    stamp = read_stamp(venv)
    (venv / STAMP).unlink()
    try:
        install(root, venv)
    except SetupError:
        print("That failed. Making .venv anew ...", flush=True)
        write_stamp(venv, stamp)
        rebuild(root, venv)


@contextlib.contextmanager
def lock(root):
    """One setup at a time. The system lets go of the lock when the process ends, however it ends."""
    with open(str(root / ".venv.lock"), "a") as file:
        os.set_inheritable(file.fileno(), True)
        if not took_lock(file):
            print("Waiting for another setup of .venv to end ...", flush=True)
            while not took_lock(file):
                time.sleep(0.2)
        yield


def took_lock(file):
    """Try to take the lock; say whether this process has it now."""
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def set_up(root):
    venv = root / ".venv"
    want = wanted(root)
    if next_step(venv, want) == "ready":
        return
    check_modules()
    with lock(root):
        step = next_step(venv, want)  # another run may have done it while this one waited
        if step == "ready":
            return
        print("Installing the project's packages into .venv; the first time takes a minute ...", flush=True)
        (update if step == "install" else rebuild)(root, venv)
        write_stamp(venv, want)
    print(".venv is ready: {}".format(venv_python(pathlib.Path(".venv"))), flush=True)


def main():
    # A polite kill is treated like Ctrl-C, so that pip does not go on alone.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        check_python(sys.version_info)
        set_up(ROOT)
    except SetupError as problem:
        return str(problem)
    except OSError as problem:
        return f"Setting up .venv failed: {problem}. Close programs that use .venv and run this again."
    except KeyboardInterrupt:
        return "Stopped. The next run starts over."
    return 0


if __name__ == "__main__":
    sys.exit(main())
