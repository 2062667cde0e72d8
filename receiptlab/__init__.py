"""receiptlab: how a service keeps its promises, shown on a real SQLite database.

`store`, `values`, `errors` and `contracts` are the small part that is meant to be read whole.
`hazards` makes failures on purpose, `scenarios` and `cases` are the experiments, `show` draws them.
"""

__version__ = "0.1.0"
