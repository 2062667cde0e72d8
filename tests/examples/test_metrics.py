"""The metrics: the format, what is escaped, and what must not be in them."""

import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from receiptlab.cli import intake_command as command
from receiptlab.contracts.work.work import Work
from receiptlab.errors import Refused
from receiptlab.examples.metrics import AHEAD, NAME, OPEN, STATES, exposition, metrics
from receiptlab.store import Store
from receiptlab.values import sha256

TELLING = {"tenant": "tenant-telling", "namespace": "namespace-telling"}


def parsed(text, name=NAME):
    """(processor, state): count, as a reader of the format finds it."""
    families = list(text_string_to_metric_families(text))
    assert [(family.name, family.type) for family in families] == [(NAME, "gauge"), (AHEAD, "gauge")]
    for family in families:
        for sample in family.samples:
            assert set(sample.labels) == {"processor", "state"}
    [family] = [family for family in families if family.name == name]
    return {(each.labels["processor"], each.labels["state"]): each.value for each in family.samples}


def test_a_state_without_rows_is_zero_and_no_rows_are_no_samples():
    found = parsed(exposition([("p", "done", 3), ("q", "dead", 1)]))
    assert {key: value for key, value in found.items() if value} == {("p", "done"): 3, ("q", "dead"): 1}
    assert len(found) == 2 * len(STATES)
    assert parsed(exposition([])) == {}
    ahead = parsed(exposition([("p", "done", 3), ("q", "claimed", 4)], [("q", "claimed", 2)]), AHEAD)
    assert ahead == {(name, state): 0 for name in "pq" for state in OPEN} | {("q", "claimed"): 2}


@pytest.mark.parametrize(
    "processor",
    [
        '"',
        "\\",
        '\\"',
        "a\\nb",
        "a\nb",
        "\n",
        '"\\\n"',
        "\\\\",
        "}",
        '",state="done"} 1',
        "#",
        "名前",
        " ",
        "é\u2028",
    ],
)
def test_any_name_comes_back_as_it_was(processor):
    text = exposition([(processor, "pending", 7)])
    assert parsed(text)[processor, "pending"] == 7
    assert len(text.splitlines() if "\u2028" not in text else text.split("\n")[:-1]) == 4 + len(STATES + OPEN)


def test_names_with_quotes_and_backslashes_come_back_from_a_fixture(tmp_path):
    processor = 'say "hello" \\ n'
    with Store.create(tmp_path / "receipts.db", command.SCHEMA) as store:
        deliver(Work(store), "a", processor)
        assert parsed(metrics(Work(store), 0, 0))[processor, "pending"] == 1


def deliver(work, key, processor="p"):
    horizons = {"retain_until": 10**9, "tombstone_until": 10**9}
    name = TELLING | {"key": f"key-telling-{key}", "digest": sha256(key)}
    return work.deliver(**name, processor=processor, processor_revision="revision-telling", **horizons, now=0)


def test_nothing_of_the_items_is_in_them_whatever_their_state(tmp_path):
    with Store.create(tmp_path / "receipts.db", command.SCHEMA) as store:
        work = Work(store)
        for key in "abcdef":
            deliver(work, key)
        # `a` gets dead, `b` done, `c` fails, `d` is claimed, `e` is discarded, `f` waits
        for key, attempts in zip("abcde", (1, None, 9, None, 1), strict=True):
            [claim] = work.next("namespace-telling", "p", "worker-telling", 1, 500, 9, 1).claims
            if attempts is not None:
                work.fail(claim.work, claim.fence, "error-telling", "detail-telling", attempts, 100, 100, 2)
            elif key == "b":
                work.complete(claim.work, claim.fence, "reference-telling", 2)
        work.discard(5, 3)
        text = metrics(work, 400, 3)
        identities = [identity for (identity,) in store.read("SELECT identity FROM receipt")]
        with pytest.raises(Refused, match="not-found"):
            work.get(7)
    assert parsed(text) == {("p", state): 1 for state in STATES}
    assert parsed(text, AHEAD) == {("p", "pending"): 0, ("p", "claimed"): 1, ("p", "failed"): 0}
    assert "telling" not in text
    for told in (*identities, *map(sha256, "abcdef")):
        assert told not in text and told[:12] not in text


def test_the_library_is_loaded_only_where_it_is_needed():
    code = "import sys, receiptlab.cli.commands, receiptlab.examples.metrics as m; print('prometheus_client' in sys.modules); m.exposition([]); print('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\nTrue\n", done.stderr
