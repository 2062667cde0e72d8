"""`Store.create` and `Store.open` on a disk that fails (for H-5)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from receiptlab import database_file
from receiptlab.errors import LabError
from receiptlab.faults.disk import reopening
from receiptlab.faults.disk.log import Disk, Fault, nothing
from receiptlab.faults.disk.reopening import NAME
from receiptlab.faults.disk.workloads import Workload
from receiptlab.store import Store

if TYPE_CHECKING:
    from receiptlab.faults.disk.vfs import Setting


def create(workload: Workload, setting: Setting, where: Path, fault: Fault) -> tuple[str, str]:
    """Create a database file. Returns the outcome (empty when no fault struck), and what is wrong, if
    anything. A file that could not be created must not exist, and the call must have failed definitely."""
    reopening.lay({}, where)
    disk = Disk({NAME: b""})
    disk.before = fault
    with _over(disk, setting):
        word, wrong = _tried(lambda: Store.create(where / NAME, workload.schema).close())
    if word == "failed" and not wrong and any(where.iterdir()):
        wrong = "after failed: a file was left behind"
    if word == "unknown":
        wrong = "the outcome doesn't say whether there is a file"
    if word == "accepted":
        found = reopening.look(reopening.lay(disk.files(), where), workload.rules)
        wrong = found.refused or found.damage
    return word if fault.struck else "", wrong


def reopen(workload: Workload, setting: Setting, where: Path, fault: Fault) -> tuple[str, str]:
    """Open a database file, and open it again when the disk works."""
    path = where / NAME
    reopening.lay({}, where)
    Store.create(path, workload.schema).close()
    before = reopening.look(path, workload.rules)
    disk = Disk({NAME: path.read_bytes()})
    disk.before = fault
    with _over(disk, setting):
        word, wrong = _tried(lambda: Store.open(path).close())
        struck, disk.before = fault.struck, nothing
        again, why = _tried(lambda: Store.open(path).close())
    if again != "accepted":
        wrong = wrong or f"opened again, it ended as {again} {why}"
    if reopening.look(reopening.lay(disk.files(), where), workload.rules) != before:
        wrong = wrong or "the file has other contents"
    return word if struck else "", wrong


TRIALS: dict[str, Callable[[Workload, Setting, Path, Fault], tuple[str, str]]] = {
    "Store.create": create,
    "Store.open": reopen,
}


def _tried(call: Callable[[], None]) -> tuple[str, str]:
    """The outcome, and what is wrong if the error isn't one of the lab's."""
    try:
        call()
    except LabError as error:
        return error.outcome, ""
    except Exception as error:
        return "raw", f"the caller got {type(error).__name__}: {error}"
    return "accepted", ""


@contextlib.contextmanager
def _over(disk: Disk, setting: Setting) -> Iterator[None]:
    """Make `database_file.connect` use this disk. The header is read from the real file, which is updated
    from the disk whenever a connection closes."""
    from receiptlab.faults.disk.vfs import Connection

    real = database_file.sqlite3

    def connect(address: str, **how: object) -> object:
        if "immutable" in address:
            return real.connect(address, **how)
        db = Connection(disk, setting.pages)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        close, path = db.close, Path(unquote(urlsplit(address).path))

        def closed() -> None:
            close()
            path.write_bytes(disk.files()[NAME])

        db.close = closed
        return db

    real_names = {"Error": real.Error, "sqlite_version_info": real.sqlite_version_info}
    database_file.sqlite3 = SimpleNamespace(connect=connect, **real_names)
    try:
        yield
    finally:
        database_file.sqlite3 = real
