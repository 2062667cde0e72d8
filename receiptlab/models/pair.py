"""A contract on a real file and its reference model: the same calls on both, with everything compared."""

from __future__ import annotations

import contextlib
import json

from receiptlab.contracts.base import Contract
from receiptlab.errors import LabError
from receiptlab.experiment.sandbox import Sandbox
from receiptlab.faults.failpoints import fault as injected
from receiptlab.models.base import Expected, Model
from receiptlab.outcomes import attempt

REOPEN = "reopen"
"""The call on the file that ends every connection."""

Step = tuple[str, str, dict, str]
"""The caller, the call, its arguments, and a fault: before_commit, after_commit or none."""


class Disagreement(LabError):
    """Contract and model disagree. `steps` are the calls so far, `wrong` the differences, and `case` the
    calls as a case file with what the model expects."""

    def __init__(self, steps: list[Step], wrong: list[str], case: str) -> None:
        self.steps, self.wrong, self.case = steps, wrong, case
        what = "; ".join(wrong)
        play = "as a case for `receiptlab play FILE`:"
        super().__init__(f"after {len(steps)} calls: {what}\n{play}\n{case}")


class Pair:
    """A new contract and a new model. Use it with `with`. Each actor has its own connection.

    `guards` replaces the contract's guards, to show that a missing one is found.
    """

    def __init__(
        self,
        contract: type[Contract],
        model: type[Model],
        title: str = "contract and model disagree",
        guards: dict | None = None,
    ) -> None:
        self.contract, self.guards, self.title = contract, guards, title
        self.model = model()
        self.steps: list[Step] = []
        self.lines: list[dict] = []

    def __enter__(self) -> Pair:
        # Nothing here is about power loss; without the waits for the disk ten times as much can be tried.
        self.sandbox = Sandbox(self.contract, self.guards, sync=False)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.sandbox.close()

    def step(self, actor: str, call: str, args: dict, fault: str = "") -> Expected:
        """Make the call on both and compare the answer, the counts, the leases and every row. Returns the
        model's answer. Raises Disagreement."""
        self.steps.append((actor, call, args, fault))
        if call == REOPEN:
            self.sandbox.reopen()
            self.model.reopen()
            self.lines.append({"actor": actor, "call": call})
            return Expected("read")
        expected = self._expects(actor, call, args, fault)
        line = {"actor": actor, "call": call, "args": args, "expect": self._expected(expected)}
        self.lines.append(line | ({"fault": fault} if expected.word == "unknown" else {}))
        wrong = _differing(expected, self._made(actor, call, args, fault)) or self._differs()
        if wrong:
            raise Disagreement(list(self.steps), wrong, self.case())
        return expected

    def case(self) -> str:
        """The calls so far as a case file, with what the model expects of each."""
        head = {"format": 1, "case": self.title, "contract": self.contract.NAME, "expected": "holds"}
        return "".join(json.dumps(line) + "\n" for line in (head, *self.lines))

    def _expects(self, actor: str, call: str, args: dict, fault: str) -> Expected:
        if not fault:
            return self.model.call(actor, call, args)
        self.model, expected = self.model.interrupted(actor, call, args, fault)
        return expected

    def _made(self, actor: str, call: str, args: dict, fault: str) -> Expected:
        contract = self.sandbox.actor(actor)
        on = contract if hasattr(contract, call) else contract.intake
        try:
            with injected(contract.store, fault) if fault else contextlib.nullcontext():
                outcome = attempt(getattr(on, call), **args)
        except Exception as error:  # a broken contract may fail in any way
            return Expected(f"raised {type(error).__name__}: {error}")
        return Expected(outcome.word, outcome.reason, tuple(outcome.fields), outcome.facts())

    def _expected(self, expected: Expected) -> dict:
        """What a case file expects. An answer that is nested too deeply for a case is left out."""
        answer = {name: fact for name, fact in expected.facts.items() if name != "writers"}
        expect = {"outcome": expected.word, "reason": expected.reason, "counts": list(self.model.counted())}
        return expect | {"fields": list(expected.fields), "answer": answer}

    def _differs(self) -> list[str]:
        """The differences between the file and the model."""
        kept, there = self.model.state(), self.sandbox.observer
        pairs = [("counts", self.model.counted(), there.counted())]
        pairs.append(("leases", _sorted(self.model.leases()), _sorted(there.leases())))
        for table, select in self.model.STATE.items():
            pairs.append((f"rows of {table}", _sorted(kept[table]), _sorted(there.store.read(select))))
        return [f"{what}: expected {wanted}, got {was}" for what, wanted, was in pairs if wanted != was]


def _sorted(rows: list[tuple]) -> list[tuple]:
    return sorted(rows, key=repr)


def _differing(wanted: Expected, was: Expected) -> list[str]:
    pairs = zip(Expected._fields, wanted, was, strict=True)
    return [f"{what}: expected {each}, got {got}" for what, each, got in pairs if _plain(each) != _plain(got)]


def _plain(expected: object) -> str:
    """As JSON, in which true is not 1."""
    return json.dumps(expected, sort_keys=True, default=repr)
