"""What several test files need: a fresh owner with one claimed piece of work."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from receiptlab.contracts.owner import SCHEMA, Owner
from receiptlab.store import Store
from receiptlab.values import sha256

# Python's readline leaves the terminal's size here for child processes, and xdist's workers are such;
# tables would be cut to it.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

WORK = {"scope": "shop", "work": "order-17"}
RESULT = WORK | {
    "actor": "worker-a",
    "key": "key-1",
    "revision": 1,
    "epoch": 1,
    "policy": "policy-1",
    "fence": 1,
    "result_digest": sha256("result 1"),
    "now": 120,
}


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "receipts.db", SCHEMA, timeout_ms=200) as store:
        yield store


@pytest.fixture
def owner(store):
    """An owner with order-17, leased to worker-a from 100 to 160 under fence 1."""
    owner = Owner(store)
    owner.add(**WORK, revision=1, epoch=1, policy="policy-1", now=0)
    owner.claim(**WORK, actor="worker-a", now=100, until=160)
    return owner


@pytest.fixture
def plain_user():
    """A folder that the process owns, while it runs without the rights of an administrator."""
    if not hasattr(os, "geteuid"):
        pytest.skip("this system has no user ids")
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Path(folder)
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)
