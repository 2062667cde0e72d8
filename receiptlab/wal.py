"""Whether a -wal or -journal beside a database file belongs to it. Standard library only.

After a crash the -wal holds calls that were acknowledged, so SQLite applies it on the next open. It
doesn't check which file it applies it to: a backup that was copied over the file gets pages of a history
it never had. So `Store.open` asks `foreign` first.

How it can know: bytes 60 to 63 of page 1 (PRAGMA user_version) hold the schema version and, above it, a
stamp. The first stamp is a hash of the new file's name, device and inode. `Store` raises it by one in its
first transaction that changes a row, and again whenever it finds that SQLite has restarted the WAL. A file
belongs to a WAL

- when the header on its page 1 is that of a version of page 1 in the WAL (a checkpoint wrote it there), or
- when it is what the first of them was made from: the same stamp or the one before, the same change counter
  or the one before, and a schema counter that is no higher. The backup API and VACUUM INTO give a copy
  counters of its own.

What it cannot see:

- A file copy that was made when this WAL began. Nothing is damaged, and the newest state comes back.
- A backup of a file that was itself restored can, rarely, have the counters that fit this WAL. Its pages are
  older, so damage is possible.
- A WAL with only one transaction, without page 1 in it, beside a file with equally many pages.

The formats: https://www.sqlite.org/fileformat2.html, sections 1.3, 3 and 4.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from struct import unpack
from typing import NamedTuple

SALTS = slice(16, 24)
"""Where the salts are in the header of a WAL."""

STAMPS = 1 << 23
"""A stamp is counted modulo this number."""

_WAL_MODE = b"\x02\x02"
_MAGIC, _JOURNAL_MAGIC = (0x377F0682, 0x377F0683), bytes.fromhex("d9d505f920a163d7")
_VERSION, _CHANGE, _PAGES = slice(18, 20), slice(24, 28), slice(28, 32)
_SCHEMA, _STAMP = slice(40, 44), slice(60, 63)
_HEADER = 100


class Frames(NamedTuple):
    """What the committed transactions of a WAL hold: each version of page 1, and the number of pages of the
    database after the last one."""

    images: tuple[bytes, ...] = ()
    pages: int = 0


def first_stamp(path: Path) -> int:
    """A number that tells a new file from others: a hash of its name, device and inode. Nothing is drawn."""
    try:
        info = os.stat(path)
        name = f"{path} {info.st_dev} {info.st_ino}"
    except OSError:  # a file of a simulated disk
        name = str(path)
    return (
        int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:3], "big") % STAMPS
    )


def foreign(path: Path) -> Path | None:
    """The -wal or -journal beside the file that doesn't belong to it; None where all is well.

    The file is opened and closed here, so no connection of this process may have it open. Other
    processes may: what they change meanwhile is read again. Raises OSError where a file can't be read.
    """
    path = Path(os.path.realpath(path))
    before = None
    while True:
        now = _strange(path)
        if now is None or now == before:
            return now and now[0]
        before = now


def _strange(path: Path) -> tuple | None:
    """The file beside `path` that doesn't belong to it, with all that was read; None where all is well."""
    journal, wal = Path(f"{path}-journal"), Path(f"{path}-wal")
    try:
        if _length(journal):
            page, saved = _page_1(path), _journalled(journal)
            if saved and not _same_but_mode(page, saved):
                return journal, page, saved
        if _length(wal):
            page = _page_1(path)
            # Checksums take long in Python; they are added up only where the WAL looks foreign.
            if not _belongs(page, _frames(wal, sums=False)):
                frames = _frames(wal, sums=True)
                if not _belongs(page, frames):
                    return wal, page, frames
    except FileNotFoundError:  # another process closed the database in this moment
        return None
    return None


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _page_1(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(_HEADER)
        size = int.from_bytes(start[16:18], "big")
        return start + file.read((65_536 if size == 1 else size) - _HEADER)


def _belongs(page: bytes, frames: Frames) -> bool:
    if not frames.pages:
        return True  # nothing was committed: SQLite takes nothing from it
    if not frames.images:  # then no transaction changed the number of pages
        return page[_VERSION] == _WAL_MODE and int.from_bytes(page[_PAGES], "big") == frames.pages
    # A power cut can leave a page half written, but not its first 100 bytes.
    return any(page[:_HEADER] == image[:_HEADER] for image in frames.images) or _before(
        page, frames.images[0]
    )


def _before(page: bytes, first: bytes) -> bool:
    """Whether the first version of page 1 in a WAL can have been made from this page."""
    stamp, change, schema = (
        int.from_bytes(first[part], "big") - int.from_bytes(page[part], "big")
        for part in (_STAMP, _CHANGE, _SCHEMA)
    )
    # A connection that writes page 1 again and again raises the change counter once.
    return stamp % STAMPS in (0, 1) and change in (0, 1) and schema >= 0


def _frames(wal: Path, sums: bool) -> Frames:
    """The committed frames; with `sums` only those that SQLite would apply."""
    with wal.open("rb") as file:
        header = file.read(32)
        if len(header) < 32 or (magic := int.from_bytes(header[:4], "big")) not in _MAGIC:
            return Frames()
        order, size, salts = "<>"[magic & 1], int.from_bytes(header[8:12], "big"), header[SALTS]
        total = _add(order, header[:24], (0, 0))
        if sums and total != unpack(">II", header[24:]):
            return Frames()
        images, open_, pages = (), (), 0
        while len(frame := file.read(24)) == 24 and frame[8:16] == salts:
            number, after = unpack(">II", frame[:8])
            if sums or number == 1:
                data = file.read(size)
            else:
                data = b""
                file.seek(size, os.SEEK_CUR)
            if sums:
                total = _add(order, frame[:8] + data, total)
                if total != unpack(">II", frame[16:]):
                    break
            if number == 1:
                open_ += (data,)
            if after:
                images, open_, pages = images + open_, (), after
        return Frames(images, pages)


def _add(order: str, data: bytes, total: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum of a WAL, carried on over `data`."""
    words = unpack(f"{order}{len(data) // 8 * 2}I", data[: len(data) // 8 * 8])
    one, two = total
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def _journalled(journal: Path) -> bytes:
    """Page 1 as a rollback journal would put it back, and any byte behind it; nothing where it is void."""
    with journal.open("rb") as file:
        header = file.read(28)
        if len(header) < 28 or header[:8] != _JOURNAL_MAGIC:
            return b""
        count, _, _, sector, size = unpack(">IIIII", header[8:])
        if not count:
            return b""
        file.seek(sector)
        number = int.from_bytes(file.read(4), "big")
        return file.read(size) + (b"" if number == 1 and count == 1 else b"more")


def _same_but_mode(page: bytes, saved: bytes) -> bool:
    """Whether only the change to WAL mode lies between: the one write that a `Store` makes with a journal."""
    return len(page) == len(saved) and all(
        page[part] == saved[part] for part in (slice(18), slice(20, 24), slice(28, 92))
    )
