"""Counts of work, in the text format of Prometheus. Needs prometheus_client, in the extra `cli`.

The only labels are the processor and the state. Names of tenants, namespaces and keys are personal data, and
each new one would add a series for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from receiptlab.contracts.work.work import Work

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

NAME = "receiptlab_work_items"
AHEAD = "receiptlab_work_items_ahead"
STATES = ("pending", "claimed", "failed", "done", "dead", "discarded")
OPEN = STATES[:3]

_HELP = "Rows of work, by processor and state."
_AHEAD_HELP = "Rows that are due beyond the horizon, by processor and state: a clock ran ahead."


def metrics(work: Work, horizon: int, now: int) -> str:
    """Prometheus gauges for a database file: the present counts of work, and those due beyond the horizon."""
    ahead = [(processor, state, count) for processor, state, count, _ in work.ahead(horizon, now).rows]
    return exposition(work.counts().rows, ahead)


def exposition(rows: Iterable[tuple[str, str, int]], ahead: Iterable[tuple[str, str, int]] = ()) -> str:
    """Rows of (processor, state, count) as text. A state without rows is 0 for each processor."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Counts(rows, ahead))
    return generate_latest(registry).decode("utf-8")


class _Counts:
    def __init__(self, *rows: Iterable[tuple[str, str, int]]) -> None:
        self.counts, self.ahead = ({each[:2]: each[2] for each in of} for of in rows)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        for name, text, states, counts in (
            (NAME, _HELP, STATES, self.counts),
            (AHEAD, _AHEAD_HELP, OPEN, self.ahead),
        ):
            gauge = GaugeMetricFamily(name, text, labels=("processor", "state"))
            for processor in sorted({processor for processor, _ in self.counts}):
                for state in states:
                    gauge.add_metric((processor, state), counts.get((processor, state), 0))
            yield gauge
