"""FairLock: one at a time, in the order of asking, and whatever ends a process or a wait frees them."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from receiptlab.errors import NotWritten
from receiptlab.examples import fair_lock as module
from receiptlab.examples.fair_lock import FairLock
from receiptlab.faults.processes.children import environment
from receiptlab.store import Store

fcntl = pytest.importorskip("fcntl", reason="without file locks there are no turns")

WATCHDOG_SECONDS = 30
HOLD = """
import sys
from receiptlab.examples.fair_lock import FairLock
for line in sys.stdin:
    try:
        with FairLock(sys.argv[1]):
            print("IN", flush=True)
            sys.stdin.readline()
        print("OUT", flush=True)
    except KeyboardInterrupt:
        print("INTERRUPTED", flush=True)
"""
COUNT = """
import os, sys
from receiptlab.examples.fair_lock import FairLock
turns = FairLock(sys.argv[1])
print("READY", flush=True)
sys.stdin.readline()
for _ in range(200):
    with turns:
        count = int(open(sys.argv[2]).read())
        os.sched_yield()
        open(sys.argv[2], "w").write(str(count + 1))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "receipts.db"


@pytest.fixture(autouse=True)
def watchdog():
    """Whoever waits for a turn that never comes fails."""

    def bark(number, frame):
        raise AssertionError("it hung")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(WATCHDOG_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@contextmanager
def process(program, *words):
    """A process that runs `program`. It is killed at the end."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        encoding="utf-8",
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def tell(child, line="GO"):
    child.stdin.write(line + "\n")
    child.stdin.flush()


def says(child, line):
    assert child.stdout.readline() == line + "\n"


def enters(path):
    """A process of its own gets its turn, and gives it back."""
    with process(HOLD, path) as other:
        tell(other)
        says(other, "IN")
        tell(other)
        says(other, "OUT")


def free(path, what, mode="a"):
    """Is nobody in the turn, or first in the queue?"""
    try:
        with open(f"{path}-{what}", mode) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def until_first_in_line(path):
    """Wait until somebody stands in the queue. He waits for the turn then, or is about to."""
    while free(path, "queue"):
        time.sleep(0.001)


def test_processes_exclude_each_other(path, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    with (
        process(COUNT, path, counter) as a,
        process(COUNT, path, counter) as b,
        process(COUNT, path, counter) as c,
        process(COUNT, path, counter) as d,
    ):
        for child in (a, b, c, d):
            says(child, "READY")
        for child in (a, b, c, d):
            tell(child)
        assert [child.wait() for child in (a, b, c, d)] == [0, 0, 0, 0]
    assert counter.read_text() == "800"


@pytest.mark.parametrize("shared", [True, False], ids=["one object", "an object each"])
def test_threads_of_one_process_exclude_each_other(path, shared):
    turns, told = FairLock(path), []

    def other():
        with turns if shared else FairLock(path):
            told.append("other in")

    with turns:
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        until_first_in_line(path)
        told.append("out")
    thread.join()
    assert told == ["out", "other in"]
    assert free(path, "turn")


def test_who_asks_again_at_once_does_not_overtake(path):
    turns, told = FairLock(path), []

    def other():
        with FairLock(path):
            told.append("other")

    for _ in range(20):
        with turns:
            thread = threading.Thread(target=other, daemon=True)
            thread.start()
            until_first_in_line(path)
            told.append("first")
        with turns:
            told.append("again")
        thread.join()
    assert told == ["first", "other", "again"] * 20


def test_a_killed_process_frees_its_turn(path):
    with process(HOLD, path) as holder:
        tell(holder)
        says(holder, "IN")
        assert not free(path, "turn")
        holder.kill()
        holder.wait()
        enters(path)


def test_a_process_killed_in_the_line_frees_its_place(path):
    with FairLock(path), process(HOLD, path) as waiting:
        tell(waiting)
        until_first_in_line(path)
        waiting.kill()
        waiting.wait()
        assert free(path, "queue")
    enters(path)


def test_ctrl_c_ends_the_wait_and_leaves_nothing_locked(path):
    with process(HOLD, path) as waiting:
        with FairLock(path):
            tell(waiting)
            until_first_in_line(path)
            waiting.send_signal(signal.SIGINT)
            says(waiting, "INTERRUPTED")
            assert free(path, "queue")
            assert not free(path, "turn")
        enters(path)  # while the one that was interrupted lives
        tell(waiting)
        says(waiting, "IN")
        assert not free(path, "turn")


def interrupted(turns, at):
    """One turn in which Ctrl-C strikes at the `at`th place where a signal is looked at: as a function is
    entered, and after a call. The error with all that its traceback keeps alive, or None."""
    left = at

    def profile(frame, event, arg):
        nonlocal left
        if frame.f_code.co_filename == module.__file__ and event in ("call", "c_return"):
            left -= 1
            if not left:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        with turns:
            pass
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.setprofile(None)
    return None


def test_ctrl_c_at_any_place_keeps_nobody_out(path):
    turns, errors, left = FairLock(path), [], []
    while error := interrupted(turns, len(errors) + 1):
        errors.append(error)
        left.append(free(path, "turn") and free(path, "queue"))
        with turns:  # it is this thread's turn again, whatever was left
            pass
        assert free(path, "turn")
        assert free(path, "queue")
    # As it begins to give its turn back it can keep it, until it asks again.
    assert left.count(False) == 1
    assert left.index(False) > 8


def test_a_turn_inside_a_turn_is_refused(path):
    for inner in (turns := FairLock(path), FairLock(path)):
        with turns:
            with pytest.raises(NotWritten, match=r"^nested: ") as caught, inner:
                pass
            assert caught.value.reason == "nested"
            assert not free(path, "turn")
            assert free(path, "queue")
        assert free(path, "turn")


def test_the_fair_locks_of_two_files_have_nothing_to_do_with_each_other(path, tmp_path):
    with FairLock(path), FairLock(tmp_path / "other.db"):
        enters(tmp_path / "third.db")


def test_an_error_in_a_turn_comes_through_and_frees_it(path):
    with pytest.raises(ZeroDivisionError), FairLock(path):
        raise ZeroDivisionError
    assert free(path, "turn")


def test_the_fixture_itself_is_never_touched(path):
    with FairLock(path):
        assert not path.exists()
    for what in ("turn", "queue"):
        assert path.with_name(f"receipts.db-{what}").read_bytes() == b""


def test_files_that_are_removed_are_made_again(path):
    with FairLock(path):
        os.unlink(f"{path}-turn")
        os.unlink(f"{path}-queue")
        enters(path)  # two at once: slower, not wrong
    with FairLock(path):
        assert not free(path, "turn")
    assert free(path, "turn")


def goes_without(path):
    """Somebody has the turn, and this one goes on all the same. It is still refused inside itself."""
    with process(HOLD, path) as holder:
        tell(holder)
        says(holder, "IN")
        with FairLock(path), pytest.raises(NotWritten, match=r"^nested: "), FairLock(path):
            pass


def test_without_a_folder_there_are_no_turns(tmp_path):
    goes_without(tmp_path / "missing" / "receipts.db")


def test_in_a_folder_that_is_not_ours_there_are_no_turns(plain_user):
    plain_user.chmod(0o500)
    with FairLock(plain_user / "receipts.db"):
        assert list(plain_user.iterdir()) == []


def test_files_that_may_only_be_read_are_enough(plain_user):
    path = plain_user / "receipts.db"
    for what in ("turn", "queue"):
        path.with_name(f"receipts.db-{what}").touch(mode=0o444)
    with FairLock(path):
        assert not free(path, "turn", "r")


def test_a_link_is_not_followed(path, tmp_path):
    (tmp_path / "receipts.db-turn").symlink_to(path)
    with FairLock(path):
        assert not path.exists()


def test_a_file_system_without_locks_has_no_turns(path, monkeypatch):
    def flock(file, how):
        raise OSError("no locks here")

    monkeypatch.setattr(module.fcntl, "flock", flock)
    goes_without(path)


def test_without_fcntl_there_are_no_turns(path, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)
    goes_without(path)


def test_it_costs_an_open_store_none_of_its_locks(path):
    with Store.create(path, ("CREATE TABLE t (x INTEGER) STRICT",)) as store:
        with FairLock(path), store.write() as db:
            db.execute("INSERT INTO t VALUES (1)")
        enters(path)
        with store.write() as db:
            db.execute("INSERT INTO t VALUES (2)")
        assert store.read("SELECT count(*) FROM t") == [(2,)]
