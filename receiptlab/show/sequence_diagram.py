"""The sequence diagram of a run: time runs downwards, with a column for each actor and database file.

A call is an arrow to the right and its answer an arrow back. A tick on the database's line is a commit, and
the boxes beside it are what that commit added. A bar along an actor's line is a lease, to the scale of `now`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from receiptlab.experiment.run import Lease, Run, Step
from receiptlab.show import words
from receiptlab.show.palette import ANOMALY_INK, BLACK, GREY, INKS, NOTE
from receiptlab.show.picture import LINE, Pen, Picture, width, wrap

MAX_EVENTS, MAX_ACTORS = 200, 12
WIDEST = 760
"""The widest picture, in pixels: what a notebook shows without shrinking it."""
_LIFELINE, _DATABASE, _LEASE, _LEASE_EDGE = "#9A9A9A", "#6E6E6E", "#CFE6F7", "#5B93B8"
_TRANSACTION, _LOCK, _LOCK_EDGE = "#ECECEC", "#FBE3B5", "#B88A2C"
_MARGIN, _GAP, _BOX = 12, 16, 21
_CLOSEST = 62
"""The least distance between two columns."""
_LABEL = 150
"""A label may be this wide, even where the arrow is shorter."""


def timeline(run: Run) -> Picture:
    """Draw the run.

    Raises ValueError for more than 200 steps or 12 actors, which would be unreadable.
    """
    actors = list(dict.fromkeys(step.actor for step in run.steps if step.call != "reopen"))
    if len(run.steps) > MAX_EVENTS or len(actors) > MAX_ACTORS:
        raise ValueError(
            f"a timeline shows at most {MAX_EVENTS} events and {MAX_ACTORS} actors; draw a part of it"
        )
    return _Diagram(run).draw()


@dataclass(frozen=True)
class _Drawn:
    """One step with its words, and where it is drawn. `call` and `answer` are lines of text, `boxes` the
    texts beside the database. `top`, `arrow`, `back` and `bottom` are heights."""

    step: Step
    file: str
    call: list[str]
    answer: list[str]
    boxes: list[str]
    committed: bool
    top: float = 0
    arrow: float = 0
    back: float = 0
    bottom: float = 0


class _Diagram:
    """The layout of one run, and how its parts are drawn."""

    def __init__(self, run: Run) -> None:
        self.pen = Pen()
        steps = tuple(step if type(step.now) is int else replace(step, now=None) for step in run.steps)
        run = self.run = replace(run, steps=steps)  # a wrong argument may be no time at all
        self.given, self.steps = words.given(run)
        self.files = words.files(run)
        first = {step.actor: None for step in self.steps if step.call != "reopen"}
        self.actors = [name for name in first if name not in self.files]
        self.clock = len({step.now for step in self.steps} - {None}) > 1
        self.varied = words.deciding(run)
        self.boxed = self._boxes()
        self._columns()
        self._rows()

    # The layout.

    def _boxes(self) -> dict[int, list[str]]:
        before, boxed = None, {}
        for step in self.run.steps:
            boxed[step.number] = words.boxes(self.run, step, before)
            before = step
        return boxed

    def _columns(self) -> None:
        """Where each column is. Columns are as far apart as the labels of the last actor need."""
        left = _MARGIN + (38 if self.clock else 0)
        half = max(width(line, bold=True) for line in wrap(self.actors[0] if self.actors else "x", 90)) / 2
        first = left + half + 2
        texts = [text for texts in self.boxed.values() for text in texts]
        texts += [f"‼ {step.anomaly}" for step in self.steps if step.anomaly]
        boxes = max((width(text, bold=True) for text in texts), default=0)
        if any(map(words.is_statement, self.steps)):
            boxes = max(boxes, *(width(name, 12) for name in self.actors))
        several = len(self.files) > 1
        right = _MARGIN + (55 if several else max(40, min(boxes, 190) + 18))
        gaps = len(self.actors) + len(self.files) - 1
        wanted = 0.0
        for step in self.steps:
            if step.actor in self.actors:
                span = len(self.actors) - self.actors.index(step.actor)
                texts = (words.call(self.run, step, self.varied), words.answer(step))
                wanted = max(wanted, (min(max(map(width, texts)), 260) + 26) / span)
        most = (WIDEST - first - right) / max(gaps, 1)
        apart = max(_CLOSEST, min(max(wanted, 100), most))
        names = [*self.actors, *self.files]
        self.x = {name: first + number * apart for number, name in enumerate(names)}
        self._head_room = (apart - 10) / 1.1  # the names are bold
        self.wide = max(first + gaps * apart + right, 330)

    def _rows(self) -> None:
        """Where each step is, from the top down."""
        title = wrap(self.run.title[:1].upper() + self.run.title[1:], (self.wide - 2 * _MARGIN) * 0.92)
        given = words.given_line(self.given)
        self.heading = title
        self.given_lines = wrap(given, self.wide - 2 * _MARGIN) if given else []
        clauses = wrap(", ".join(self.run.clauses), self.wide - 2 * _MARGIN)
        self.clauses = clauses
        y = 8 + LINE * (len(title) + len(clauses) + len(self.given_lines)) + 12
        heads = [wrap(name, self._head_room) for name in self.x]
        self.head_top = y
        y += LINE * max(map(len, heads)) + 4
        self.line_top = y
        self.rows: list[_Drawn] = []
        for step in self.steps:
            row = self._place(step, y + _GAP + (20 if self._expires_before(step) else 0))
            self.rows.append(row)
            y = row.bottom
        self.high = y + 14

    def _place(self, step: Step, top: float) -> _Drawn:
        file = words.file_of(step, self.files)
        if step.call == "reopen" or step.actor not in self.x:
            return _Drawn(step, file, [], [], [], False, top, top + 12, top + 12, top + 20)
        room = max(abs(self.x[file] - self.x[step.actor]) - 22, _LABEL)
        call, answer = wrap(words.call(self.run, step, self.varied), room), wrap(words.answer(step), room)
        if words.is_statement(step) and not words.call_ended(step):
            return self._place_statement(step, file, top - 6, call, answer)
        boxes = self.boxed[step.number]
        arrow = top + LINE * len(call) + 1
        back = arrow + LINE * len(answer) + 7
        side = len(self.files) == 1
        pills = len(boxes) + bool(step.anomaly)
        bottom = max(back, arrow - 8 + _BOX * pills) if side else back + _BOX * pills + 2 * bool(pills)
        committed = words.committed(step, self.run)
        return _Drawn(step, file, call, answer, boxes, committed, top, arrow, back, bottom)

    def _place_statement(
        self, step: Step, file: str, top: float, call: list[str], answer: list[str]
    ) -> _Drawn:
        """A statement is one arrow: towards the database, or back from it with what a SELECT saw."""
        text = ": ".join(filter(None, (" ".join(call), " ".join(answer))))
        arrow = top + LINE + 1
        return _Drawn(step, file, [text], [], self.boxed[step.number], False, top, arrow, arrow, arrow + 4)

    def _expires_before(self, step: Step) -> bool:
        """Whether a lease is seen to have expired when this step comes."""
        earlier = [each for each in self.run.steps if each.number < step.number]
        if step.now is None or not earlier:
            return False
        before = max((each.now for each in earlier if each.now is not None), default=0)
        leases = {lease.until for each in earlier for lease in each.leases if lease in earlier[-1].leases}
        return any(before < until <= step.now for until in leases)

    # The drawing.

    def draw(self) -> Picture:
        self._head()
        for name, x in self.x.items():
            thick, colour = (5, _DATABASE) if name in self.files else (1.2, _LIFELINE)
            self.pen.line(x, self._starts(name), x, self.high - 6, colour, thick)
        self._leases()
        self._transactions()
        for row in self.rows:
            self._step(row)
        picture = self.pen.picture(self.wide, self.high, self.run.title, words.description(self.run))
        picture.rows = {step.number: (self.head_top - LINE, self.line_top) for step in self.given}
        picture.rows |= {row.step.number: (row.top - 4, row.bottom + 6) for row in self.rows}
        return picture

    def _starts(self, name: str) -> float:
        """A copy's line begins with the backup that made it."""
        for row in self.rows:
            if name == "copy" and row.step.call == "backup":
                return row.arrow
        return self.line_top

    def _head(self) -> None:
        y = 8.0
        for line in self.heading:
            y += LINE
            self.pen.text(_MARGIN, y, line, bold=True)
        for line in (*self.clauses, *self.given_lines):
            y += LINE
            self.pen.text(_MARGIN, y, line, NOTE, size=12)
        for name, x in self.x.items():
            lines = wrap(name, self._head_room)
            for number, line in enumerate(lines):
                at = self.line_top - 5 - LINE * (len(lines) - 1 - number)
                self.pen.text(x, at, line, anchor="middle", bold=True)

    def _step(self, row: _Drawn) -> None:
        step = row.step
        if self.clock and step.now is not None:
            self.pen.text(_MARGIN, row.arrow + 4, words.short_time(step.now), NOTE, size=12)
        if step.call == "reopen":
            self.pen.line(_MARGIN + 40, row.arrow, self.wide - _MARGIN, row.arrow, GREY, 1.2, "2 4")
            middle = (self.x[self.files[0]] + _MARGIN) / 2
            self.pen.text(middle, row.arrow + 4, "file reopened", NOTE, anchor="middle", halo=True)
            return
        if step.actor not in self.actors:
            return
        here, there = self.x[step.actor], self.x[row.file]
        if words.is_statement(step) and not words.call_ended(step):
            self._statement(row, here, there)
        else:
            self._request(row, here, there)
            self._answer(row, here, there)
        self._held(row, there)

    def _request(self, row: _Drawn, here: float, there: float) -> None:
        middle = self._label_x(row, here, there)
        for number, line in enumerate(row.call):
            y = row.arrow - 5 - LINE * (len(row.call) - 1 - number)
            self.pen.text(middle, y, line, anchor="middle", halo=True)
        if row.step.outcome == "invalid":  # it never leaves the caller
            self.pen.line(here, row.arrow, here + 34, row.arrow, BLACK, 1.5)
            self.pen.line(here + 34, row.arrow - 6, here + 34, row.arrow + 6, BLACK, 2)
            return
        edge = 4 if there > here else -4
        self.pen.arrow(here, there - edge, row.arrow, BLACK)

    def _statement(self, row: _Drawn, here: float, there: float) -> None:
        step = row.step
        failed = step.outcome == "failed"
        colour = INKS["refused"] if failed else BLACK
        self.pen.text(
            self._label_x(row, here, there), row.arrow - 5, row.call[0], colour, anchor="middle", halo=True
        )
        if step.outcome == "read":
            self.pen.arrow(there - 4, here, row.arrow, NOTE, "5 3")
        elif failed:
            self.pen.line(here, row.arrow, there - 16, row.arrow, colour, 1.5)
            self.pen.line(there - 16, row.arrow - 6, there - 16, row.arrow + 6, colour, 2)
        else:
            self.pen.arrow(here, there - 4, row.arrow, BLACK)

    def _transactions(self) -> None:
        """A bar along a caller's line from BEGIN to COMMIT, and one on the database's while it has the write
        lock."""
        begun: dict[str, float] = {}
        locked: dict[str, float] = {}
        for row in self.rows:
            step, (verb, *more) = row.step, row.step.call.split()
            if not words.is_statement(step) or step.outcome == "failed":
                continue
            if verb == "BEGIN":
                begun[step.actor] = row.arrow
            if "IMMEDIATE" in more or (verb in ("INSERT", "UPDATE", "DELETE") and step.actor in begun):
                locked.setdefault(step.actor, row.arrow)
            if verb in ("COMMIT", "ROLLBACK"):
                self._bar(step.actor, row, begun, locked)
        for actor in list(begun):
            self._bar(actor, self.rows[-1], begun, locked)

    def _bar(self, actor: str, row: _Drawn, begun: dict[str, float], locked: dict[str, float]) -> None:
        here, there = self.x[actor], self.x[row.file]
        if actor in begun:
            start = begun.pop(actor)
            self.pen.box(here - 5, start - 6, 10, row.arrow - start + 12, _TRANSACTION, _LIFELINE, 2)
        if actor in locked:
            start = locked.pop(actor)
            self.pen.box(there - 10, start - 4, 20, row.arrow - start + 8, _LOCK, _LOCK_EDGE, 2)
            self.pen.text(there + 15, start + 12, "write lock:", INKS["refused"], size=12)
            self.pen.text(there + 15, start + 27, actor, INKS["refused"], size=12)

    def _label_x(self, row: _Drawn, here: float, there: float) -> float:
        """The middle of a label: that of its arrow, or further left where the arrow is too short."""
        wide = max(map(width, (*row.call, *row.answer)))
        if there > here:
            return min((here + there) / 2, there - 9 - wide / 2)
        return max((here + there) / 2, there + 9 + wide / 2)

    def _answer(self, row: _Drawn, here: float, there: float) -> None:
        step, colour = row.step, self._ink(row.step)
        x = self._label_x(row, here, there)
        edge = 4 if there > here else -4
        for number, line in enumerate(row.answer):
            y = row.back - 5 - LINE * (len(row.answer) - 1 - number)
            self.pen.text(x, y, line, colour, anchor="middle", bold=True, halo=True)
        if step.outcome == "invalid" or words.crashed(step):
            return
        if step.outcome == "unknown":
            middle = (here + there) / 2
            self.pen.line(there - edge, row.back, middle, row.back, colour, 1.5, "5 3")
            self._cross(middle, row.back, colour)
        else:
            self.pen.arrow(there - edge, here, row.back, colour, "5 3")

    def _cross(self, x: float, y: float, colour: str) -> None:
        self.pen.dot(x, y, 8, "white", "white")
        self.pen.line(x - 5, y - 5, x + 5, y + 5, colour, 3)
        self.pen.line(x - 5, y + 5, x + 5, y - 5, colour, 3)

    def _ink(self, step: Step) -> str:
        return ANOMALY_INK if step.anomaly else INKS[words.tone(step)]

    def _held(self, row: _Drawn, there: float) -> None:
        """What the database did: a tick for a commit or a cross for a crash, and the boxes beside it."""
        between = (row.arrow + row.back) / 2
        if words.crashed(row.step):
            self._cross(there, between, INKS["unknown"])
        elif row.committed:
            colour = self._ink(row.step) if row.step.anomaly else INKS["accepted"]
            self.pen.dot(there, between, 8, "white", colour)
            self.pen.line(there - 4, between, there - 1, between + 3.5, colour, 2)
            self.pen.line(there - 1, between + 3.5, there + 4, between - 3.5, colour, 2)
        texts = [(text, bool(row.step.anomaly)) for text in row.boxes]
        if row.step.anomaly:
            texts.append((f"‼ {row.step.anomaly}", True))
        side = len(self.files) == 1
        y = row.arrow - 8 if side else row.back + 4
        for text, harmful in texts:
            wide = width(text, bold=harmful) + 10
            x = there + 14 if side else min(there - wide / 2, self.wide - wide - 4)
            plain = text.startswith("nothing") or text == "unchanged"
            if plain:
                self.pen.text(x + (0 if side else 5), y + 14, text, NOTE, size=12, halo=not side)
            else:
                fill, edge = (ANOMALY_INK, ANOMALY_INK) if harmful else ("#E6F2EC", "#7FB59E")
                self.pen.box(x, y, wide, _BOX - 3, fill, edge)
                self.pen.text(x + 5, y + 13.5, text, "white" if harmful else BLACK, bold=harmful)
            y += _BOX

    # Leases.

    def _leases(self) -> None:
        begun: dict[Lease, _Drawn] = {}
        for row in self.rows:
            for lease in row.step.leases:
                begun.setdefault(lease, row)
        given = {lease for step in self.given for lease in step.leases}
        slots: dict[str, int] = {}
        for lease, row in begun.items():
            holder = lease.holder if lease.holder in self.actors else row.step.actor
            if holder not in self.actors or lease in given or lease.on.startswith("queue "):
                continue
            if any(map(words.is_statement, self.steps)):
                continue
            slot = slots[holder] = slots.get(holder, -1) + 1
            self._lease(lease, row, self.x[holder] + 4 * (slot % 2))

    def _lease(self, lease: Lease, begin: _Drawn, x: float) -> None:
        end, expired = self._end(lease, begin)
        self.pen.box(x - 5, begin.back, 10, max(end - begin.back, 4), _LEASE, _LEASE_EDGE, 0)
        if end < self.high - 6:
            self.pen.line(x - 10, end, x + 10, end, BLACK, 2)
        if expired:
            self.pen.text(
                x + 13, end + 4, f"lease expired {words.short_time(lease.until)}", NOTE, size=12, halo=True
            )

    def _end(self, lease: Lease, begin: _Drawn) -> tuple[float, bool]:
        """Where a lease ends, and whether it expired there. `now` is the scale between two steps."""
        before = begin
        for row in self.rows:
            if row.step.number <= begin.step.number:
                continue
            now, then = row.step.now, before.step.now
            if now is not None and now >= lease.until:
                start = then if then is not None else lease.until
                share = (lease.until - start) / (now - start) if now > start else 1.0
                low, high = before.bottom + 6, row.top - 8
                return low + (high - low) * max(0.0, min(share, 1.0)), True
            if lease not in row.step.leases:
                return row.back, False
            before = row if now is not None else replace(row, step=replace(row.step, now=then))
        return self.high - 6, False
