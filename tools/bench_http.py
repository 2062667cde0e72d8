"""The receiver over HTTP against the same calls without it, in one run."""

from __future__ import annotations

import http.client
from pathlib import Path
from statistics import median

from receiptlab.contracts.receiver import SCHEMA, Receiver
from receiptlab.examples.http_receiver import Service
from receiptlab.store import Store
from receiptlab.values import sha256
from tools.bench_common import timed

COLUMNS = ("what", "p50 in µs", "over the floor's")


def measure(folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """One row per way to apply an effect. The floor is `Receiver.apply` in this process. The requests come
    over one connection that stays open."""
    floor, served = (Store.create(folder / f"{name}.db", SCHEMA) for name in ("floor", "served"))
    with floor, served, Service(served).running() as service:
        receiver = Receiver(floor)
        writer = receiver.register("bench", "here", 0)
        connection = http.client.HTTPConnection(*service.server_address)

        def apply(key: str) -> None:
            receiver.apply("bench", writer.generation, "here", key, "request", 0, 0, sha256(key), 1)

        def post(key: str) -> None:
            connection.request("POST", "/", b"amount=1", {"Idempotency-Key": key})
            connection.getresponse().read()

        times: dict[str, list[int]] = {
            "Receiver.apply, the floor": [],
            "over HTTP": [],
            "a replay over HTTP": [],
        }
        calls = (apply, post, post)
        for number in range(-20, rounds):
            for took, call in zip(times.values(), calls, strict=True):
                spent = timed(call, f"key-{number}")
                if number >= 0:
                    took.append(spent)
        connection.close()
    p50 = {what: median(took) for what, took in times.items()}
    first = next(iter(p50.values()))
    return [(what, f"{value / 1_000:.0f}", f"{value / first:.2f}") for what, value in p50.items()]
