"""For intake/ and work/ only, until their calls have typed commands. Then delete this file."""

from types import SimpleNamespace

from receiptlab.values import check


def arguments(local):
    """A call's arguments by their names, from its `locals()`."""
    named = local.copy()
    del named["self"]
    return named


def checked(rules, named):
    """The arguments as one object, after each has passed the rule of its name."""
    check(rules, named)
    return SimpleNamespace(**named)
