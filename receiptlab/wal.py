"""Check whether the -wal or -journal beside a database file belongs to it.

After a crash the -wal has calls that were acknowledged, so SQLite applies it on the next open, without
checking that it belongs to the file. If somebody has copied a backup over the file, SQLite writes pages of
another history into the backup. So `Store.open` calls `foreign` first.

The check uses a stamp. Bytes 60 to 63 of page 1 (PRAGMA user_version) hold the schema version and, above it,
the stamp. A new file's stamp is a hash of its name, device and inode. `Store` raises it by one in its first
transaction that changes a row, and again whenever it finds that SQLite has restarted the WAL. A file belongs
to a WAL in two cases:

- The header on its page 1 is the header of a version of page 1 in the WAL: a checkpoint wrote it there.
- The first version of page 1 in the WAL was made from the file's page 1. They have the same stamp, or the
  file has the one before. The same holds for the change counter. The file's schema counter is no higher. (The
  backup API and VACUUM INTO give a copy other counters.)

What the check misses:

- A copy of the file that was made when this WAL began. Nothing is damaged, and the newest state comes back.
- Rarely, a backup of a file that was itself restored, when its counters fit this WAL. Its pages are older, so
  damage is possible.
- A WAL with only one transaction and without page 1, beside another file with the same number of pages.

The formats: https://www.sqlite.org/fileformat2.html, sections 1.3, 3 and 4.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from struct import unpack
from typing import NamedTuple

SALTS = slice(16, 24)
"""The position of the salts in the header of a WAL."""

STAMPS = 1 << 23
"""The number of different stamps. After the last one they start again at 0."""

_WAL_MODE = b"\x02\x02"
_MAGIC, _JOURNAL_MAGIC = (0x377F0682, 0x377F0683), bytes.fromhex("d9d505f920a163d7")
_VERSION, _CHANGE, _PAGES = slice(18, 20), slice(24, 28), slice(28, 32)
_SCHEMA, _STAMP = slice(40, 44), slice(60, 63)
_HEADER = 100


class Frames(NamedTuple):
    """The committed part of a WAL: each version of page 1, and the number of pages that the database has
    after the last transaction."""

    images: tuple[bytes, ...] = ()
    pages: int = 0


def first_stamp(path: Path) -> int:
    """The stamp of a new file: a hash of its name, device and inode, so nothing is random."""
    try:
        info = os.stat(path)
        name = f"{path} {info.st_dev} {info.st_ino}"
    except OSError:  # a file of a simulated disk
        name = str(path)
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:3], "big") % STAMPS


def foreign(path: Path) -> Path | None:
    """The -wal or -journal beside the file that doesn't belong to it, or None.

    This opens and closes the file, so this process must not have it open. Other processes may have it open
    and change it meanwhile, so the answer counts only if it is the same twice. Raises OSError if a file can't
    be read.
    """
    path = Path(os.path.realpath(path))
    before = None
    while found := _compare(path):
        if found == before:
            return found[0]
        before = found
    return None


def _compare(path: Path) -> tuple[Path, bytes, bytes | Frames] | None:
    """The file beside `path` that doesn't belong to it, with both sides of the comparison, or None."""
    journal, wal = Path(f"{path}-journal"), Path(f"{path}-wal")
    try:
        if _length(journal):
            page, saved = _page_1(path), _journalled(journal)
            if saved and not _same_but_mode(page, saved):
                return journal, page, saved
        if _length(wal):
            page = _page_1(path)
            # Checksums are slow in Python, so they are computed only if the WAL seems foreign without them.
            if not _belongs(page, _frames(wal, sums=False)):
                frames = _frames(wal, sums=True)
                if not _belongs(page, frames):
                    return wal, page, frames
    except FileNotFoundError:  # another process has just closed the database
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
        return True  # nothing was committed, so SQLite applies nothing
    if not frames.images:  # so no transaction changed the number of pages
        return page[_VERSION] == _WAL_MODE and int.from_bytes(page[_PAGES], "big") == frames.pages
    # A power cut can leave a page half written, but not its first 100 bytes.
    checkpointed = any(page[:_HEADER] == image[:_HEADER] for image in frames.images)
    return checkpointed or _before(page, frames.images[0])


def _before(page: bytes, first: bytes) -> bool:
    """Whether `first`, the first version of page 1 in a WAL, can have been made from `page`."""
    stamp, change, schema = (
        int.from_bytes(first[part], "big") - int.from_bytes(page[part], "big")
        for part in (_STAMP, _CHANGE, _SCHEMA)
    )
    # A connection raises the change counter only once, however often it writes page 1.
    return stamp % STAMPS in (0, 1) and change in (0, 1) and schema >= 0


def _frames(wal: Path, sums: bool) -> Frames:
    """Read the committed frames. With `sums`, only those whose checksums are right, as SQLite does."""
    with wal.open("rb") as file:
        header = file.read(32)
        if len(header) < 32 or (magic := int.from_bytes(header[:4], "big")) not in _MAGIC:
            return Frames()
        order, size, salts = "<>"[magic & 1], int.from_bytes(header[8:12], "big"), header[SALTS]
        total = _add(order, header[:24], (0, 0))
        if sums and total != unpack(">II", header[24:]):
            return Frames()
        images: tuple[bytes, ...] = ()
        open_: tuple[bytes, ...] = ()
        pages = 0
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
    """SQLite's checksum of a WAL, continued over `data`."""
    words = unpack(f"{order}{len(data) // 8 * 2}I", data[: len(data) // 8 * 8])
    one, two = total
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def _journalled(journal: Path) -> bytes:
    """Page 1 as a rollback journal would restore it, plus some bytes if it would restore more than that page.
    Empty if the journal would restore nothing."""
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
    """Whether the pages differ only by the switch to WAL mode, the only write that a `Store` journals."""
    return len(page) == len(saved) and all(
        page[part] == saved[part] for part in (slice(18), slice(20, 24), slice(28, 92))
    )
