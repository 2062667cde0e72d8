"""A Run: the steps of an experiment as plain data. Knows nobody, so that anybody can read it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Lease:
    """A lease as it stood after a step: on what, whose, with which fence, and until when."""

    on: str
    holder: str
    fence: int
    until: int


@dataclass(frozen=True)
class Change:
    """A row of `table` that a step added, changed or removed; `key` tells which, in words.

    `row` has the columns as they are now and `was` as they were; of a changed row only those that
    changed. `what` is "more" where a step changed more rows than are kept; `key` says how many.
    """

    table: str
    what: str
    key: str
    row: dict = field(default_factory=dict)
    was: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One event of a run.

    `now` is the caller's time, or None for a call that takes none. `counts` stand as the step left
    them, in the order of `Run.count_names`. `fault` names what was done to the call on purpose.
    `expect` is what the case says should come out; `wrong` lists where that did not hold.
    `harm` names what a counterexample shows here, in a word: duplicated, lost, overwritten, disclosed.
    `changes` are the rows that changed since the step before, or None where nobody looked.
    """

    number: int
    actor: str
    call: str
    now: int | None
    outcome: str
    reason: str = ""
    fields: tuple[str, ...] = ()
    fault: str = ""
    note: str = ""
    anomaly: str = ""
    args: dict = field(default_factory=dict)
    answer: dict = field(default_factory=dict)
    counts: tuple[int, ...] = ()
    leases: tuple[Lease, ...] = ()
    changes: tuple[Change, ...] | None = None
    expect: dict | None = None
    wrong: tuple[str, ...] = ()

    @property
    def found(self) -> str:
        """What a delivery was found to be, where the answer tells it."""
        return str(self.answer.get("found", ""))

    @property
    def why(self) -> str:
        """The reason and what it is about, in one text."""
        return f"{self.reason}: {', '.join(self.fields)}" if self.fields else self.reason


@dataclass(frozen=True)
class Run:
    """An experiment that was run. `kind` says what it is: a promise that holds, or a counterexample
    that breaks, and must keep breaking in the same way. `held` is about both: all came out as expected."""

    name: str
    title: str
    clauses: tuple[str, ...]
    contract: str
    kind: str
    count_names: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def held(self) -> bool:
        """True when every step came out as expected."""
        return not any(step.wrong for step in self.steps)

    @property
    def story(self) -> str:
        """The outcomes in their order, with their reasons; the same outcome in a row is counted."""
        told: list[list] = []
        for step in self.steps:
            words = f"{step.outcome} ({step.why})" if step.why else step.outcome
            if told and told[-1][0] == words:
                told[-1][1] += 1
            else:
                told.append([words, 1])
        return ", ".join(words if times == 1 else f"{times} × {words}" for words, times in told)

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def to_dict(self) -> dict:
        """The run as plain data for JSON: the same each time it is run."""
        return asdict(self) | {"held": self.held}


class Recorder:
    """Collects steps into a Run, numbered from 1. Raises ValueError where two counts have one name."""

    def __init__(self, title: str, *, clauses=(), contract="", kind="holds", count_names=(), name="") -> None:
        self.head = {
            "name": name or title,
            "title": title,
            "clauses": tuple(clauses),
            "contract": contract,
            "kind": kind,
            "count_names": tuple(count_names),
        }
        names = self.head["count_names"]
        if len(set(names)) < len(names):
            raise ValueError(f"two counts have one name: {', '.join(names)}")
        self.steps: list[Step] = []

    def add(self, actor: str, call: str, now: int | None, outcome: str, **facts: object) -> Step:
        """Add one step; `facts` are the remaining fields of Step."""
        step = Step(len(self.steps) + 1, actor, call, now, outcome, **facts)
        self.steps.append(step)
        return step

    def run(self) -> Run:
        return Run(steps=tuple(self.steps), **self.head)
