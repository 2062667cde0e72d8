"""`Experiment`: write your own here. Actors make calls on a real database file, and every call is recorded.

lab = Experiment(Owner, "the lease is replaced while worker-a sleeps", policy="policy-1")
operator, a, b = lab.actors("operator", "worker-a", "worker-b")

operator.add(MUG, revision=1, epoch=1, now=0)
old = a.claim(MUG, now=100, until=160)
new = b.claim(MUG, now=200, until=260)
a.accept(old, key="key-1", result="printed by a", revision=1, epoch=1, now=210)
lab.timeline()
"""

from __future__ import annotations

import contextlib
import inspect
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path

from receiptlab.contracts.base import Contract
from receiptlab.errors import LabError
from receiptlab.experiment.row_diff import Rows
from receiptlab.experiment.run import Lease, Recorder, Run, Step
from receiptlab.experiment.sandbox import FILE_CALLS, Sandbox, known_calls
from receiptlab.faults.failpoints import STATEMENTS, failpoints_of
from receiptlab.faults.failpoints import fault as injected
from receiptlab.faults.processes.children import Child
from receiptlab.outcomes import Outcome, attempt, mismatches
from receiptlab.store import FAILPOINTS, Store
from receiptlab.values import sha256

DIGESTS = {"result": "result_digest", "content": "digest"}
"""A text that an actor may give in place of its digest, and the argument that its digest becomes."""


class NothingStruck(LabError):
    """No call inside the block reached the fault that was set there, so the block shows nothing."""


