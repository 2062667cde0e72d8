"""How a call can end other than well.

Two kinds never share a class. `Definite`: the call is known to have written nothing.
`Indefinite`: nobody can tell from the answer alone whether it took effect.
A wrong argument is neither: it is a ValueError or TypeError that names the argument, raised before
anything is tried.
"""

from __future__ import annotations


class LabError(Exception):
    """Every failure of the lab that is not a wrong argument."""


class WrongArgument(Exception):
    """An argument is wrong; nothing was tried. `argument` is its name, and begins the message."""

    def __init__(self, argument: str, message: str) -> None:
        self.argument = argument
        super().__init__(f"{argument} {message}")


class WrongType(WrongArgument, TypeError):
    """An argument of a wrong type."""


class WrongValue(WrongArgument, ValueError):
    """An argument of the right type with a value that is not allowed."""


class Definite(LabError):
    """The call failed and nothing of it was written."""

    outcome = "failed"


class Refused(Definite):
    """The contract said no. Nothing was written.

    `reason` is a code for programs. `fields` names what differs, where the reason is about
    fields. The message is one sentence for people: what is wrong and what to do.
    """

    outcome = "refused"

    def __init__(self, reason: str, message: str, fields: tuple[str, ...] = ()) -> None:
        self.reason = reason
        self.fields = fields
        super().__init__(f"{reason}: {message}")


class NotWritten(Definite):
    """The database could not do the transaction and rolled it back. Nothing was written.

    `reason` is SQLite's name of the error, such as SQLITE_CONSTRAINT_TRIGGER or SQLITE_FULL; or
    `closed` for a store that was closed, or `nested` for a write() inside a write().
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {message}")


class Locked(NotWritten):
    """Another connection held the write lock for longer than the timeout. Nothing was written."""


class FileRefused(Definite):
    """The file is not a database file of this lab, or cannot be made one. The file is unchanged.

    `reason` is one of: exists, missing, not-a-file, no-access, empty, not-sqlite, application-id,
    schema-version, tables, no-wal, sqlite-too-old.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {message}")


class Damaged(Definite):
    """SQLite met a damaged page while it opened the file, read, or ran a statement. Nothing was written.

    Not a kind of NotWritten, because trying again doesn't help: stop, and restore a backup. A COMMIT
    that met damage raises Indefinite instead, with the same reason.
    """

    reason = "damaged"

    def __init__(self, message: str) -> None:
        super().__init__(f"{self.reason}: {message}")


class Indefinite(LabError):
    """The outcome is unknown: the call may have taken effect. Ask again with the same key, except where
    `reason` is damaged: then stop, and restore a backup."""

    outcome = "unknown"

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {message}")


class InjectedFault(Indefinite):
    """A failure made on purpose at a named point. For the caller it is a lost answer.

    `reason` is the point's name, which the lab knows and a caller would not. A caller has to look
    into the database, or to ask again, to learn on which side of the commit it struck.
    """

    def __init__(self, point: str) -> None:
        super().__init__(point, "the answer was lost; ask again with the same key")
