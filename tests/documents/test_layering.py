"""The package's structure: imports run one way, and the small part needs only the standard library."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "receiptlab"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the ground up. A module may import from lower floors, and from its own.
FLOORS = [
    {"errors", "sqlite_version", "wal"},
    {"values", "outcomes", "database_file", "process"},
    {"store"},
    {"contracts"},
    {"faults"},
    {"experiment"},
    {"interleaving", "models"},
    {"scenarios"},
    {"show", "lesson", "exercises"},
    {"examples"},
    {"cli"},
    {"__main__"},
]
SMALL = [
    PACKAGE / f"{name}.py" for name in ("store", "database_file", "wal", "process", "values", "errors")
] + sorted((PACKAGE / "contracts").rglob("*.py"))


UPWARD = {("experiment/experiment.py", "show")}
"""`Experiment.timeline` draws itself, so it imports `show` when it is called."""


def part(path):
    """The part of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """The modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            if node.module == "receiptlab":
                yield from (f"receiptlab.{alias.name}" for alias in node.names)


def floor(name):
    return next(number for number, names in enumerate(FLOORS) if name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    if path == PACKAGE / "__init__.py":
        assert not [name for name in imports(path) if name.startswith("receiptlab.")]
        return
    for name in imports(path):
        if name.startswith("receiptlab."):
            other = name.split(".")[1]
            downward = other == part(path) or floor(other) < floor(part(path))
            allowed = (path.relative_to(PACKAGE).as_posix(), other) in UPWARD
            assert downward or allowed, f"{part(path)} imports {other}"


def test_show_imports_only_runs():
    for path in (PACKAGE / "show").glob("*.py"):
        own = {name for name in imports(path) if name.startswith("receiptlab.")}
        assert {name for name in own if not name.startswith("receiptlab.show")} <= {
            "receiptlab.experiment.run"
        }, path.name


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_the_small_part_needs_only_the_standard_library(path):
    for name in imports(path):
        assert name.split(".")[0] in {*sys.stdlib_module_names, "receiptlab"}


def code_lines(path):
    """The lines that hold code: no blank ones, no comments, no docstrings."""
    text = path.read_text(encoding="utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return [
        line
        for number, line in lines
        if number not in docstrings and line.strip() and not line.lstrip().startswith("#")
    ]


def test_the_small_part_can_be_read_in_an_evening():
    assert sum(len(code_lines(path)) for path in SMALL) <= 3_120


def test_pandas_and_matplotlib_are_only_in_show():
    for path in FILES:
        if part(path) != "show":
            assert not {"pandas", "matplotlib"} & {name.split(".")[0] for name in imports(path)}, path.name


def test_importing_the_package_loads_neither():
    code = "import sys, receiptlab, receiptlab.lesson, receiptlab.__main__; print({'pandas', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr


def test_there_is_one_begin_immediate():
    found = [
        path.name
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "BEGIN IMMEDIATE" in line and "execute" in line
    ]
    assert found == ["store.py"]


def test_no_clock_and_no_randomness():
    """The caller supplies times and identities: no module draws random numbers, and only one reads a clock."""
    for path in FILES:
        if path == PACKAGE / "examples/clock.py":
            assert {name for name in imports(path) if name != "__future__"} == {"time"}
            continue
        assert not {"time", "datetime", "random", "uuid", "secrets"} & set(imports(path)), path.name


def test_functions_stay_short():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 45, f"{path.name}: {node.name}"


def test_at_most_nine_modules_are_directly_in_the_package():
    assert len([path for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")]) <= 9


def test_no_two_modules_share_a_name():
    """A reference model may be named like the contract that it models."""
    places = defaultdict(list)
    for path in FILES:
        if not path.stem.startswith("__"):
            places[path.name].append(part(path))
    shared = {name: sorted(parts) for name, parts in places.items() if len(parts) > 1}
    assert {name: parts for name, parts in shared.items() if parts != ["contracts", "models"]} == {}


def test_no_two_public_classes_share_a_name():
    places = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared == {}
