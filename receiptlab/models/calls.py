"""Draws the next call and its arguments, mostly so that it can succeed.

There are few names, so that calls collide. Times are close to those in the file and go back as well as
forward. Sometimes one argument is changed or made invalid, for example to reuse a key with one field
changed.
"""

from __future__ import annotations

from receiptlab.contracts.intake.items import identity_of
from receiptlab.faults.seeded import Draw
from receiptlab.models.base import LARGEST, Model
from receiptlab.models.pair import REOPEN, Step
from receiptlab.store import FAILPOINTS
from receiptlab.values import sha256

ACTORS = ("a", "b")
DIGESTS = tuple(sha256(letter) for letter in "ABC")
NAMES = ("x", "y")
IDENTITIES = tuple(identity_of("explicit", "x", name, "x") for name in NAMES)

WEIGHTS = {
    "owner": {
        **{"add": 3, "claim": 5, "accept": 7, "cancel": 1, "set_authority": 1, "get": 1},
        **{"renew": 2, "release": 1, "find": 2},
    },
    "retention": {"execute": 6, "expire_result": 3, "close_and_collect": 1, "effects": 1},
    "intake": {"classify": 5, "stage": 5, "deliver": 4, "sweep": 3, "erase_identity": 1},
    "work": {
        **{"deliver": 5, "next": 5, "complete": 4, "fail": 4, "renew": 2, "acquire": 2, "reserve": 3},
        **{"requeue": 4, "acquire_sweep": 3, "sweep": 3, "get": 1, "dead": 1, "counts": 1},
        **{"discard": 2, "discard_dead": 1, "reset_ahead": 2, "history": 1, "ahead": 1},
    },
    "receiver": {"register": 2, "apply": 8, "issue": 1, "look_up": 1, "known": 1},
}
"""The weight of each call. Unlisted calls are rare."""

VALUES: dict[str, tuple] = {
    **dict.fromkeys(("scope", "actor", "key", "worker"), NAMES),
    "work": (*NAMES, "z"),
    **dict.fromkeys(("tenant", "namespace", "operation", "owner", "instance", "subject"), NAMES),
    "processor": ("p", "q"),
    "processor_revision": ("1", "1", "2"),
    "policy": ("p", "q"),
    "revision": (1, 1, 2, 0, LARGEST - 1),
    "epoch": (1, 2, 1, 3, LARGEST),
    "through": (0, 1, 2, LARGEST),
    "fence": (1, 2, 3, 4, LARGEST),
    "generation": (1, 2, 3),
    "token": (1, 2, 3),
    **dict.fromkeys(("result_digest", "digest"), DIGESTS),
    "payload": ("A", "B", "", "\u00fc"),
    "key_kind": ("explicit", "explicit", "synthetic", "content"),
    "decision": ("first", "revision", "collision", "seen"),
    "changed_as": ("revision", "collision"),
    "reference": ("row 1", "row 2", ""),
    "enforced": ("fence", "isolation"),
    "limit": (1, 2, 1, 3, 10_000),
    "hold_for": (1_000, 20_000, 100, 20_000, 1, 2**61),
    "max_attempts": (2, 1, 3, 1, 1_000_000),
    "error": ("Timeout",),
    "detail": ("", "a\nb"),
    "base": (10, 0, 100, 2**61),
    "cap": (1_000, 0, 50, 2**61),
    "after": (0, 1, 2),
    "identity": IDENTITIES,
    **dict.fromkeys(("keep_for", "horizon"), (0, 10, 1_000, 20_000, 2**61)),
}
"""The values of each argument, the usual one first."""

ROWS = (1, 2, 3, 4)
"""The values of `work` when it is a number."""

WRONG = ("", "a\nb", "\ud800", -1, 2**63, True, 1.0, None, [], "x" * 1_200)
"""Values that no argument accepts, or hardly any."""

STEPS = (0, 1, 10, 0, 1, 0, 5, 100, 1_000, 10_000, -1, -1_000)
"""The steps of time between calls."""


def draw_step(model: Model, draw: Draw, clock: int, call: str = "") -> Step:
    """The next step: this call, or a drawn one."""
    actor = draw.among(ACTORS)
    call = call or _drawn(model, draw)
    if call == REOPEN:
        return actor, call, {}, ""
    args = {each: _value(model, each, draw, clock) for each in model.CALLS[call].split()}
    aim = AIMS.get((model.NAME, call))
    if aim and not draw.chance(5):
        args |= aim(model, draw, args, actor)
    if args and draw.chance(4):
        changed = draw.among(list(args))
        args[changed] = _value(model, changed, draw, clock)
    if args and draw.chance(25):
        args[draw.among(list(args))] = draw.among(WRONG)
    return actor, call, args, _fault(model, draw, call)


def _fault(model: Model, draw: Draw, call: str) -> str:
    """`next` is two transactions, and unweighted calls may have none: these get no fault."""
    if call == "next" or call not in WEIGHTS[model.NAME] or not draw.chance(12):
        return ""
    return draw.among(FAILPOINTS)


def _drawn(model: Model, draw: Draw) -> str:
    weights = WEIGHTS[model.NAME]
    if draw.chance(25):
        return draw.among((REOPEN, *(call for call in model.CALLS if call not in weights)))
    number = draw.below(sum(weights.values()))
    for call, weight in weights.items():
        number -= weight
        if number < 0:
            return call
    raise AssertionError("the weights are used up")


