"""python -m receiptlab. The commands are in `cli`; this only ends quietly on an early Ctrl-C."""

import sys

if __name__ == "__main__":
    try:
        from receiptlab.cli import main

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
