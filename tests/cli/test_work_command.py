"""The command `work` and the operator's commands beside it, with real processes and real signals."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from receiptlab.cli import options
from receiptlab.cli.commands import main
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.work.work import Work
from receiptlab.examples import clock
from receiptlab.examples import subprocess_handler as running
from receiptlab.examples.handler import Failure
from receiptlab.examples.subprocess_handler import CommandHandler
from receiptlab.store import Store
from tests.faults import killed_workers

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the command needs process groups")

ROOT = Path(__file__).parents[2]
DELIVERIES, INBOX = ROOT / "data/deliveries.jsonl", ROOT / "data/inbox.mbox"
LIMIT = 60
"""Seconds that anything may take before a test gives up."""


def python(code, *arguments):
    return (sys.executable, "-c", code, *map(str, arguments))


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


def awaited(condition, name="it"):
    """Wait until `condition` returns something true."""
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{name} did not happen"
        time.sleep(0.01)
    return found


def alive(pid):
    """True while the process runs; a zombie does not count."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


# A command on one item

LARGE = {"body": "x" * 3_000_000}
CLOSES_BOTH = (
    "import os, sys; os.close(1); os.close(2); n = len(sys.stdin.buffer.read()); os._exit(n < 3_000_000)"
)
SESSION = "import os; print(os.getsid(0) == os.getpid())"


@pytest.mark.parametrize(
    ("argv", "item", "output"),
    [
        (("cat",), {"key": "ключ", "body": "\x00\n"}, '{"key": "\\u043a\\u043b\\u044e\\u0447", "body": "\\u0000\\n"}\n'),
        (python("print('é' * 3)"), None, "ééé\n"),
        (("true",), None, ""),
        (python("import sys; print(len(sys.stdin.buffer.read()))"), LARGE, f"{len(json.dumps(LARGE)) + 1}\n"),
        (("echo", "did not read it"), LARGE, "did not read it\n"),
        (python("import os; os.close(0); print('closed it')"), LARGE, "closed it\n"),
        (python(CLOSES_BOTH), LARGE, ""),
        (python(SESSION), None, "True\n"),
        (python(f"print('x' * {running.MAX_OUTPUT}, end='')"), None, "x" * running.MAX_OUTPUT),
    ],
    ids=["item", "utf-8", "nothing", "large", "unread", "closed", "outputs closed first", "own session", "longest"],
)  # fmt: skip
def test_the_item_is_json_on_standard_input_and_the_output_is_the_result(argv, item, output):
    assert ran(*argv, item=item) == output


ORPHAN = "import subprocess; subprocess.Popen(['sleep', '3'], start_new_session=True)"


@pytest.mark.parametrize(
    ("argv", "error", "detail"),
    [
        (python("import sys; print('out'); print('why', file=sys.stderr); sys.exit(3)"), "exit-3", "why\n"),
        (python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), "signal-9", ""),
        (python("import os; os.write(1, b'\\xff')"), "output-not-utf-8", "at byte 0\n"),
        (python("import os; os.write(2, b'\\xff\\x00'); os._exit(1)"), "exit-1", "\\xff\x00"),
        (("yes",), "output-too-long", ""),
        (python(f"print('x' * {running.MAX_OUTPUT}, end='x')"), "output-too-long", "it printed over 65536 bytes\n"),
        (("sleep", "600"), "timeout", ""),
        (python(ORPHAN), "timeout", ""),  # a process that moved to another session keeps the outputs open
        (("/missing",), "cannot-start", "/missing: No such file or directory"),
        ((str(ROOT),), "cannot-start", f"{ROOT}: Permission denied"),
    ],
    ids=["exit", "signal", "not utf-8", "odd bytes", "endless", "one byte more", "timeout", "orphan", "missing", "folder"],
)  # fmt: skip
def test_a_command_that_fails(argv, error, detail):
    failed = failure(*argv, timeout=500 if error == "timeout" else LIMIT * 1_000)
    assert failed.error == error and failed.detail.startswith(detail)


def test_of_a_long_standard_error_the_end_is_kept():
    code = "import sys; sys.stderr.write('a' * 1_000_000 + 'é' * 2_000 + '.'); sys.exit(1)"
    detail = failure(*python(code)).detail
    assert (detail, len(detail.encode())) == ("é" * 1_023 + ".", 2_047)


