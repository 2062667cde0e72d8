"""A run in words: what a call asked, what came back, what the database gained. For pictures and for readers
who can't see them."""

from __future__ import annotations

from receiptlab.experiment.run import Change, Run, Step
from receiptlab.show.picture import printable

SHOWN = {
    "operation": "operation {}",
    "tenant": "{}",
    "namespace": "{}",
    "scope": "{}",
    "work": "{}",
    "fence": "fence {}",
    "token": "token {}",
    "generation": "generation {}",
    "revision": "revision {}",
    "epoch": "epoch {}",
    "policy": "{}",
    "until": "until {}",
    "hold_for": "for {}",
    "processor": "{}",
    "through": "through {}",
    "limit": "limit {}",
    "max_attempts": "max attempts {}",
    "decision": "{}",
    "changed_as": "as {}",
    "digest": "{}",
    "payload": "payload {}",
    "result_digest": "{}",
}
"""The arguments that a call's arrow shows when they differ within the run, in this order, after the key."""

SET_UP = ("add", "register", "acquire", "acquire_sweep")
"""Calls that prepare the others. Those at the beginning of a run share one line."""

NOUNS = {
    "results": "result",
    "receipts": "receipt",
    "outbox": "message",
    "effects": "effect",
    "tombstones": "tombstone",
    "revisions": "revision",
    "attempts": "attempt",
    "writers": "writer",
    "refusals": "refusal record",
    "restore receipts": "restore receipt",
    "letters": "letter",
}
"""What one of a count is called. `open`, `done` and `dead` count items by their state."""
ITEMS = ("open", "done", "dead")

_DIGESTS = {"digest": "content", "result_digest": "result"}
_CONTENTS = ("digest", "payload", "result_digest")
_STATEMENTS = {
    *("BEGIN", "COMMIT", "ROLLBACK", "SELECT", "INSERT", "UPDATE", "DELETE", "PRAGMA", "WITH", "waits"),
}
_FOUND = {False: "nothing", True: "it is there"}
_HASH = frozenset("0123456789abcdef")


def given(run: Run) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The set-up at the beginning of the run, and the steps after it."""
    count = 0
    for step in run.steps:
        if step.call not in SET_UP or step.outcome != "accepted" or step.fault or step.anomaly or step.wrong:
            break
        count += 1
    return (run.steps[:count], run.steps[count:]) if count < len(run.steps) else ((), run.steps)


def given_line(steps: tuple[Step, ...]) -> str:
    """The set-up as one line."""
    if not steps:
        return ""
    calls = dict.fromkeys(f"{step.actor}: {step.call} {step.args.get('work', '')}".strip() for step in steps)
    return "given: " + ", ".join(calls)


def files(run: Run) -> list[str]:
    """The names of the database files of the run: "database", or "original" beside others."""
    named = [_prefix(name) for name in run.count_names]
    named += [_prefix(change.table) for step in run.steps for change in step.changes or ()]
    others = [name for name in dict.fromkeys(named) if name]
    return ["original", *others] if others else ["database"]


def _prefix(name: str) -> str:
    before, colon, _ = name.partition(": ")
    return before if colon else ""


def file_of(step: Step, names: list[str]) -> str:
    """The file that a step's call goes to. Where the run doesn't say, it is the first one."""
    return step.file if step.file in names else names[0]


def deciding(run: Run) -> frozenset[str]:
    """The arguments that differ within the run."""
    values: dict[str, set[str]] = {}
    for step in run.steps:
        for name, value in step.args.items():
            if name in SHOWN:
                # Contents matter only where the same key comes with another one.
                under = f"{name} {step.args.get('key')}" if name in _CONTENTS else name
                values.setdefault(under, set()).add(str(value))
    return frozenset(name.split()[0] for name, found in values.items() if len(found) > 1)


def call(run: Run, step: Step, varied: frozenset[str]) -> str:
    """A call with its key and the arguments that differ: "accept key-1, fence 1". A digest is shown as the
    text that it stands for, if the run knows it."""
    if is_statement(step):
        return step.reason.partition(":")[0] if step.call == "waits" else step.call
    shown = [_value(step.args["key"])] if "key" in step.args else []
    if step.outcome == "invalid":
        varied = frozenset(step.why.replace(":", ",").split(", "))
    for name, form in SHOWN.items():
        if name in varied and step.args.get(name) is not None:
            value = step.args[name]
            if name in _DIGESTS:
                value = run.texts.get(value, f"{_DIGESTS[name]} {_value(value)}")
            shown.append(form.format(_value(repr(value) if step.outcome == "invalid" else value)))
    return f"{step.call.replace('_', ' ')} {', '.join(shown)}".strip()


def answer(step: Step) -> str:
    """How a call ended: "accepted: receipt 1", "refused: fence", "answer lost"."""
    if is_statement(step):
        if step.call == "waits":
            return "waits for the lock"
        failed = step.reason.partition(",")[0] if step.outcome == "failed" else ""
        return call_ended(step) or failed or str(step.answer.get("saw", ""))
    if step.outcome == "unknown":
        if step.fault == "after_commit":
            return "answer lost"
        return "no answer" if step.fault else f"no answer: {step.reason}"
    if step.outcome == "invalid":
        return f"invalid argument: {step.why}"
    facts = _facts(step)
    if step.why:
        fields = f" ({', '.join(step.fields)})" if step.fields else ""
        return f"{step.outcome}: {step.reason}{fields}"
    if step.outcome == "accepted" and (step.call in ("claim", "renew", "next", "reserve") and facts):
        return facts
    if step.outcome == "read":
        return facts or "read"
    return f"{step.outcome}: {facts}" if facts else step.outcome


def tone(step: Step) -> str:
    """The outcome whose colour a step has. A call that found nothing to take only read."""
    return "read" if step.outcome == "accepted" and step.answer.get("works") in ((), []) else step.outcome


def _facts(step: Step) -> str:
    """The answer's facts in a few words."""
    facts, found = step.answer, []
    if "id" in facts:
        found.append(f"{'restore receipt' if step.call == 'issue' else 'receipt'} {facts['id']}")
    elif "works" in facts:
        fences = facts.get("fences", ())
        each = zip(facts["works"], fences or ("",) * len(facts["works"]), strict=False)
        found += [f"item {work}, fence {fence}" if fence else f"item {work}" for work, fence in each] or [
            "no item"
        ]
    elif "found" in facts:
        found.append(
            {"False": "nothing", "True": "it is there"}.get(str(facts["found"]), str(facts["found"]))
        )
    elif "state" in facts:
        found.append(str(facts["state"]))
    for name in ("fence", "token", "generation", "effect", "letter", "until", "due", "closed_through"):
        if facts.get(name) is not None and "works" not in facts and "id" not in facts:
            found.append(f"{name.replace('_', ' ')} {_value(facts[name])}")
    for name in (
        "expired",
        "compacted",
        "collected",
        "removed",
        "erased",
        "discarded",
        "acknowledged",
        "taken",
    ):
        if isinstance(facts.get(name), int) and not isinstance(facts.get(name), bool) and facts[name]:
            found.append(f"{facts[name]} {name}")
    return ", ".join(found)


