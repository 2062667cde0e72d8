"""The program `receiptlab`, also as `python -m receiptlab`. `cli` has the commands."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command line. Ctrl-C and SIGTERM end it cleanly: temporary folders are removed, and the exit
    status is 130 or 143. Output to a standard output that was closed goes nowhere."""
    try:
        if sys.stdout is None:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (it is the output until the end)
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        from receiptlab.cli.commands import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