def test_more_output_than_memory_is_read_in_pieces():
    """The worker may have 300 MB. Standard output is cut off; 400 MB of standard error are read to the end."""
    code = """if True:
        import resource, sys
        resource.setrlimit(resource.RLIMIT_AS, (300_000_000, 300_000_000))
        from receiptlab.examples.handler import Failure
        from receiptlab.examples.subprocess_handler import CommandHandler
        for stream in "stdout", "stderr":
            try:
                CommandHandler((sys.executable, "-c", f"import sys\\nfor n in range(400): sys.{stream}.write('x' * 1_000_000)"), 60_000)({}, lambda: None)
            except Failure as failure:
                print(failure.error)"""
    done = subprocess.run(python(code), capture_output=True, text=True, timeout=LIMIT, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("output-too-long\n", "")


def test_what_a_beat_raises_kills_the_command_and_its_group(tmp_path):
    pids = tmp_path / "pids"

    def beat():
        if pids.exists() and pids.read_text().endswith("\n"):
            raise Failure("stopped")

    line = 'sleep 600 & echo $$ $! > "$0"; wait'
    assert failure("sh", "-c", line, str(pids), beat=beat).error == "stopped"
    shell, child = map(int, pids.read_text().split())
    assert not alive(shell)
    awaited(lambda: not alive(child), "the end of the child")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_no_pipes_are_left_open():
    before = len(os.listdir("/proc/self/fd"))
    for argv in (("true",), ("false",), ("yes",), ("/missing",)):
        with contextlib.suppress(Failure):
            ran(*argv)
    assert len(os.listdir("/proc/self/fd")) == before


# The command line


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    path = tmp_path_factory.mktemp("four") / "four.db"
    assert main(["intake", str(DELIVERIES), "--db", str(path), "--processor", "p"]) == 1
    return path


@pytest.fixture
def db(tmp_path, four):
    """A database file with the four webhook deliveries that come with the lab, as work of p."""
    return shutil.copy(four, tmp_path / "my.db")


def lab(*arguments):
    return main([*map(str, arguments)])


def work(db, *arguments, argv=("cat",)):
    return lab("work", "--db", db, "--processor", "p", *arguments, "--", *argv)


def rows(path, sql):
    with Store.open(path) as store:
        return store.read(f"SELECT {sql}")


def states(path):
    return dict(rows(path, "state, count(*) FROM work GROUP BY state"))


def sound(path):
    return killed_workers.wrong(path, killed_workers.WRONG) == {}


def test_from_intake_to_the_sweep(db, capsys):
    assert work(db, "--drain") == 0
    assert "4 done, 0 failed, 0 lost, 0 dead_letters; 0 not finished" in capsys.readouterr().err
    assert lab("sweep", "--db", db) == 0
    assert states(db) == {"done": 4}  # it is kept for a week
    items = [json.loads(output) for (output,) in rows(db, "output FROM result")]
    bodies = {(item["namespace"], item["key"]): item.get("body") or item["body_base64"] for item in items}
    assert bodies["parcels", "evt-1"] == '{"type": "sent", "order": 17}'
    assert bodies["payments", "evt-4"] == "AAEC/w=="
    processors = ("--processor", "p", "--processor", "q", "--processor", "q")
    assert lab("intake", DELIVERIES, "--db", db, *processors) == 1
    assert "work staged            4" in capsys.readouterr().out
    assert states(db) == {"done": 4, "pending": 4}
    assert sound(db)


def test_a_letter_is_passed_on_with_its_subject_and_its_result_is_shown(tmp_path, capsys):
    db = tmp_path / "my.db"
    lab("intake", INBOX, "--db", db, "--processor", "p", "--processor-revision", "7", "--now", 5)
    assert work(db, "--now", 5) == 0
    items = [json.loads(output) for (output,) in rows(db, "output FROM result ORDER BY id")]
    assert [(item["subject"], item["revision"]) for item in items] == [
        ("Order 17", 1), ("Order 17", 2), ("Scan from the front desk, März", 1),
        ("A photo that was cut off on the way", 1), ("Thanks", 1),
    ]  # fmt: skip
    assert {item["processor_revision"] for item in items} == {"7"}
    assert rows(db, "DISTINCT worked_at FROM result") == [(5,)]
    capsys.readouterr()
    assert lab("results", "--db", db, "--limit", 3) == 0
    assert capsys.readouterr().out.count('"processor_revision": "7"') == 3


def test_a_short_retention_is_compacted_and_the_item_is_still_known(tmp_path, capsys):
    db, taken = tmp_path / "my.db", ("--processor", "p", "--now")
    lab("intake", DELIVERIES, "--db", db, *taken, 0, "--retain", "0.5", "--keep-tombstone", 60)
    assert work(db, "--now", 1) == 0
    assert lab("sweep", "--db", db, "--now", 499) == 0
    assert states(db) == {"done": 4}
    assert lab("sweep", "--db", db, "--now", 500, "--limit", 1) == 0
    assert "compacted     4" in capsys.readouterr().out
    assert (states(db), rows(db, "count(*) FROM result")) == ({}, [(4,)])
    lab("intake", DELIVERIES, "--db", db, *taken, 501)
    assert "first seen             0" in capsys.readouterr().out


def test_dead_work_is_shown_in_pages_and_can_be_requeued(db, capsys):
    fails = ("sh", "-c", "echo oh no >&2; exit 3")
    assert work(db, "--attempts", 2, "--backoff", 0, "--drain", argv=fails) == 0
    capsys.readouterr()
    assert lab("dead", "--db", db, "--limit", 3) == 0
    out, err = capsys.readouterr()
    assert out.count("failed, failed") == 3 and "exit-3: oh no" in out
    assert err == "there are more; continue with --after 3\n"
    assert lab("dead", "--db", db, "--after", 3) == 0
    out, err = capsys.readouterr()
    assert (out.count("failed, failed"), err) == (1, "")
    assert lab("requeue", "--db", db, 1, 99, 2, 1) == 1
    out, err = capsys.readouterr()
    assert out == "1 is pending again\n2 is pending again\n"
    assert err == "99: not-found: there is no such item; it may have been compacted or erased; nothing was changed\n"  # fmt: skip
    assert lab("requeue", "--db", db, 1) == 1
    assert "not-dead" in capsys.readouterr().err
    assert work(db, "--drain") == 0
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
    assert rows(db, "count(*) FROM outbox WHERE topic = 'dead-letter'") == [(4,)]
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
    assert work(db, "--drain", "--wait", 0) == 1
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
    assert work(db, "--drain", "--wait", 60) == 0
    assert states(db) == {"done": 4}
    assert sound(db)


def name_of(arguments):
    return arguments[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweep",), ("requeue", 1), ("discard", 1), ("reset-ahead",),
        ("work", "--processor", "p", "--", "cat"), ("intake", DELIVERIES, "--processor", "q"),
    ],
    ids=name_of,
)  # fmt: skip
def test_a_time_far_from_the_newest_in_the_file_is_refused(db, capsys, arguments):
    """Seconds for milliseconds; a day early; a year late."""
    [(newest,)] = rows(db, "max(staged_at) FROM outbox")
    name, *rest = arguments
    where = rest.index("--") if "--" in rest else len(rest)
    everything = "*, (SELECT count(*) FROM lease) FROM work ORDER BY id"
    before = rows(db, everything)
    for now in (newest // 1_000, newest - options.DAY, newest + options.YEAR, newest * 1_000):
        assert lab(name, *rest[:where], "--db", db, "--now", now, *rest[where:]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"receiptlab: the time would be {now} (") and err.count("\n") == 1
    assert rows(db, everything) == before
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
    "arguments", [("status",), ("dead",), ("sweep",), ("requeue", "1"), ("work", "--processor", "p", "--", "cat")],
    ids=name_of,
)  # fmt: skip
def test_a_file_without_the_tables_of_work_gets_a_sentence(tmp_path, capsys, arguments):
    plain = tmp_path / "plain.db"
    Store.create(plain, Intake.SCHEMA).close()
    name, *rest = arguments
    assert lab(name, "--db", plain, *rest) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"receiptlab: {plain} lacks the tables of work") and err.count("\n") == 1
    assert lab(name, "--db", tmp_path / "missing.db", *rest) == 2
    assert "missing" in capsys.readouterr().err