class Experiment:
    """A sandbox, its actors, and the steps so far.

    `constants` are arguments that are the same in every call of the experiment, such as `policy="policy-1"`.
    A call takes those that it has a parameter for. `guards` replaces the contract's guards, to show what
    happens without one of them. Without `detailed`, steps record counts but no leases and no changed rows.
    """

    def __init__(
        self,
        contract: type[Contract],
        title: str,
        *,
        name: str = "",
        clauses: str | Iterable[str] = (),
        kind: str = "holds",
        counts: Iterable[str] = (),
        guards: dict | None = None,
        detailed: bool = True,
        **constants: object,
    ) -> None:
        _check(contract, constants)
        self.contract, self.constants, self.detailed = contract, constants, detailed
        self.record = Recorder(
            title,
            name=name,
            clauses=clauses.split() if isinstance(clauses, str) else clauses,
            contract=contract.NAME,
            kind=kind,
            count_names=counts or contract.COUNTS,
        )
        self.sandbox = Sandbox(contract, guards)
        self._rows = Rows()
        self._fault = ""
        self._struck = False

    def __repr__(self) -> str:
        return f"<experiment {self.record.head['title']!r}, {len(self.record.steps)} steps>"

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # Actors and their calls.

    def actors(self, *names: str) -> tuple[Actor, ...]:
        """One actor for each name. Each has its own connection to the file."""
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError(f"give each actor its own name, as a text; not {', '.join(map(repr, names))}")
        return tuple(Actor(self, name) for name in names)

    def call(
        self,
        actor: str,
        call: str,
        arguments: dict,
        *,
        fault: str = "",
        expect: dict | None = None,
        anomaly: str = "",
        note: str = "",
    ) -> Outcome:
        """Make one call by its name and record it. It never raises for how the call ended.

        `fault` is a failpoint, or `insert:outbox` for a failing statement. `expect` is what should come out,
        as in a case file. `anomaly` names the damage that a counterexample shows here, in a word.
        """
        fault = fault or self._fault
        if fault and ":" not in fault and fault not in _failpoints(self.contract):
            raise ValueError(f"{self.contract.__name__} has no failpoint {fault!r}")
        outcome = self.sandbox.attempt(actor, call, arguments, fault)
        facts = {"fault": fault, "expect": expect, "anomaly": anomaly, "note": note, "args": arguments}
        self.note(actor, call, arguments.get("now"), outcome, **facts)
        return outcome

    def step(
        self,
        actor: str,
        call: str,
        now: int | None,
        function: Callable[..., object],
        /,
        *args: object,
        on: Store | None = None,
        fault: str = "",
        expect: dict | None = None,
        anomaly: str = "",
        file: str = "",
        **kwargs: object,
    ) -> Step:
        """Call any function and record how it ended. `fault` strikes on the store `on`, or `self.store`.
        `file` names the file that the call goes to, where there are several."""
        with injected(on or self.store, fault) if fault else contextlib.nullcontext():
            outcome = attempt(function, *args, **kwargs)
        return self.note(actor, call, now, outcome, fault=fault, expect=expect, anomaly=anomaly, file=file)

    def note(
        self, actor: str, call: str, now: int | None, outcome: Outcome, *, rows: bool = True, **facts: object
    ) -> Step:
        """Record an outcome that was obtained elsewhere, with what the file holds after it.

        Without `rows` the changed rows are left out: a run must not show what chance has decided.
        """
        counts = self.counted()
        if self._fault and not mismatches(None, self._fault, outcome, counts):
            self._struck = True
        return self.record.add(
            actor,
            call,
            now,
            outcome.word,
            reason=outcome.reason,
            fields=outcome.fields,
            answer=outcome.facts(),
            counts=counts,
            leases=tuple(Lease(*lease) for lease in self.leases()) if self.detailed else (),
            changes=self._rows.changes(self.files()) if rows and self.detailed else None,
            wrong=mismatches(facts.get("expect"), str(facts.get("fault", "")), outcome, counts),
            **facts,
        )

    def die(self, actor: str, call: str, args: dict, failpoint: str, counts: list[int] | None = None) -> Step:
        """Let a process of its own make the call and end at the failpoint; then open the file again. `counts`
        are what the file is expected to hold after that."""
        self.sandbox.reopen()
        with Child(self.contract, self.path, call, args, die_at=failpoint) as child:
            code = child.expect("READY").go().expect("CALLING").died()
        expect = {"outcome": "unknown", "reason": failpoint} | ({"counts": counts} if counts else {})
        facts = {"fault": failpoint, "expect": expect, "note": f"exit code {code}", "args": args}
        return self.note(actor, call, args["now"], Outcome("unknown", failpoint), **facts)

    # Faults. Each strikes the calls that actors make inside the block.

    def answer_lost(self) -> contextlib.AbstractContextManager[None]:
        """The call commits, and its answer never arrives."""
        return self.crash("after commit")

    def crash(self, failpoint: str) -> contextlib.AbstractContextManager[None]:
        """The call ends at this failpoint, such as "after receipt" or "before commit"."""
        name = failpoint.replace(" ", "_")
        known = _failpoints(self.contract)
        if name not in known:
            names = ", ".join(point.replace("_", " ") for point in known)
            raise ValueError(f"{self.contract.__name__} has no failpoint {failpoint!r}; it has {names}")
        return self._striking(name)

    def failing(self, table: str, statement: str = "insert") -> contextlib.AbstractContextManager[None]:
        """Every insert into the table fails (or update, or delete)."""
        if table not in self.contract.TABLES or statement not in STATEMENTS:
            tables, statements = ", ".join(self.contract.TABLES), ", ".join(STATEMENTS)
            raise ValueError(
                f"tables are {tables}; statements are {statements}; not {statement} on {table!r}"
            )
        return self._striking(f"{statement}:{table}")

    @contextlib.contextmanager
    def _striking(self, fault: str) -> Iterator[None]:
        if self._fault:
            raise ValueError(f"one fault at a time: {self._fault} is set already, and {fault} is another")
        self._fault, self._struck = fault, False
        try:
            yield
        finally:
            self._fault = ""
        if not self._struck:
            raise NothingStruck(f"no call in this block reached {fault}; make one that writes")

    # What happened.

    @property
    def run(self) -> Run:
        """The steps so far, as plain data."""
        return self.record.run()

    @property
    def outcomes(self) -> list[str]:
        """How each step ended, such as "accepted" or "refused: fence"."""
        return [f"{step.outcome}: {step.why}" if step.why else step.outcome for step in self.record.steps]

    def differences(self) -> list[str]:
        """Where the steps so far differ from the lab's case of the same title and contract. Raises CaseError
        when there is none."""
        from receiptlab.experiment.library import titled

        case, found = titled(self.contract.NAME, self.record.head["title"]), []
        if len(case.calls) != len(self.record.steps):
            found.append(f"{len(self.record.steps)} steps; the case {case.name} has {len(case.calls)} calls")
        for call, step in zip(case.calls, self.record.steps, strict=False):
            made, wanted = ((each.actor, each.call, each.args, each.fault) for each in (step, call))
            if made != wanted:
                found.append(f"step {step.number}: the case calls {wanted}, not {made}")
            outcome = Outcome(step.outcome, step.reason, step.fields, answer=step.answer)
            wrong = mismatches(call.expect, call.fault, outcome, step.counts)
            found += [f"step {step.number}: {each}" for each in wrong]
        return found

    def held(self) -> bool:
        """True when the steps are those of the lab's case of the same title, and ended as it expects."""
        return not self.differences()

    def timeline(self) -> object:
        """The steps as a picture."""
        from receiptlab import show

        return show.timeline(self.run)

    # The files behind it.

    @property
    def path(self) -> Path:
        """Where the database file is."""
        return self.sandbox.path

    @property
    def store(self) -> Store:
        """This process's own connection, for experiments that make calls without actors."""
        return self.sandbox.actor("this process").store

    @property
    def observer(self) -> Contract:
        """The contract over the connection that observes."""
        return self.sandbox.observer

    def counted(self) -> tuple[int, ...]:
        """The counts as the file has them now."""
        return self.observer.counted()

    def leases(self) -> list[tuple[str, str, int, int]]:
        """The leases as the file has them now."""
        return self.observer.leases()

    def files(self) -> dict[str, sqlite3.Connection]:
        """The files whose rows are compared after each step, by the prefix of their tables' names."""
        return {"": self.observer.store.db}

    def disconnect(self) -> None:
        """End every connection of this process. The next use of one opens the file again."""
        self.sandbox.reopen()

    def close(self) -> None:
        """End every connection and remove the file. The steps stay."""
        self.sandbox.close()


