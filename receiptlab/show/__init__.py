"""Tables and pictures of runs. The only place that loads pandas and matplotlib."""

from receiptlab.show.matrix import matrix
from receiptlab.show.orders import orders
from receiptlab.show.prices import prices
from receiptlab.show.sides import sides
from receiptlab.show.states import states
from receiptlab.show.stepping import Steps, steps
from receiptlab.show.style import Picture
from receiptlab.show.tables import Table, plain, summary, table
from receiptlab.show.timeline import timeline
from receiptlab.show.waits import waits

__all__ = [
    "Picture",
    "Steps",
    "Table",
    "matrix",
    "orders",
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