SECONDS = "must be a number of seconds"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--hold-for=0", f"--hold-for: {SECONDS}, at least 0.001"), ("--hold-for=-1", SECONDS),
        ("--hold-for=nan", SECONDS), ("--hold-for=1e99", SECONDS), ("--hold-for=soon", SECONDS),
        ("--hold-for=1e999999999999", SECONDS), ("--hold-for=-1e999999999999", SECONDS),
        ("--hold-for=1e-999999999999", SECONDS), ("--hold-for=", SECONDS),
        ("--cap=-1", f"--cap: {SECONDS}, at least 0"), ("--backoff=-0.1", SECONDS), ("--timeout=0", SECONDS),
        ("--attempts=0", "--attempts: must be an integer from 1"), ("--name=a\nb", "has a control character"),
        ("--namespace=", "--namespace"), ("--now=-1", "--now"), ("--now=1.5", "--now"),
    ],
)  # fmt: skip
def test_a_wrong_option_stops_it_before_anything_is_claimed(db, capsys, option, message):
    with pytest.raises(SystemExit) as ended:
        work(db, "--drain", option)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert states(db) == {"pending": 4}


@pytest.mark.parametrize("name", ["no-such-command", "/no/such/command", ".", str(DELIVERIES)])
def test_a_command_that_cannot_be_started_stops_it_before_anything_is_claimed(db, capsys, name):
    assert work(db, "--attempts", 1, "--drain", argv=(name,)) == 2  # were it to begin, it should end
    why = "is not a command that can be run; check its name, path and permissions; no item was claimed"
    assert capsys.readouterr().err == f"receiptlab: {name} {why}\n"
    assert states(db) == {"pending": 4}


