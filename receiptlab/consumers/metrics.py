"""How much work there is, in the text format of Prometheus.

Labels are the processor and the state, nothing else: names of tenants, namespaces and keys belong to
somebody, and each new one would be one more series for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from receiptlab.contracts.work import Work

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

NAME = "receiptlab_work_items"
STATES = ("pending", "claimed", "failed", "done", "dead")

_HELP = "Rows of work, by processor and state."


def metrics(work: Work) -> str:
    """The counts of a fixture as they stand, one gauge for each processor and state."""
    return exposition(work.counts().rows)


def exposition(rows: Iterable[tuple[str, str, int]]) -> str:
    """Rows of (processor, state, count) as text. A state without rows is 0 for each processor."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Counts(rows))
    return generate_latest(registry).decode("utf-8")


class _Counts:
    def __init__(self, rows: Iterable[tuple[str, str, int]]) -> None:
        self.counts = {(processor, state): count for processor, state, count in rows}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        gauge = GaugeMetricFamily(NAME, _HELP, labels=("processor", "state"))
        for processor in sorted({processor for processor, _ in self.counts}):
            for state in STATES:
                gauge.add_metric((processor, state), self.counts.get((processor, state), 0))
        yield gauge
