"""python -m receiptlab: run, play, list, about.

Exit status: 0 all was as expected, 1 something was not, 2 the input could not be used,
130 stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from receiptlab import engine, golden, terminal
from receiptlab.cases import CaseError, contract_map, data_folder, own_cases, read_case
from receiptlab.errors import LabError
from receiptlab.play import play
from receiptlab.record import Run
from receiptlab.scenarios import SCENARIOS

JSON_FORMAT = 1
SHOWN = 10
"""How many differences are printed."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status and lets no traceback through for bad input."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except LabError as error:
        return _complain(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(
            f"{error.filename or 'the file system'}: {error.strerror}; check the folder and its rights"
        )
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _complain(message: str) -> int:
    print(f"receiptlab: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m receiptlab", description="A teaching lab on receipts.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="play every case and scenario of the lab, one row each")
    run.add_argument("--check", action="store_true", help="compare the whole result with data/results.json")
    run.add_argument("--output", metavar="FILE", help="write the whole result to FILE")
    run.add_argument("--overwrite", action="store_true", help="write over FILE if it is there")
    run.set_defaults(command=_run)
    one = commands.add_parser("play", help="play your own case files and show what the contract answers")
    one.add_argument(
        "files", nargs="+", metavar="FILE", help="a case file in JSON Lines; data/README.md has the format"
    )
    one.add_argument("--timeline", metavar="OUT.svg", help="draw the run (one FILE only)")
    one.add_argument("--json", action="store_true", help="print the runs as JSON instead of a table")
    one.set_defaults(command=_play)
    listing = commands.add_parser("list", help="show clauses, cases and lessons")
    listing.set_defaults(command=_list)
    about = commands.add_parser("about", help="show which Python and SQLite these are")
    about.set_defaults(command=_about)
    return parser


def _run(options: argparse.Namespace) -> int:
    stored = golden.read(golden.golden_file()) if options.check else None
    runs = [run() for run in terminal.progress("playing", golden.experiments())]
    if not (options.check or options.output):
        terminal.console().print(terminal.runs("every case and scenario", runs))
    status = _verdict(runs)
    for line in golden.unreached(runs):
        print(line, file=sys.stderr)
        status = 1
    made = golden.result(runs) if options.check or options.output else {}
    if options.output:
        golden.write(Path(options.output), made, options.overwrite)
    return max(status, _compare(stored, made)) if options.check else status


def _compare(stored: dict, made: dict) -> int:
    different = list(golden.differences(stored, made))
    for line in different[:SHOWN]:
        print(line, file=sys.stderr)
    more = f", the first {SHOWN} are above" if len(different) > SHOWN else ""
    told = (
        f"{len(different)} difference{'s' * (len(different) > 1)} from the stored result{more}"
        if different
        else "the same as the stored result"
    )
    print(told, file=sys.stderr)
    return 1 if different else 0


def _play(options: argparse.Namespace) -> int:
    if options.timeline and len(options.files) > 1:
        return _complain("--timeline draws one run; give one FILE")
    cases = [read_case(path) for path in options.files]  # all are read before anything runs
    runs = [play(case) for case in cases]
    if options.json:
        held = all(run.held for run in runs)
        print(
            json.dumps(
                {"format": JSON_FORMAT, "held": held, "runs": [run.to_dict() for run in runs]}, indent=1
            )
        )
    else:
        for run in runs:
            terminal.console().print(terminal.steps(run))
    if options.timeline:
        _draw(runs[0], options.timeline)
    return _verdict(runs)


def _draw(run: Run, path: str) -> None:
    try:
        from receiptlab.show import timeline
    except ImportError as error:
        raise CaseError(f"drawing needs {error.name}; install it with: pip install -e .[show]") from None
    timeline(run).save(path)


def _verdict(runs: list[Run]) -> int:
    wrong = [line for run in runs for line in terminal.complaints(run)]
    for line in wrong:
        print(line, file=sys.stderr)
    expected = sum(step.expect is not None for run in runs for step in run.steps)
    print(f"{len(runs)} played, {expected} expectations, {len(wrong)} not as expected", file=sys.stderr)
    return 1 if wrong else 0


def _list(options: argparse.Namespace) -> int:
    rows = contract_map()
    out = terminal.console()
    columns = ("id", "kind", "status", "clause", "cases", "notebook")
    out.print(terminal.grid("clauses", columns, [[row[column] for column in columns] for row in rows]))
    about = [(case.name, ", ".join(case.clauses), case.kind, case.title) for case in own_cases()]
    out.print(terminal.grid("cases", ("name", "clauses", "kind", "about"), about))
    told = [(f.__name__.replace("_", "-"), (f.__doc__ or "").split("\n")[0]) for f in SCENARIOS]
    out.print(terminal.grid("scenarios", ("name", "about"), told))
    lessons = sorted(path.stem for path in (data_folder().parent / "notebooks").glob("*.ipynb"))
    served = [
        (name, " ".join(row["id"] for row in rows if name in row["notebook"].split())) for name in lessons
    ]
    out.print(terminal.grid("lessons", ("notebook", "clauses"), served))
    return 0


def _about(options: argparse.Namespace) -> int:
    terminal.console().print(terminal.grid("", ("what", "which"), list(engine.report().items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
