"""The command `work` and those that look after work, with real processes and real signals."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from receiptlab.cli import intake_command as command
from receiptlab.cli import options
from receiptlab.cli.commands import main
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.work.work import Work
from receiptlab.examples import clock
from receiptlab.examples import subprocess_handler as running
from receiptlab.examples.handler import Failure
from receiptlab.examples.subprocess_handler import CommandHandler
from receiptlab.store import Store
from receiptlab.values import sha256
from tests.faults import killed_workers

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the command needs process groups")

ROOT = Path(__file__).parents[2]
DELIVERIES, INBOX = ROOT / "data/deliveries.jsonl", ROOT / "data/inbox.mbox"
PYTHON = sys.executable
LIMIT = 60
"""Seconds that anything may take before a test gives up."""


def python(code, *arguments):
    return (PYTHON, "-c", code, *map(str, arguments))


def ran(*argv, timeout=LIMIT * 1_000, item=None, beat=lambda: None):
    deadline = time.monotonic() + 2 * LIMIT

    def beats():
        assert time.monotonic() < deadline, "the command was not ended"
        beat()

    return CommandHandler(argv, timeout)(item or {"key": "a"}, beats)


def failure(*argv, **more):
    with pytest.raises(Failure) as failed:
        ran(*argv, **more)
    return failed.value


def awaited(what, of="it"):
    """Wait until `what` gives something true."""
    deadline = time.monotonic() + LIMIT
    while not (found := what()):
        assert time.monotonic() < deadline, f"{of} did not come"
        time.sleep(0.01)
    return found


def lives(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# A command on one item


def test_the_item_is_json_on_standard_input_and_what_it_prints_is_the_result():
    item = {"key": "ключ", "body": "\x00\n", "revision": 1}
    assert json.loads(ran("cat", item=item)) == item
    assert ran("cat", item=item).count("\n") == 1
    assert ran(*python("print('é' * 3)")) == "ééé\n"
    assert ran("true") == ""


def test_a_large_item_goes_in_whole_and_a_command_need_not_read_it():
    large = {"body": "x" * 3_000_000}
    code = "import sys; print(len(sys.stdin.buffer.read()))"
    assert ran(*python(code), item=large) == f"{len(json.dumps(large)) + 1}\n"
    assert ran("echo", "done", item=large) == "done\n"
    assert ran(*python("import os; os.close(0); print('done')"), item=large) == "done\n"


def test_a_command_may_close_its_outputs_before_it_has_read_and_ended():
    code = (
        "import os, sys; os.close(1); os.close(2); n = len(sys.stdin.buffer.read()); os._exit(n > 3_000_000)"
    )
    assert failure(*python(code), item={"body": "x" * 3_000_000}).error == "exit-1"


@pytest.mark.parametrize(
    ("code", "error", "detail"),
    [
        ("import sys; print('out'); print('why', file=sys.stderr); sys.exit(3)", "exit-3", "why\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal-9", ""),
        ("import os; os.write(1, b'\\xff')", "output-not-utf-8", "at byte 0\n"),
        ("import os; os.write(2, b'\\xff\\x00'); os._exit(1)", "exit-1", "\\xff\x00"),
    ],
)
def test_a_command_that_fails(code, error, detail):
    failed = failure(*python(code))
    assert (failed.error, failed.detail) == (error, detail)


def test_of_a_long_standard_error_the_end_is_kept():
    code = "import sys; sys.stderr.write('a' * 10_000_000 + 'é' * 2_000 + '.'); sys.exit(1)"
    detail = failure(*python(code)).detail
    assert (detail, len(detail.encode())) == ("é" * 1_023 + ".", 2_047)


@pytest.mark.parametrize(
    "argv",
    [
        ("yes",),
        python("while True: print('x' * 100_000)"),
        python(f"print('x' * {running.MAX_OUTPUT}, end='x')"),
    ],
    ids=["yes", "python", "one byte more"],
)
def test_a_command_that_prints_too_much_is_killed(argv):
    assert failure(*argv).error == "output-too-long"
    assert len(ran(*python(f"print('x' * {running.MAX_OUTPUT}, end='')"))) == running.MAX_OUTPUT


def test_a_gigabyte_needs_no_memory():
    """Both outputs; the standard error is read to its end, in pieces. The worker may have 500 MB."""
    code = """if True:
        import resource, sys
        resource.setrlimit(resource.RLIMIT_AS, (500_000_000, 500_000_000))
        from receiptlab.examples.handler import Failure
        from receiptlab.examples.subprocess_handler import CommandHandler
        for stream in "stdout", "stderr":
            try:
                CommandHandler((sys.executable, "-c", f"import sys\\nfor n in range(1000): sys.{stream}.write('x' * 1_000_000)"), 60_000)({}, lambda: None)
            except Failure as failure:
                print(failure.error)"""
    done = subprocess.run(python(code), capture_output=True, text=True, timeout=LIMIT, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("output-too-long\n", "")


def test_a_command_that_does_not_end_is_killed_with_its_group(tmp_path):
    told = tmp_path / "child"
    line = 'sleep 600 & echo $! > "$0"; wait'
    assert failure("sh", "-c", line, str(told), timeout=1_500).error == "timeout"
    child = int(told.read_text())
    awaited(lambda: not lives(child), "the end of the child")


def test_what_left_its_group_and_keeps_the_outputs_open_ends_with_the_time(tmp_path):
    code = "import subprocess; subprocess.Popen(['sleep', '5'], start_new_session=True); print('out')"
    assert failure(*python(code), timeout=700).error == "timeout"


def test_it_runs_in_a_session_of_its_own():
    assert ran(*python("import os; print(os.getsid(0) == os.getpid())")) == "True\n"


def test_what_a_beat_raises_kills_the_command(tmp_path):
    told = tmp_path / "pid"

    def beat():
        if told.exists() and told.read_text().endswith("\n"):
            raise Failure("stopped")

    code = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w')); time.sleep(600)"
    assert failure(*python(code, told), beat=beat).error == "stopped"
    assert not lives(int(told.read_text()))


def test_what_cannot_be_started_is_a_failure_of_the_item(tmp_path):
    odd = tmp_path / "odd"
    odd.write_bytes(b"\x7fno program")
    odd.chmod(0o755)
    for name in (odd, tmp_path / "missing", tmp_path):
        assert failure(str(name)).error == "cannot-start"


def test_no_pipes_are_left_open():
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files are counted in /proc")
    before = len(os.listdir("/proc/self/fd"))
    for argv in (("true",), ("false",), ("yes",), ("/missing",)):
        with contextlib.suppress(Failure):
            ran(*argv)
    assert len(os.listdir("/proc/self/fd")) == before


# The command line


@pytest.fixture
def db(tmp_path, capsys):
    """A database file with the four webhook deliveries that come with the lab, as work of p."""
    path = tmp_path / "my.db"
    assert main(["intake", str(DELIVERIES), "--db", str(path), "--processor", "p"]) == 1
    capsys.readouterr()
    return path


def lab(*arguments):
    return main([*map(str, arguments)])


def asked(path, sql):
    with Store.open(path) as store:
        return store.read(f"SELECT {sql}")


def states(path):
    return dict(asked(path, "state, count(*) FROM work GROUP BY state"))


def sound(path):
    return killed_workers.wrong(path, killed_workers.WRONG) == {}


def test_from_intake_to_the_sweep(db, capsys):
    assert lab("work", "--db", db, "--processor", "p", "--drain", "--", "cat") == 0
    assert "4 done, 0 failed, 0 lost, 0 dead_letters; 0 not finished" in capsys.readouterr().err
    assert lab("sweep", "--db", db) == 0
    assert states(db) == {"done": 4}  # it is kept for a week
    bodies = {}
    for (output,) in asked(db, "output FROM result"):
        item = json.loads(output)
        bodies[item["namespace"], item["key"]] = item.get("body") or item["body_base64"]
    assert bodies["parcels", "evt-1"] == '{"type": "sent", "order": 17}'
    assert bodies["payments", "evt-4"] == "AAEC/w=="
    assert (
        lab("intake", DELIVERIES, "--db", db, "--processor", "p", "--processor", "q", "--processor", "q") == 1
    )
    assert "work staged            4" in capsys.readouterr().out
    assert states(db) == {"done": 4, "pending": 4}
    assert sound(db)


def test_a_letter_is_told_with_sender_and_subject(tmp_path, capsys):
    db = tmp_path / "my.db"
    lab("intake", INBOX, "--db", db, "--processor", "p", "--processor-revision", "7", "--now", 5)
    assert lab("work", "--db", db, "--processor", "p", "--now", 5, "--", "cat") == 0
    items = [json.loads(output) for (output,) in asked(db, "output FROM result ORDER BY id")]
    assert [(item["subject"], item["revision"]) for item in items] == [
        ("Order 17", 1), ("Order 17", 2), ("Scan from the front desk, März", 1),
        ("A photo that was cut off on the way", 1), ("Thanks", 1),
    ]  # fmt: skip
    assert {item["processor_revision"] for item in items} == {"7"}
    assert asked(db, "DISTINCT worked_at FROM result") == [(5,)]


def test_what_is_retained_shortly_is_compacted_and_still_known(tmp_path, capsys):
    db = tmp_path / "my.db"
    lab(
        "intake",
        DELIVERIES,
        "--db",
        db,
        "--processor",
        "p",
        "--now",
        0,
        "--retain",
        "0.5",
        "--keep-tombstone",
        60,
    )
    assert lab("work", "--db", db, "--processor", "p", "--now", 1, "--", "cat") == 0
    assert lab("sweep", "--db", db, "--now", 499) == 0
    assert states(db) == {"done": 4}
    assert lab("sweep", "--db", db, "--now", 500, "--limit", 1) == 0
    out = capsys.readouterr().out
    assert "compacted     4" in out
    assert (states(db), asked(db, "count(*) FROM result")) == ({}, [(4,)])
    lab("intake", DELIVERIES, "--db", db, "--processor", "p", "--now", 501)
    assert "first seen             0" in capsys.readouterr().out


def test_dead_work_is_shown_in_pages_and_can_be_requeued(db, capsys):
    argv = (
        "--processor",
        "p",
        "--attempts",
        2,
        "--backoff",
        0,
        "--drain",
        "--",
        "sh",
        "-c",
        "echo oh no >&2; exit 3",
    )
    assert lab("work", "--db", db, *argv) == 0
    capsys.readouterr()
    assert lab("dead", "--db", db, "--limit", 3) == 0
    out, err = capsys.readouterr()
    assert out.count("failed, failed") == 3
    assert "exit-3: oh no" in out
    assert err == "there are more; continue with --after 3\n"
    assert lab("dead", "--db", db, "--after", 3) == 0
    out, err = capsys.readouterr()
    assert (out.count("failed, failed"), err) == (1, "")
    assert lab("requeue", "--db", db, 1, 99, 2, 1) == 1
    out, err = capsys.readouterr()
    assert out == "1 is pending again\n2 is pending again\n"
    assert (
        err
        == "99: not-found: there is no such item; it may have been compacted or erased; nothing was changed\n"
    )
    assert lab("requeue", "--db", db, 1) == 1
    assert "not-dead" in capsys.readouterr().err
    assert lab("work", "--db", db, "--processor", "p", "--drain", "--", "cat") == 0
    assert states(db) == {"done": 2, "dead": 2}
    assert lab("status", "--db", db) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[-1] == ["p", "0", "0", "0", "2", "2", "0"]
    assert lab("status", "--db", db, "--metrics") == 0
    assert 'receiptlab_work_items{processor="p",state="dead"} 2.0' in capsys.readouterr().out
    assert sound(db)


def test_a_dead_letter_outlives_a_short_retention_until_it_is_dealt_with(tmp_path, capsys):
    db = tmp_path / "my.db"
    taken = ("--processor", "p", "--now", 0, "--retain", 0.5, "--keep-tombstone", 10**7)
    lab("intake", DELIVERIES, "--db", db, *taken)
    with Store.open(db) as store:
        for namespace, claims in (("payments", 3), ("parcels", 1)):
            assert len(Work(store).next(namespace, "p", "w", 9, 100, 9, 1).claims) == claims
    assert lab("sweep", "--db", db, "--now", 1_000, "--attempts", 1) == 0
    out = capsys.readouterr().out
    assert "dead_letters  4" in out and "compacted     0" in out
    assert asked(db, "count(*) FROM outbox WHERE topic = 'dead-letter'") == [(4,)]
    assert lab("dead", "--db", db) == 0
    assert capsys.readouterr().out.count("its claim ended") == 4
    assert lab("discard", "--db", db, 1, 99, "--now", 2_000) == 1
    out, err = capsys.readouterr()
    assert (out, "99: not-found" in err) == ("1 is discarded\n", True)
    keep = ("--keep-dead", 10)
    assert lab("sweep", "--db", db, *keep, "--now", 10_999) == 0
    assert states(db) == {"dead": 3}
    assert lab("requeue", "--db", db, 2, "--now", 10_999) == 0
    assert lab("sweep", "--db", db, *keep, "--limit", 1, "--now", 21_000) == 0
    assert "discarded     2" in capsys.readouterr().out
    assert states(db) == {"pending": 1}
    assert sound(db)


def test_work_that_a_clock_ahead_put_off_is_reported_and_can_be_reset(db, capsys):
    ahead = clock.milliseconds() + 30 * 86_400_000
    with Store.open(db) as store:
        assert len(Work(store).next("payments", "p", "ahead", 9, 1_000, 9, ahead).claims) == 3
    assert lab("work", "--db", db, "--processor", "p", "--drain", "--wait", 0, "--", "cat") == 1
    err = capsys.readouterr().err
    assert "gave up after 0 s: 3 not finished, none can be claimed now; the first is due in 2,592,0" in err
    assert lab("status", "--db", db) == 0
    assert f"p: 3 claimed, delayed until {clock.shown(ahead + 1_000)}" in capsys.readouterr().err
    assert lab("status", "--db", db, "--metrics") == 0
    assert 'receiptlab_work_items_ahead{processor="p",state="claimed"} 3.0' in capsys.readouterr().out
    assert lab("status", "--db", db, "--horizon", 40 * 86_400) == 0
    assert capsys.readouterr().err == ""
    assert lab("reset-ahead", "--db", db, "--limit", 2) == 0
    assert capsys.readouterr().out == "3 due now\n"
    assert lab("work", "--db", db, "--processor", "p", "--drain", "--wait", 60, "--", "cat") == 0
    assert states(db) == {"done": 4}
    assert sound(db)


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweep",), ("requeue", 1), ("discard", 1), ("reset-ahead",),
        ("work", "--processor", "p", "--", "cat"), ("intake", DELIVERIES, "--processor", "q"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_a_time_far_from_the_newest_in_the_file_is_refused(db, capsys, arguments):
    """Seconds for milliseconds; a day early; a year late."""
    with Store.open(db) as store:
        [(newest,)] = store.read("SELECT max(staged_at) FROM outbox")
    name, *rest = arguments
    where = rest.index("--") if "--" in rest else len(rest)
    before = asked(db, "*, (SELECT count(*) FROM lease) FROM work ORDER BY id")
    for now in (newest // 1_000, newest - options.DAY, newest + options.YEAR, newest * 1_000):
        assert lab(name, *rest[:where], "--db", db, "--now", now, *rest[where:]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"receiptlab: the time would be {now} (") and err.count("\n") == 1
    assert asked(db, "*, (SELECT count(*) FROM lease) FROM work ORDER BY id") == before
    for now, force in ((newest + options.YEAR - 1, ()), (newest - options.DAY, ("--force",))):
        assert lab(name, *rest[:where], "--db", db, "--now", now, *force, *rest[where:]) in (0, 1)


def test_a_sweep_waits_for_no_other_and_outlives_its_lease(db, capsys, monkeypatch):
    with Store.open(db) as store:
        Work(store).acquire_sweep("other", 1_000)
    assert lab("sweep", "--db", db, "--force", "--now", 10_999) == 2
    assert "busy" in capsys.readouterr().err
    assert lab("sweep", "--db", db, "--force", "--now", 11_000) == 0
    with Store.open(db) as store:
        assert len(Work(store).next("payments", "p", "w", 3, 5, 9, 2**50).claims) == 3
    times = iter(range(2**51, 2**52, 6_000))
    monkeypatch.setattr("receiptlab.examples.clock.milliseconds", lambda: next(times))
    assert lab("sweep", "--db", db, "--force", "--limit", 1) == 0
    assert "expired       3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",), ("dead",), ("sweep",), ("requeue", "1"),
        ("work", "--processor", "p", "--drain", "--", "cat"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_a_file_without_the_tables_of_work_gets_a_sentence(tmp_path, capsys, arguments):
    plain = tmp_path / "plain.db"
    Store.create(plain, Intake.SCHEMA).close()
    name, *rest = arguments
    assert lab(name, "--db", plain, *rest) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"receiptlab: {plain} lacks the tables of work")
    assert err.count("\n") == 1
    assert lab(name, "--db", tmp_path / "missing.db", *rest) == 2
    assert "missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--hold-for", "0"), "--hold-for: must be a number of seconds, at least 0.001"),
        (("--hold-for", "-1"), "--hold-for"),
        (("--hold-for", "nan"), "must be a number of seconds"),
        (("--hold-for", "1e99"), "must be a number of seconds"),
        (("--hold-for", "soon"), "must be a number of seconds"),
        (("--attempts", "0"), "--attempts: must be an integer from 1"),
        (("--cap=-1",), "--cap: must be a number of seconds, at least 0"),
        (("--backoff=-0.1",), "--backoff"),
        (("--timeout", "0"), "--timeout"),
        (("--name", "a\nb"), "has a control character"),
        (("--namespace", ""), "--namespace"),
        (("--now", "-1"), "--now"),
        (("--now", "1.5"), "--now"),
    ],
)
def test_a_wrong_option_stops_it_before_anything_is_taken(db, capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        lab("work", "--db", db, "--processor", "p", "--drain", *arguments, "--", "cat")
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert states(db) == {"pending": 4}


@pytest.mark.parametrize("name", ["no-such-command", "/no/such/command", ".", str(DELIVERIES)])
def test_a_command_that_cannot_be_started_stops_it_before_anything_is_taken(db, capsys, name):
    ends = ("--attempts", 1, "--drain")  # were it to begin, it should end
    assert lab("work", "--db", db, "--processor", "p", *ends, "--", name) == 2
    err = capsys.readouterr().err
    assert (
        err
        == f"receiptlab: {name} is not a command that can be run; check its name, path and permissions; no item was claimed\n"
    )
    assert states(db) == {"pending": 4}


def test_wrong_horizons_get_a_sentence(tmp_path, capsys):
    db = tmp_path / "my.db"
    assert lab("intake", DELIVERIES, "--db", db, "--retain", 5, "--keep-tombstone", 4) == 2
    assert "--keep-tombstone is shorter than --retain" in capsys.readouterr().err
    assert not db.exists()


def test_a_command_keeps_its_own_dashes(db, capsys):
    assert lab("work", "--db", db, "--processor", "p", "--drain", "--", "echo", "--db", "--", "-x") == 0
    assert asked(db, "DISTINCT output FROM result") == [("--db -- -x\n",)]


# Real processes and real signals


def began(db, *argv, options=()):
    """A worker of its own process."""
    line = [PYTHON, "-m", "receiptlab", "work", "--db", str(db), "--processor", "p", *map(str, options), "--"]
    return subprocess.Popen(
        [*line, *map(str, argv)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    _, err = process.communicate(timeout=LIMIT)
    assert "Traceback" not in err
    return process.returncode, err


@contextlib.contextmanager
def children(*processes):
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def filled(path, items):
    with Store.create(path, command.SCHEMA) as store:
        for number in range(items):
            item = ("acme", "inbox", str(number), sha256(str(number)), "p", "1", 2**61, 2**61)
            Work(store).deliver(*item, clock.milliseconds())
    return path


def test_two_workers_share_twenty_items(tmp_path):
    db = filled(tmp_path / "my.db", 20)
    with children(*(began(db, "sh", "-c", "sleep 0.05; cat", options=["--drain"]) for _ in "ab")) as both:
        told = [ended(process) for process in both]
    assert [status for status, _ in told] == [0, 0]
    done = [int(err.split()[0]) for _, err in told]
    assert (sum(done), min(done) > 0) == (20, True)
    assert (states(db), asked(db, "count(*), count(DISTINCT identity) FROM result")) == (
        {"done": 20},
        [(20, 20)],
    )
    assert asked(db, "count(*) FROM attempt") == [(20,)]
    assert sound(db)


HOLDS = "import os, sys, time\nprint(os.getpid(), file=open(sys.argv[1] + '-', 'w'), flush=True)\nos.rename(sys.argv[1] + '-', sys.argv[1])\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.01)\nprint('out')"


def holding(tmp_path, db, **more):
    """A worker whose command runs until a file is there; returns it, and that file."""
    running, go = tmp_path / "running", tmp_path / "go"
    process = began(db, *python(HOLDS, running, go), **more)
    try:
        awaited(lambda: running.exists() or process.poll() is not None, "the command")
        assert process.poll() is None, process.communicate()
    except BaseException:
        process.kill()
        raise
    return process, go, int(running.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_asked_once_to_stop_the_running_command_is_finished_and_saved(tmp_path, number):
    db = filled(tmp_path / "my.db", 3)
    process, go, _ = holding(tmp_path, db)
    with children(process):
        process.send_signal(number)
        time.sleep(0.1)
        assert process.poll() is None
        go.touch()
        assert ended(process) == (
            0,
            "stopped as asked, claimed nothing more: 1 done, 0 failed, 0 lost, 0 dead_letters; 2 not finished\n",
        )
    assert states(db) == {"done": 1, "pending": 2}
    assert sound(db)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_asked_twice_to_stop_the_command_is_killed_and_has_failed(tmp_path, first):
    db = filled(tmp_path / "my.db", 3)
    process, _, pid = holding(tmp_path, db)
    with children(process):
        # Two of one kind that come at once count as one; two kinds do not.
        process.send_signal(first)
        process.send_signal(signal.SIGTERM if first == signal.SIGINT else signal.SIGINT)
        status, err = ended(process)
    assert status == 130
    assert "work 1, attempt 1: stopped; it will be tried again" in err
    assert not lives(pid)
    assert states(db) == {"failed": 1, "pending": 2}
    assert asked(db, "result, error FROM attempt") == [("failed", "stopped")]


def test_it_goes_on_where_nobody_reads_what_it_says(tmp_path):
    db = filled(tmp_path / "my.db", 3)
    with children(began(db, "false", options=["--attempts", 1, "--drain"])) as [process]:
        process.stderr.close()
        process.stdout.close()
        assert process.wait(timeout=LIMIT) == 0
    assert states(db) == {"dead": 3}


def test_asked_while_nothing_is_due_it_ends(tmp_path):
    db = filled(tmp_path / "my.db", 1)
    with children(began(db, "cat")) as [process]:
        awaited(lambda: states(db) == {"done": 1})
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 0


@pytest.mark.parametrize("times", [1, 2])
def test_asked_while_it_waits_for_its_turn(tmp_path, times):
    fcntl = pytest.importorskip("fcntl")
    db = filled(tmp_path / "my.db", 1)
    with open(f"{db}-turn", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        with children(began(db, "cat")) as [process]:
            # It stands first in line: it has the queue, and waits for the turn.
            awaited(lambda: waits(f"{db}-queue", fcntl))
            time.sleep(0.1)
            for number in (signal.SIGTERM, signal.SIGINT)[:times]:
                process.send_signal(number)
                time.sleep(0.1)
            if times == 1:
                fcntl.flock(turn, fcntl.LOCK_UN)
            assert ended(process)[0] == (0 if times == 1 else 130)
    assert states(db) == {"pending": 1}


def waits(path, fcntl):
    """Whether somebody holds the lock on this file."""
    if not os.path.exists(path):
        return False
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_after_sigkill_another_finishes_the_item(tmp_path):
    db = filled(tmp_path / "my.db", 2)
    process, go, pid = holding(tmp_path, db, options=["--hold-for", 1])
    with children(process):
        process.kill()
        process.communicate(timeout=LIMIT)
    go.touch()
    with children(began(db, "cat", options=["--drain"])) as [other]:
        status, _ = ended(other)
    assert (status, states(db)) == (0, {"done": 2})
    assert asked(db, "result FROM attempt WHERE work = 1 ORDER BY number") == [("expired",), ("done",)]
    assert sound(db)
    awaited(lambda: not lives(pid), "the end of the orphan")


def test_a_file_that_is_removed_while_workers_run_ends_them_with_a_sentence(tmp_path):
    db = filled(tmp_path / "my.db", 5)
    process, go, _ = holding(tmp_path, db)
    with children(process, began(db, "sleep", 0.1)) as both:
        awaited(lambda: states(db).get("done", 0) >= 1)
        for path in (db, Path(f"{db}-wal"), Path(f"{db}-shm")):
            path.unlink(missing_ok=True)
        go.touch()
        told = [ended(each) for each in both]
    for status, err in told:
        assert status == 2
        assert err.splitlines()[-1].startswith(
            f"receiptlab: {db} was removed or replaced while the worker ran"
        )
    assert not db.exists()


def test_a_claim_is_renewed_while_a_command_runs(tmp_path):
    db = filled(tmp_path / "my.db", 1)
    process, go, _ = holding(tmp_path, db, options=["--hold-for", 1, "--drain"])
    with children(process):
        until = asked(db, "due FROM work")[0][0]
        awaited(lambda: asked(db, "due FROM work")[0][0] > until + 1_000, "the renewal")
        go.touch()
        assert ended(process)[0] == 0
    assert asked(db, "state, attempts FROM work") == [("done", 1)]


def test_results_are_shown(db, capsys):
    assert lab("work", "--db", db, "--processor", "p", "--drain", "--", "echo", "it is done") == 0
    capsys.readouterr()
    assert lab("results", "--db", db, "--limit", 3) == 0
    out, _ = capsys.readouterr()
    assert out.count("it is done") == 3


def test_a_processor_that_nobody_has_staged_for_is_told(db, capsys):
    assert lab("work", "--db", db, "--processor", "typo", "--drain", "--", "true") == 0
    assert "no work was ever staged for the processor typo" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["1e999999999999", "-1e999999999999", "nan", "1e-999999999999", ""])
def test_seconds_beyond_all_bounds_are_refused_in_a_sentence(db, capsys, value):
    for option in ("--hold-for", "--backoff", "--cap", "--timeout"):
        with pytest.raises(SystemExit) as ended:
            lab("work", "--db", db, "--processor", "p", f"{option}={value}x", "--", "true")
        assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        lab("work", "--db", db, "--processor", "p", f"--hold-for={value}", "--", "true")
    assert ended.value.code == 2
    assert "must be a number of seconds" in capsys.readouterr().err
