"""Tables and pictures of runs. The only place that loads pandas and matplotlib."""

from receiptlab.show.backoff_plot import waits
from receiptlab.show.crash_state_bars import states
from receiptlab.show.interleaving_bars import interleavings
from receiptlab.show.matrix import matrix
from receiptlab.show.prices import prices
from receiptlab.show.side_by_side import sides
from receiptlab.show.step_view import Steps, steps
from receiptlab.show.style import Picture
from receiptlab.show.tables import Table, plain, summary, table
from receiptlab.show.timeline import timeline

__all__ = [
    "Picture",
    "Steps",
    "Table",
    "interleavings",
    "matrix",
    "plain",
    "prices",
    "sides",
    "states",
    "steps",
    "summary",
    "table",
    "timeline",
    "waits",
]
