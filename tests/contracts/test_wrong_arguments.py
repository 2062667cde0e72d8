"""Junk in place of every argument of every call: a wrong argument is named, and nothing is written.

Whatever comes in, only a WrongArgument (a ValueError or TypeError), another word of the lab, or an answer
comes out.
"""

import contextlib
import inspect
import itertools

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from receiptlab.contracts.intake.intake import DeliverItem, Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver, Writer
from receiptlab.contracts.relay import Relay
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work
from receiptlab.errors import LabError, WrongArgument
from receiptlab.experiment.sandbox import Sandbox
from receiptlab.models import PAIRS
from receiptlab.store import Store
from receiptlab.values import MAX_BODY, sha256


class Text(str):
    """It looks like a text."""


class Number(int):
    """It looks like a number."""


class Spiteful:
    """It fails whatever is done with it."""

    def fail(self, *args):
        raise RuntimeError("spite")

    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __len__ = __bool__ = __index__ = __str__ = __iter__ = fail
    __hash__ = object.__hash__


A = sha256("A")
JUNK = [
    *(None, True, False, 0, 1, -1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400, 0.0, 1.0, -1.5, 2.0**63),
    *(float("nan"), float("inf"), 1j, b"", b"x", bytearray(b"x"), "", " ", "x", "1", "a\nb", "\0", "\x1b[2J"),
    *("\ud800", "x\udfff", "\u202e", "\u00e9" * 128, "x" * 129, "x" * 1_025, "x" * 4_097, "\u00fc" * 513),
    *("x" * (MAX_BODY + 1), A, A.upper(), A + "\n", A[:-1] + "g", "\uff10" * 64, "'; DROP TABLE work; --"),
    *(
        Text("x"),
        Text(A),
        Number(1),
        [],
        ["x"],
        (),
        ("x",),
        {},
        {"x": 1},
        set(),
        object,
        object(),
        Spiteful(),
        len,
    ),
]

OWNER = {"scope": "s", "work": "w", "now": 10}
RESULT = {"actor": "a", "key": "k", "revision": 1, "epoch": 1, "policy": "p", "fence": 1, "result_digest": A}
OPERATION = {"namespace": "n", "epoch": 1, "operation": "o"}
NAME = {"key_kind": "explicit", "tenant": "t", "namespace": "n", "key": "k"}
KEEP = {"retain_until": 100, "tombstone_until": 200, "now": 10}
WORKER = {"namespace": "n", "processor": "p", "worker": "w", "now": 10}
TAKE = {"limit": 1, "hold_for": 100, "max_attempts": 3}
WRITER = {"owner": "o", "instance": "i", "now": 10}

