"""The exceptions that a call can raise.

Definite     the call has written nothing
Indefinite   the caller cannot know whether the call took effect
WrongArgument   a ValueError or TypeError that names the argument, raised before anything is tried

No exception is both definite and indefinite.
"""

from __future__ import annotations


class LabError(Exception):
    """Any failure except a wrong argument."""

    outcome: str
    reason: str


class WrongArgument(Exception):
    """An argument is wrong, and nothing was tried. `argument` is its name, and the message begins with it."""

    def __init__(self, argument: str, message: str) -> None:
        self.argument = argument
        super().__init__(f"{argument} {message}")


class WrongType(WrongArgument, TypeError):
    """The argument has the wrong type."""


class WrongValue(WrongArgument, ValueError):
    """The argument has the right type, but its value is not allowed."""


class Definite(LabError):
    """The call failed and has written nothing."""

    outcome = "failed"


class Refused(Definite):
    """The contract said no. Nothing was written.

    `reason` is a code for programs. `fields` has the names of the fields that differ, if the reason is about
    fields. The message is one line for people: what is wrong and what to do.
    """

    outcome = "refused"

    def __init__(self, reason: str, message: str, fields: tuple[str, ...] = ()) -> None:
        self.reason = reason
        self.fields = fields
        super().__init__(f"{reason}: {message}")


class NotWritten(Definite):
    """The database could not do the transaction and rolled it back. Nothing was written.

    `reason` is SQLite's name for the error, such as SQLITE_CONSTRAINT_TRIGGER or SQLITE_FULL. It is `closed`
    for a closed store, `nested` for a write() inside a write(), and `other-process` in a forked child.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {message}")


class Locked(NotWritten):
    """Another connection held the write lock for longer than the timeout. Nothing was written."""


class FileRefused(Definite):
    """The file is not a database file of this lab, or can't be opened or created. It is unchanged.

    `reason` is one of: exists, missing, not-a-file, no-access, empty, hard-link, not-sqlite, application-id,
    schema-version, tables, foreign-wal, no-wal, sqlite-too-old.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {message}")


class Damaged(Definite):
    """SQLite found a damaged page when it opened the file, read, or ran a statement. Nothing was written.

    It is not a NotWritten, because trying again doesn't help: stop, and restore a backup. A COMMIT that finds
    damage raises Indefinite instead, with the same reason.
    """

    reason = "damaged"

    def __init__(self, message: str) -> None:
        super().__init__(f"{self.reason}: {message}")


class Indefinite(LabError):
    """The outcome is unknown: the call may have taken effect. Call again with the same key. But if `reason`
    is damaged, stop, and restore a backup."""

    outcome = "unknown"

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {message}")


class InjectedFault(Indefinite):
    """A failure injected at a failpoint. For the caller it is a lost answer.

    `reason` is the failpoint's name, which a real caller wouldn't know. A caller has to read the database or
    call again to find out whether the failure struck before or after the commit.
    """

    def __init__(self, point: str) -> None:
        super().__init__(point, "the answer was lost; ask again with the same key")
