"""Writes a result to the path that a user named. The path can be checked before a long run."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from receiptlab.errors import LabError


class OutputError(LabError):
    """Nothing can be written at this path. The message names the path and says what to do."""


def check(path: str | os.PathLike, overwrite: bool) -> Path:
    """Return the file to write, links followed. Call this before a long run: it creates a file in the folder
    and removes it again, so that a folder without write permission is noticed now.

    Raises OutputError for a folder, a device, a pipe, a loop of links, a folder that is missing or cannot be
    written, and for a file that exists unless `overwrite` is set.
    """
    path = Path(path)
    _check_existing(path, overwrite)
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise OutputError(f"{path}: cannot be written: its folder does not exist")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    return target


def _check_existing(path: Path, overwrite: bool) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not path.is_symlink() or overwrite:
            return
    except OSError as error:  # a loop of links, a name that is too long
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    else:
        if stat.S_ISDIR(mode):
            raise OutputError(f"{path}: is a folder; give the name of a file")
        if not stat.S_ISREG(mode):
            raise OutputError(f"{path}: is a device, a pipe or a socket; give the name of a file")
    if not overwrite:
        raise OutputError(f"{path}: already exists; add --overwrite, or choose another name")


def write(path: str | os.PathLike, data: bytes, overwrite: bool = False) -> None:
    """Write `data` to `path`, all or nothing. Raises OutputError as `check` does, or if the disk is full."""
    target, part = check(path, overwrite), None
    try:
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, prefix=target.name, delete=False) as file:
            part = file.name
            file.write(data)
        os.chmod(part, 0o644)
        os.replace(part, target)
    except BaseException as error:
        if part is not None:
            with contextlib.suppress(OSError):
                os.unlink(part)
        if isinstance(error, OSError):
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
        raise