CALLS = {
    Owner: {
        "add": OWNER | {"work": "v", "revision": 1, "epoch": 1, "policy": "p"},
        "claim": OWNER | {"actor": "a", "until": 20},
        "accept": OWNER | RESULT,
        "cancel": OWNER,
        "set_authority": OWNER | {"epoch": 1, "policy": "p"},
        "revoke": {"scope": "t", "now": 10},
        "renew": OWNER | {"actor": "a", "fence": 1, "until": 20},
        "release": OWNER | {"actor": "a", "fence": 1},
        "find": {"scope": "s", "key": "k", "epoch": 1, "policy": "p"},
        "get": {"scope": "s", "work": "w"},
    },
    Retention: {
        "execute": OPERATION | {"payload": "x", "now": 10},
        "expire_result": OPERATION | {"now": 10},
        "close_and_collect": {"namespace": "n", "through": 0, "now": 10},
        "effects": OPERATION,
    },
    Intake: {
        "classify": NAME | {"digest": A},
        "stage": KEEP | {"decision": "first", "reference": ""},
        "deliver": NAME | KEEP | {"digest": A, "changed_as": "revision", "reference": ""},
        "sweep": {"limit": 1, "now": 10},
        "erase_identity": NAME | {"key": "other", "now": 10},
        "erase_namespace": {"tenant": "t", "namespace": "other", "now": 10},
        "erase_tenant": {"tenant": "other", "now": 10},
        "erase_digest": {"identity": sha256("another"), "now": 10},
        "erasures": {"after": 0, "limit": 1},
        "scrub": {},
        "item": NAME | {"digest": A},
        "stage_first": KEEP | {"first": None, "reference": ""},
        "stage_revision": KEEP | {"handle": None, "reference": ""},
        "stage_collision": {"handle": None, "reference": "", "now": 10},
        "stage_seen": {"again": None, "now": 10},
        "stage_delivery": NAME | KEEP | {"digest": A, "changed_as": "revision", "reference": ""},
        "stage_sweep": {"limit": 1, "now": 10},
        "stage_erasure": {"identity": sha256("other"), "now": 10},
    },
    Work: {
        "deliver": {
            **{"tenant": "t", "namespace": "n", "key": "k", "digest": A, "processor": "p"},
            **{"processor_revision": "1", **KEEP},
        },
        "acquire": WORKER,
        "acquire_sweep": {"worker": "w", "now": 10},
        "reserve": WORKER | TAKE | {"token": 1},
        "next": WORKER | TAKE,
        "renew": {"work": 1, "fence": 1, "hold_for": 100, "now": 10},
        "history": {"work": 1},
        "discard": {"work": 1, "now": 10},
        "discard_dead": {"keep_for": 100, "limit": 1, "now": 10},
        "ahead": {"horizon": 100, "now": 10},
        "reset_ahead": {"horizon": 100, "limit": 1, "now": 10},
        "complete": {"work": 1, "fence": 1, "reference": "", "now": 10},
        "fail": {
            **{"work": 1, "fence": 1, "error": "e", "detail": "", "max_attempts": 3, "base": 1, "cap": 1},
            "now": 10,
        },
        "requeue": {"work": 1, "now": 10},
        "sweep": {"worker": "w", "token": 1, "limit": 1, "max_attempts": 3, "now": 10},
        "get": {"work": 1},
        "dead": {"after": 0, "limit": 1},
        "counts": {},
        "stage_work": {
            **{"identity": A, "revision": 1, "processor": "p", "processor_revision": "1", "now": 10},
        },
        "stage_complete": {"claim": None, "reference": "", "now": 10},
        "guard": {"claim": None, "now": 10},
    },
    Receiver: {
        "register": WRITER,
        "apply": WRITER
        | {"generation": 1, "key": "k", "subject": "s", "revision": 1, "fence": 1, "digest": A},
        "issue": WRITER | {"generation": 1, "enforced": "fence"},
        "look_up": {"owner": "o", "key": "k"},
        "known": {"owner": "o", "subject": "s"},
    },
    Relay: {
        "write_as": {"writer": Writer("o", 1, "i")},
        "pending": {"limit": 1},
        "send": {
            **{"receive": print, "look_up": print, "limit": 1, "now": 10},
            **{"max_attempts": 3, "base": 1, "cap": 1},
        },
        "reconciliation": {},
        "delayed": {},
        "get": {"outbox": 1},
        "close_entry": {"outbox": 1, "verdict": "happened", "note": "n", "now": 10},
        "jump": {"receiver": None, "now": 10},
    },
}
STAGED = ("stage_first", "stage_revision", "stage_collision", "stage_seen", "stage_delivery")
STAGED += ("stage_sweep", "stage_erasure", "stage_work", "stage_complete", "guard")
"""The calls that write into the caller's transaction."""

BESIDE = {
    ("claim", "now"): "until",  # it ends after it began
    ("renew", "now"): "until",
    ("classify", "key_kind"): "key",  # a key made from content is the content
    ("item", "key_kind"): "key",
    ("deliver", "key_kind"): "key",
    ("stage_delivery", "key_kind"): "key",
    ("stage", "retain_until"): "tombstone_until",
    ("deliver", "retain_until"): "tombstone_until",
    ("stage_first", "retain_until"): "tombstone_until",
    ("stage_revision", "retain_until"): "tombstone_until",
    ("stage_delivery", "retain_until"): "tombstone_until",
}
"""Where a value is right by itself and wrong beside another argument: whose name comes out."""

EVERY = [
    (kind, call, name) for kind, calls in CALLS.items() for call, right in calls.items() for name in right
]


@pytest.fixture
def contracts(tmp_path):
    """Makes a contract on a file in which something was done."""
    with contextlib.ExitStack() as stack:

        def make(kind):
            store = stack.enter_context(Store.create(tmp_path / f"{kind.__name__}.db", kind.SCHEMA))
            store.db.execute("PRAGMA synchronous = OFF")
            contract = kind(store)
            _prepare(contract)
            return contract

        yield make


def _prepare(contract):
    if isinstance(contract, Owner):
        contract.add(**OWNER, revision=1, epoch=1, policy="p")
        contract.claim(**OWNER | {"now": 1}, actor="a", until=1_000)
    elif isinstance(contract, Retention):
        contract.execute(**OPERATION | {"epoch": 2}, payload="x", now=1)
    elif isinstance(contract, Intake):
        contract.deliver(**CALLS[Intake]["deliver"] | {"key": "first"})
        contract.classify(**NAME, digest=A)
    elif isinstance(contract, Work):
        contract.deliver(**CALLS[Work]["deliver"])
        contract.next(**WORKER | TAKE | {"now": 10, "hold_for": 10_000})
    elif isinstance(contract, Receiver):
        contract.register(**WRITER)