def boxes(run: Run, step: Step, before: Step | None) -> list[str]:
    """What the database gained, changed or lost in a step: "+ receipt"."""
    old = before.counts if before and before.counts else (0,) * len(step.counts)
    if step.outcome == "unknown" and crashed(step):
        return ["nothing written"]
    texts = []
    states = []
    for name, was, now in zip(run.count_names, old, step.counts, strict=False):
        noun = name.partition(": ")[2] or name
        if was == now:
            continue
        if noun in ITEMS:
            states.append((noun, now - was))
            continue
        thing, many = NOUNS.get(noun, noun), abs(now - was)
        several = f"{many} {thing}s" if many > 1 else thing
        texts.append(
            f"{'+' if now > was else '−'} {several}" + (f" ({now} now)" if now > was and now > many else "")
        )
    gained, lost = [n for n, by in states if by > 0], [n for n, by in states if by < 0]
    if gained and lost:
        texts.insert(0, f"item: {lost[0]} → {gained[0]}")
    elif gained or lost:
        texts.insert(0, f"+ item {gained[0]}" if gained else f"− item {lost[0]}")
    texts = texts or _changed(step)
    if is_statement(step) and not texts:
        return []
    if not texts and step.outcome in ("refused", "replayed", "failed"):
        return ["unchanged"]
    return texts


_BOXED = ("epoch", "policy", "revoked", "state", "fenced_at", "closed_through", "through")
"""The columns whose changes are worth a box when no row was added."""


def _changed(step: Step) -> list[str]:
    """The columns that a step changed without adding a row: "epoch 1 → 2"."""
    texts = []
    for change in step.changes or ():
        if change.what == "changed":
            texts += [_column(name, change) for name in change.row if name in _BOXED]
    return list(dict.fromkeys(filter(None, texts)))[:3]


def _column(name: str, change: Change) -> str:
    was, now = change.was.get(name), change.row[name]
    if name == "state":
        return "" if now == "leased" else f"{was} → {now}"
    if name in ("revoked", "fenced_at"):
        return name.partition("_")[0]
    return f"{name.replace('_', ' ')} {_value(was)} → {_value(now)}"


def is_statement(step: Step) -> bool:
    """Whether the step is one SQL statement of a call, as in an interleaving."""
    return step.call.split()[0] in _STATEMENTS


def call_ended(step: Step) -> str:
    """For the last statement of a call, how the call ended."""
    before, ends, how = step.reason.partition(" ends: ")
    return f"{before.split(', ')[-1]}: {how}" if ends else ""


def crashed(step: Step) -> bool:
    """Whether the call crashed before its commit."""
    return step.outcome == "unknown" and step.fault not in ("", "after_commit")


def committed(step: Step, run: Run) -> bool:
    """Whether the step committed something."""
    if step.outcome not in ("accepted", "unknown") or crashed(step):
        return False
    return bool(step.changes) or step.changes is None


def description(run: Run) -> str:
    """The whole run, step by step, for a reader who can't see the picture."""
    varied, before, lines = deciding(run), None, []
    for step in run.steps:
        when = f" at {step.now}" if step.now is not None else ""
        held = ", ".join(boxes(run, step, before))
        damage = f" ({step.anomaly})" if step.anomaly else ""
        ended = ": ".join(filter(None, (call(run, step, varied), answer(step))))
        lines.append(
            f"{step.number}. {step.actor}{when}: {ended}{damage}" + (f"; database: {held}." if held else ".")
        )
        before = step
    return f"{run.title}. " + " ".join(lines)


def short_time(now: int) -> str:
    """Long times would overlap, so only the last digits are shown."""
    return str(now) if now < 10**7 else f"…{now % 10**5:05}"


def _value(value: object) -> str:
    """A value in a few characters: of a digest, the first four."""
    text = "none" if value is None else printable(str(value))
    if len(text) == 64 and set(text) <= _HASH:
        return f"{text[:4]}…"
    return text if len(text) <= 22 else f"{text[:18]}…"