class Actor:
    """Makes the contract's calls under one name. Every call is recorded, and none raises for how it ended:
    its value is the answer, or the `Outcome` where there is no answer.

    Arguments are given by name. A mapping or an earlier answer, such as a claim, may come first and fills in
    the arguments of the same names. The actor's name fills in `actor` or `worker`, and the experiment's
    constants the rest. `result` and `content` take a text and pass on its digest. `expect`,
    `anomaly` and `note` are those of `Experiment.call`.
    """

    def __init__(self, experiment: Experiment, name: str) -> None:
        self._experiment, self._name = experiment, name

    def __repr__(self) -> str:
        return f"<actor {self._name}>"

    def __dir__(self) -> list[str]:
        return [*known_calls(self._experiment.contract), *FILE_CALLS, "runs"]

    def __getattr__(self, call: str) -> Callable[..., object]:
        calls = known_calls(self._experiment.contract)
        if call not in calls and call not in FILE_CALLS:
            kind = self._experiment.contract.__name__
            raise AttributeError(f"{kind} has no call {call!r}; its calls are {', '.join(calls)}")

        def recorded(
            *given: object, expect: dict | None = None, anomaly: str = "", note: str = "", **named: object
        ) -> object:
            arguments = self._arguments(call, calls.get(call), given, named)
            facts = {"expect": expect, "anomaly": anomaly, "note": note}
            outcome = self._experiment.call(self._name, call, arguments, **facts)
            return outcome if outcome.answer is None else outcome.answer

        recorded.__name__ = call
        recorded.__doc__ = getattr(calls.get(call), "__doc__", None)
        return recorded

    def runs(
        self,
        function: Callable[..., object],
        /,
        *args: object,
        call: str = "",
        now: int | None = None,
        expect: dict | None = None,
        anomaly: str = "",
        note: str = "",
        **named: object,
    ) -> object:
        """Run `function(contract, …)` on this actor's connection. It is recorded as `call`, which is the
        function's name by default. `now` is only recorded."""
        lab = self._experiment
        contract = lab.sandbox.actor(self._name)
        with injected(contract.store, lab._fault) if lab._fault else contextlib.nullcontext():
            outcome = attempt(function, contract, *args, **named)
        facts = {"args": named, "fault": lab._fault, "expect": expect, "anomaly": anomaly, "note": note}
        lab.note(self._name, call or function.__name__, now, outcome, **facts)
        return outcome if outcome.answer is None else outcome.answer

    def _arguments(self, call: str, function: Callable | None, given: tuple, named: dict) -> dict:
        wanted = list(inspect.signature(function).parameters)[1:] if function else []
        known: dict[str, object] = {**self._experiment.constants, "actor": self._name, "worker": self._name}
        for record in given:
            known |= _fields(call, record)
        for text, digest in DIGESTS.items():
            if text in named and digest in named and text not in wanted:
                raise TypeError(f"{call}: give {text} or {digest}, not both")
            for words in (known, named):
                if text in words and text not in wanted and digest in wanted:
                    said = str(words.pop(text))
                    words[digest] = sha256(said)
                    self._experiment.record.texts[sha256(said)] = said
        for name in ("actor", "worker"):  # an earlier claim may be somebody else's
            known[name] = self._name
        unknown = [name for name in named if name not in wanted]
        missing = [name for name in wanted if name not in known and name not in named]
        if unknown or missing:
            wrong = (
                f"has no argument {', '.join(unknown)}" if unknown else f"still needs {', '.join(missing)}"
            )
            raise TypeError(f"{call} {wrong}; it takes {', '.join(wanted)}")
        return {name: named[name] if name in named else known[name] for name in wanted}


def _check(contract: object, constants: Mapping) -> None:
    """Raise TypeError for what is no contract, and for a constant that none of its calls has."""
    if not (inspect.isclass(contract) and issubclass(contract, Contract)):
        raise TypeError(f"an experiment needs a contract's class first, such as Owner; not {contract!r}")
    calls = known_calls(contract).values()
    known = {*DIGESTS, *(name for call in calls for name in inspect.signature(call).parameters)}
    if unknown := [name for name in constants if name not in known]:
        raise TypeError(f"no call of {contract.__name__} has an argument {', '.join(unknown)}")


def _failpoints(contract: type[Contract]) -> dict[str, None]:
    named = (point for call in contract.calls() for point in failpoints_of(contract, call))
    return dict.fromkeys((*named, *FAILPOINTS))


def _fields(call: str, record: object) -> dict[str, object]:
    if isinstance(record, Outcome):
        raise TypeError(f"{call}: an earlier call has no answer to pass on, because it ended as {record}")
    if isinstance(record, Mapping):
        return dict(record)
    if hasattr(record, "_asdict"):
        return record._asdict()
    if is_dataclass(record) and not isinstance(record, type):
        return asdict(record)
    raise TypeError(f"{call}: give arguments by name, or an earlier answer or mapping first; not {record!r}")