def rightly(contract, call, right):
    """Right arguments; those that a call of the contract has to give come from there."""
    right = dict(right)
    other = NAME | {"key": "first"}
    contract.asked = getattr(contract, "asked", 0) + 1  # so that nothing was there before
    if call == "stage_first":
        right["first"] = contract.classify(**NAME | {"key": f"key {contract.asked}"}, digest=A)
    if "handle" in right:
        right["handle"] = contract.classify(**other, digest=sha256(str(contract.asked))).handle
    if "again" in right:
        right["again"] = contract.classify(**other, digest=A)
    if "claim" in right:
        right["claim"] = contract.claim
    return right


def made(contract, call, args):
    """How the call ended: a word of the lab, or its answer."""
    try:
        if call not in STAGED:
            return getattr(contract, call)(**args)
        if call == "stage_delivery":
            args = {"delivery": DeliverItem(**args)}
        with contract.store.write() as db:
            return getattr(contract, call)(db, **args)
    except LabError as error:
        return error


def dump(contract):
    return list(contract.store.db.iterdump())


def refuse(contract, call, args, name, before):
    """A wrong argument has written nothing. Gives the file's dump after the call."""
    changes = contract.store.db.total_changes
    try:
        made(contract, call, args)
    except WrongArgument as wrong:
        assert isinstance(wrong, (TypeError, ValueError))
        assert wrong.argument in (name, BESIDE.get((call, name))), (wrong.argument, name, args[name])
        assert contract.store.db.total_changes == changes, (call, name)
        assert dump(contract) == before
        return before
    return dump(contract)


def test_every_call_and_every_argument_is_here():
    for kind, calls in CALLS.items():
        assert set(kind.calls()) - {"stage"} <= set(calls) | {"stage"}
        for call, right in calls.items():
            if call == "stage_delivery":
                continue  # it takes the arguments of `deliver`
            wanted = [
                each
                for each in inspect.signature(getattr(kind, call)).parameters
                if each not in ("self", "db")
            ]
            assert set(wanted) - {"keyed"} == set(right), call


@pytest.mark.parametrize(
    ("kind", "call", "name"), EVERY, ids=[f"{kind.__name__} {call} {name}" for kind, call, name in EVERY]
)
def test_junk_is_named_and_nothing_is_written(contracts, kind, call, name):
    contract = contracts(kind)
    if kind is Work:
        contract.claim = contract.next(**WORKER | TAKE | {"now": 100_000}).claims[0]
    before = dump(contract)
    for junk in JUNK:
        before = refuse(
            contract, call, rightly(contract, call, CALLS[kind][call]) | {name: junk}, name, before
        )


ANYTHING = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.binary(), st.text()),
    *(
        st.text(st.characters(categories=("Cs", "Cc", "Zs", "Mn"))),
        st.lists(st.integers()),
        st.tuples(st.text()),
    ),
    *(st.dictionaries(st.text(), st.integers()), st.integers(2**60, 2**70)),
)


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_two_arguments_of_any_call_can_be_anything(kind):
    """Beside the list: what a search comes up with, in two places at once."""
    calls = [each for each in EVERY if each[0] is kind]

    @settings(max_examples=60, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.sampled_from(calls), st.data(), ANYTHING, ANYTHING)
    def tried(each, data, one, two):
        _, call, name = each
        other = data.draw(st.sampled_from([name for _, same, name in calls if same == call]))
        args = rightly(contract, call, CALLS[kind][call]) | {name: one, other: two}
        changes, before = contract.store.db.total_changes, dump(contract)
        try:
            made(contract, call, args)
        except (TypeError, ValueError):
            assert (contract.store.db.total_changes, dump(contract)) == (changes, before)

    with Store.temporary(kind.SCHEMA) as store:
        contract = kind(store)
        _prepare(contract)
        if kind is Work:
            contract.claim = contract.next(**WORKER | TAKE | {"now": 100_000}).claims[0]
        tried()


@pytest.mark.parametrize(
    ("kind", "call"),
    [(kind, call) for kind, _ in PAIRS.values() for call in kind.calls() if call in CALLS[kind]],
)
def test_of_two_wrong_arguments_the_first_is_named(kind, call):
    """The reference model has the order in which arguments are checked."""
    model = next(model for contract, model in PAIRS.values() if contract is kind)
    with Sandbox(kind, sync=False) as sandbox:
        for pair in itertools.combinations(model.CALLS[call].split(), 2):
            wrong = CALLS[kind][call] | dict.fromkeys(pair, object())
            with pytest.raises(WrongArgument) as error:
                getattr(sandbox.observer, call)(**wrong)
            assert error.value.argument == pair[0], pair
