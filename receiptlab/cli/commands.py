"""The commands `run`, `play`, `list` and `about`, and the parser of all commands.

Exit status: 0 when everything was as expected, 1 when something was not, 2 for input that cannot be used or a
missing package, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version

from receiptlab import sqlite_version as engine
from receiptlab.cli import intake_command as intake
from receiptlab.cli import interleaving_command as interleaving_cli
from receiptlab.cli import operator_commands as tending
from receiptlab.cli import output_file, results, terminal
from receiptlab.cli import receiver_command as receiving
from receiptlab.cli import work_command as working
from receiptlab.errors import LabError
from receiptlab.experiment.case_file import CaseError, read_case
from receiptlab.experiment.library import contract_map, own_cases
from receiptlab.experiment.player import play
from receiptlab.experiment.run import Run
from receiptlab.scenarios import SCENARIOS

EXTRAS = {
    **dict.fromkeys(("rich", "prometheus_client"), "cli"),
    "uvicorn": "http",
    **dict.fromkeys(("pandas", "matplotlib", "jinja2"), "show"),
    **dict.fromkeys(("apsw", "greenlet"), "hazards"),
}
"""The extra that brings each package which a command may need."""
JSON_FORMAT = 1
SHOWN = 10
"""Maximum number of differences that are printed."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status. Bad input gets a message and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):
            stream.reconfigure(errors="backslashreplace")  # in a narrow encoding, print escapes
    options = _parser().parse_args(arguments)
    try:
        status = options.command(options)
        sys.stdout.flush()
        return status
    except LabError as error:
        return _complain(str(error))
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in EXTRAS:
            raise
        return _complain(needs(package))
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        where = error.filename or "the output or the file system"
        return _complain(f"{where}: {error.strerror}; check the folder and its permissions")
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def needs(package: str) -> str:
    """What to do about a package that is missing."""
    return f"this needs {package}; install it with: pip install 'receiptlab[{EXTRAS.get(package, 'lab')}]'"


def _complain(message: str) -> int:
    print(f"receiptlab: {terminal.printable(message)}", file=sys.stderr)
    return 2


