"""A Run: the steps of an experiment as plain data. Has no dependencies inside the package."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Lease:
    """A lease as it was after a step: on what, its holder, its fence, and when it expires."""

    on: str
    holder: str
    fence: int
    until: int


@dataclass(frozen=True)
class Change:
    """A row of `table` that a step added, changed or removed. `key` names the row, in words.

    `row` has the columns as they are now and `was` as they were before. For a changed row they have only the
    columns that changed. When a step changed more rows than are kept, the last `Change` has "more" in `what`
    and the number in `key`.
    """

    table: str
    what: str
    key: str
    row: dict = field(default_factory=dict)
    was: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One step of a run.

    `now` is the caller's time, or None for a call without one. `counts` are those after the step, in the
    order of `Run.count_names`. `fault` names the fault that struck the call on purpose. `expect` is what the
    case expects, and `wrong` lists where the step differs from that. `anomaly` is the damage that a
    counterexample shows here, in a word: duplicated, lost, overwritten, disclosed. `changes` are the rows
    that changed since the previous step, or None when they were not compared. `file` names the database file
    that the call went to, in an experiment with several; it is not part of `Run.to_dict`.
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
    file: str = ""

    @property
    def found(self) -> str:
        """What a delivery was classified as, when the answer says so."""
        return str(self.answer.get("found", ""))

    @property
    def why(self) -> str:
        """The reason with its fields, in one text."""
        return f"{self.reason}: {', '.join(self.fields)}" if self.fields else self.reason


@dataclass(frozen=True)
class Run:
    """An experiment that was run. `kind` is `holds` for a promise, or `breaks` for a counterexample, which
    must keep breaking in the same way. `held` applies to both: every step ended as expected. `texts` are the
    texts whose digests the calls carry, where the experiment knows them. They are not part of `to_dict`."""

    name: str
    title: str
    clauses: tuple[str, ...]
    contract: str
    kind: str
    count_names: tuple[str, ...]
    steps: tuple[Step, ...]
    texts: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def held(self) -> bool:
        """True when every step ended as expected."""
        return not any(step.wrong for step in self.steps)

    @property
    def story(self) -> str:
        """The outcomes in order, with their reasons. Repeated outcomes are counted."""
        parts: list[list] = []
        for step in self.steps:
            words = f"{step.outcome} ({step.why})" if step.why else step.outcome
            if parts and parts[-1][0] == words:
                parts[-1][1] += 1
            else:
                parts.append([words, 1])
        return ", ".join(words if times == 1 else f"{times} × {words}" for words, times in parts)

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def to_dict(self) -> dict:
        """The run as plain data for JSON. It is the same in every run."""
        facts = asdict(self) | {"held": self.held}
        del facts["texts"]
        for step in facts["steps"]:
            del step["file"]
        return facts


class Recorder:
    """Collects steps into a Run, numbered from 1. Raises ValueError when two counts have the same name."""

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
        self.texts: dict[str, str] = {}

    def add(self, actor: str, call: str, now: int | None, outcome: str, **facts: object) -> Step:
        """Add one step. `facts` are the remaining fields of Step."""
        step = Step(len(self.steps) + 1, actor, call, now, outcome, **facts)
        self.steps.append(step)
        return step

    def run(self) -> Run:
        return Run(steps=tuple(self.steps), texts=dict(self.texts), **self.head)