def test_a_tombstone_shorter_than_the_receipt_gets_a_sentence(tmp_path, capsys):
    db = tmp_path / "my.db"
    assert lab("intake", DELIVERIES, "--db", db, "--retain", 5, "--keep-tombstone", 4) == 2
    assert "--keep-tombstone is shorter than --retain" in capsys.readouterr().err
    assert not db.exists()


def test_a_command_keeps_its_own_dashes(db):
    assert work(db, "--drain", argv=("echo", "--db", "--", "-x")) == 0
    assert rows(db, "DISTINCT output FROM result") == [("--db -- -x\n",)]


def test_a_processor_without_work_is_reported(db, capsys):
    assert lab("work", "--db", db, "--processor", "typo", "--drain", "--", "true") == 0
    assert "no work was ever staged for the processor typo" in capsys.readouterr().err


def test_a_file_that_is_removed_while_it_works_ends_it_with_a_sentence(db, capsys):
    assert work(db, argv=("sh", "-c", 'rm "$0" "$0-wal" "$0-shm"', db)) == 2
    why = f"receiptlab: {db} was removed or replaced while the worker ran"
    assert capsys.readouterr().err.splitlines()[-1].startswith(why)
    assert not db.exists()


# A worker in its own process, and real signals


@contextlib.contextmanager
def worker(db, *argv, options=()):
    line = ("-m", "receiptlab", "work", "--db", db, "--processor", "p", *options, "--", *argv)
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, *map(str, line)], cwd=ROOT, stdout=pipe, stderr=pipe, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_asked_twice_to_stop_it_kills_the_command_which_has_failed(db, tmp_path):
    pid = tmp_path / "pid"
    with worker(db, "sh", "-c", 'echo $$ > "$0"; exec sleep 600', pid) as process:
        awaited(lambda: pid.exists() and pid.read_text().endswith("\n"), "the command")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # two signals of one kind could count as one
        _, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert ", attempt 1: stopped; it will be tried again" in err
    assert not alive(int(pid.read_text()))
    assert states(db) == {"failed": 1, "pending": 3}
    assert rows(db, "result, error FROM attempt") == [("failed", "stopped")]


def test_asked_once_while_nothing_is_due_it_ends(db):
    with worker(db, "cat") as process:
        awaited(lambda: states(db) == {"done": 4})
        process.send_signal(signal.SIGINT)
        counts = "4 done, 0 failed, 0 lost, 0 dead_letters; 0 not finished"
        message = f"stopped as asked, claimed nothing more: {counts}\n"
        assert process.communicate(timeout=LIMIT)[1] == message
    assert process.returncode == 0


def test_it_goes_on_where_nobody_reads_its_messages(db):
    with worker(db, "false", options=["--attempts", 1, "--drain"]) as process:
        process.stderr.close()
        process.stdout.close()
        assert process.wait(timeout=LIMIT) == 0
    assert states(db) == {"dead": 4}