def _forget_output() -> None:
    """Discard what is still buffered: the reader has gone away."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="receiptlab", description="A teaching lab on receipts.")
    parser.add_argument("--version", action="version", version=f"receiptlab {version('receiptlab')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run", help="play every case and scenario of the lab and print one row for each"
    )
    run.add_argument("--check", action="store_true", help="compare the whole result with data/results.json")
    run.add_argument("--output", metavar="FILE", help="write the whole result to FILE")
    run.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    run.set_defaults(command=_run)
    one = commands.add_parser("play", help="play your own case files and show what the contract answers")
    one.add_argument(
        "files", nargs="+", metavar="FILE", help="a case file in JSON Lines; data/README.md has the format"
    )
    one.add_argument("--timeline", metavar="OUT.svg", help="draw the run (one FILE only)")
    one.add_argument("--overwrite", action="store_true", help="replace OUT.svg if it exists")
    interleaving_cli.add_options(one)
    one.add_argument("--json", action="store_true", help="print the runs as JSON instead of a table")
    one.set_defaults(command=_play)
    listing = commands.add_parser("list", help="show clauses, cases and lessons")
    listing.set_defaults(command=_list)
    intake.add_parser(commands)
    working.add_parser(commands)
    tending.add_parsers(commands)
    receiving.add_parser(commands)
    about = commands.add_parser("about", help="show the versions of Python and SQLite")
    about.set_defaults(command=_about)
    return parser


def _run(options: argparse.Namespace) -> int:
    stored = results.read(results.results_file()) if options.check else None
    if options.output is not None:
        output_file.check(options.output, options.overwrite)
    elif options.overwrite:
        return _complain("--overwrite only goes with --output FILE")
    runs, missing = results.made_from(terminal.progress("playing", results.experiments()))
    if not options.check and options.output is None:
        out = terminal.console()
        _show(lambda: out.print(terminal.runs("every case and scenario", runs, out.width)))
    status = _verdict(runs)
    for line in results.unreached(runs):
        print(line, file=sys.stderr)
        status = 1
    for package in dict.fromkeys(missing.values()):
        names = [name for name, needed in missing.items() if needed == package]
        print(f"not run: {', '.join(names)}; {needs(package)}", file=sys.stderr)
    if options.output is not None and missing:
        return _complain("a stored result must be complete; install what is missing first")
    made = results.result(runs) if options.check or options.output is not None else {}
    if options.output is not None:
        results.write(options.output, made, options.overwrite)
    return max(status, _compare(stored, made, missing)) if options.check else status


def _compare(stored: dict, made: dict, missing: Iterable[str]) -> int:
    stored = stored | {"runs": {name: run for name, run in stored["runs"].items() if name not in missing}}
    different = list(results.differences(stored, made))
    for line in different[:SHOWN]:
        print(terminal.printable(line), file=sys.stderr)
    more = f", the first {SHOWN} are above" if len(different) > SHOWN else ""
    count = f"{len(different)} difference{'s' * (len(different) > 1)} from the stored result{more}"
    print(count if different else "the same as the stored result", file=sys.stderr)
    return 1 if different else 0


def _play(options: argparse.Namespace) -> int:
    if options.timeline:
        _check_drawing(options)
    elif options.overwrite:
        return _complain("--overwrite only goes with --timeline OUT.svg")
    interleaving_cli.check(options)
    cases = [read_case(path) for path in options.files]  # read all of them before anything runs
    if options.interleavings:
        return interleaving_cli.explore(options, cases[0], _show, _draw)
    runs = [play(case, through=partial(terminal.progress, f"playing {case.name}")) for case in cases]
    if options.timeline:
        _draw(runs[0], options.timeline, options.overwrite)
    if options.json:
        held = all(run.held for run in runs)
        result = {"format": JSON_FORMAT, "held": held, "runs": [run.to_dict() for run in runs]}
        _show(lambda: print(json.dumps(result, indent=1, allow_nan=False)))
    else:
        _show(lambda: [terminal.console().print(terminal.steps(run)) for run in runs])
    return _verdict(runs)


def _show(printing) -> None:
    """Print. A reader that has gone away, such as head, does not change the exit status."""
    try:
        printing()
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()


def _check_drawing(options: argparse.Namespace) -> None:
    if len(options.files) > 1:
        raise CaseError("--timeline draws one run; give one FILE")
    if not options.timeline.endswith(".svg"):
        raise CaseError(f"{options.timeline}: a timeline is an SVG file; give it a name that ends in .svg")
    output_file.check(options.timeline, options.overwrite)


def _draw(run: Run, path: str, overwrite: bool) -> None:
    from receiptlab.show import timeline

    try:
        drawing = timeline(run)
    except ValueError as error:
        raise CaseError(f"{run.name}: {error}") from None
    output_file.write(path, drawing.svg.encode("utf-8"), overwrite)


def _verdict(runs: list[Run]) -> int:
    wrong = [line for run in runs for line in terminal.complaints(run)]
    for line in wrong:
        print(line, file=sys.stderr)
    expected = sum(step.expect is not None for run in runs for step in run.steps)
    print(f"{len(runs)} played, {expected} expectations, {len(wrong)} not as expected", file=sys.stderr)
    return 1 if wrong else 0


def _list(options: argparse.Namespace) -> int:
    rows, out = contract_map(), terminal.console()
    columns = ("id", "kind", "status", "clause", "cases", "notebook")
    out.print(terminal.grid("clauses", columns, [[row[column] for column in columns] for row in rows]))
    about = [(case.name, ", ".join(case.clauses), case.kind, case.title) for case in own_cases()]
    out.print(terminal.grid("cases", ("name", "clauses", "kind", "about"), about))
    about = [(f.__name__.replace("_", "-"), (f.__doc__ or "").split("\n")[0]) for f in SCENARIOS]
    out.print(terminal.grid("scenarios", ("name", "about"), about))
    lessons = sorted({name for row in rows for name in row["notebook"].split()})
    served = [
        (name, " ".join(row["id"] for row in rows if name in row["notebook"].split())) for name in lessons
    ]
    out.print(terminal.grid("lessons", ("notebook", "clauses"), served))
    return 0


def _about(options: argparse.Namespace) -> int:
    terminal.console().print(terminal.grid("", ("what", "which"), list(engine.report().items())))
    return 0