def _value(model: Model, argument: str, draw: Draw, clock: int) -> object:
    if argument == "now":
        return _time(model, draw, clock)
    if argument in ("until", "retain_until", "tombstone_until"):
        return clock + draw.among((20, 1, 500, 10_000, 30_000, 0))
    if argument == "work" and model.NAME == "work":
        return draw.among(ROWS)
    if argument in ("namespace", "tenant") and draw.chance(2):
        return NAMES[0]
    return draw.among(VALUES[argument])


def _time(model: Model, draw: Draw, clock: int) -> int:
    """A time close to the last one, at or next to the end of something, or at a limit."""
    if draw.chance(30):
        return draw.among((0, 2**62, LARGEST - 1, LARGEST))
    ends = model.times()
    if ends and draw.chance(4):
        return max(0, draw.among(ends) + draw.among((0, -1, 1)))
    return max(0, clock + draw.among(STEPS))


def _lease(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A claim on work that can be claimed, with an end after its beginning."""
    free = [row for row in model.works.values() if row["state"] in ("ready", "leased")]
    row = draw.among(free) if free else args
    return {"until": args["now"] + draw.among((20, 1, 500, 10_000)), **_same(row, ("scope", "work"))}


def _held(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A call on leased work by its holder; a renewed lease ends later."""
    later = {"until": args["now"] + draw.among((20, 1, 500))} if "until" in args else {}
    rows = model.leased()
    if not rows:
        return later
    row = draw.among(rows)
    return _same(row, ("scope", "work", "fence")) | {"actor": row["holder"]} | later


def _found(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A key that has a receipt, under the authority of its work."""
    if not model.receipts:
        return {}
    receipt = draw.among(list(model.receipts.values()))
    row = model.works[receipt["scope"], receipt["work"]]
    return _same(receipt, ("scope", "key")) | _same(row, ("epoch", "policy"))


def _accept(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A result for leased work, or an accepted command again."""
    if model.commands and draw.chance(3):
        return draw.among(list(model.commands.values()))
    rows = model.leased() or list(model.works.values())
    if not rows:
        return {}
    row = draw.among(rows)
    holder = {"actor": row["holder"]} if row["holder"] else {}
    return _same(row, ("scope", "work", "revision", "epoch", "policy", "fence")) | holder


def _same(row: dict, parts: tuple[str, ...]) -> dict:
    return {part: row[part] for part in parts}


def _stage(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A decision that fits the actor's handle."""
    fits = {"changed": draw.among(("revision", "collision")), "first-seen": "first"}
    found = model.in_hand.get(actor, {}).get("found", "first-seen")
    return {"decision": fits.get(found, "seen")} | _kept(model, draw, args, actor)


def _kept(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A key made from content is that content; a tombstone lasts longer than its receipt."""
    later = {"tombstone_until": args["retain_until"] + draw.among((0, 1, 500, 20_000))}
    return later | (_named(model, draw, args, actor) if "key" in args else {})


def _named(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    return {"key": args["digest"]} if args.get("key_kind") == "content" else {}


def _erase(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    return {"key": draw.among(DIGESTS)} if args["key_kind"] == "content" else {}


def _taken(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A queue with something to do."""
    open_rows = [row for row in model.works.values() if row["due"] is not None]
    return _same(draw.among(open_rows), ("namespace", "processor")) if open_rows else {}


def _reserved(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A call under a lease that was granted."""
    held = [on for on, (_, holder, _) in model.leased.items() if holder and on[0]]
    if not held:
        return {}
    namespace, processor = draw.among(held)
    token, _, _ = model.leased[namespace, processor]
    return {"namespace": namespace, "processor": processor, "token": token}


def _explicit(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    return {"key_kind": "explicit"}


def _claim(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A row by its fence, usually a claimed one."""
    claimed = [row for row in model.works.values() if row["state"] == "claimed"]
    rows = list(model.works.values()) if draw.chance(5) else claimed
    return _same(draw.among(rows) if rows else args, ("work", "fence"))


def _dead(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    dead = [row["work"] for row in model.works.values() if row["state"] == "dead"]
    return {"work": draw.among(dead)} if dead else {}


def _token(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    return {"token": max(1, model.leased.get(("", "sweep"), (1,))[0])}


def _writer(model: Model, draw: Draw, args: dict, actor: str) -> dict:
    """A writer of this owner, usually the last one; or an accepted effect again."""
    writers = model.writers.get(args["owner"])
    if not writers:
        return {}
    back = draw.below(len(writers)) if draw.chance(4) else 0
    who = {"generation": len(writers) - back, "instance": writers[-1 - back]["instance"]}
    mine = [(key, kept["named"]) for (owner, key), kept in model.effects.items() if owner == args["owner"]]
    if "key" in args and mine and draw.chance(3):
        key, named = draw.among(mine)
        return who | named | {"key": key}
    return who


AIMS = {
    ("owner", "claim"): _lease,
    ("owner", "accept"): _accept,
    ("owner", "renew"): _held,
    ("owner", "release"): _held,
    ("owner", "find"): _found,
    ("intake", "classify"): _named,
    ("intake", "stage"): _stage,
    ("intake", "deliver"): _kept,
    ("intake", "erase_identity"): _erase,
    ("work", "erase_identity"): _explicit,
    ("work", "deliver"): _kept,
    ("work", "next"): _taken,
    ("work", "acquire"): _taken,
    ("work", "reserve"): _reserved,
    ("work", "sweep"): _token,
    **{("work", call): _claim for call in ("renew", "complete", "fail")},
    **{("work", call): _dead for call in ("requeue", "discard")},
    ("receiver", "apply"): _writer,
    ("receiver", "issue"): _writer,
}
"""For each contract and call: arguments from the model's state that make it likely to succeed."""
