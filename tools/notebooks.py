"""Run, normalise and check the notebooks: python tools/notebooks.py execute|normalise|check [FILES]

The strict run of nbval compares stored outputs. It accepts a notebook whose outputs were
cleared, and it skips PNG and JPEG. `check` finds both.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
CODE_CELLS = 25
CODE_LINES = 14
CELL_TIMEOUT = 60
COMPARED = {
    "text/plain",
    "text/html",
    "image/svg+xml",
}  # what nbval compares
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
GOOD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Each of these differs from run to run or from machine to machine.
UNSTABLE = {
    "an address": re.compile(r"\bat 0x[0-9A-Fa-f]{5,}|\b0x[0-9A-Fa-f]{9,}"),
    "an absolute path": re.compile(
        r"(?<![\w./:-])/(?:tmp|home|root|Users|private|mnt|opt|var|usr)/|\b[A-Z]:\\|"
        + "|".join(re.escape(str(folder)) for folder in (ROOT, Path.home()) if len(folder.parts) > 1)
    ),
    "a uuid": re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
}


def default_files() -> list[Path]:
    """All lessons and solutions; the exercises are generated and have gaps."""
    return sorted(ROOT.glob("notebooks/*.ipynb")) + sorted(ROOT.glob("notebooks/solutions/*.ipynb"))


def read(path: Path) -> dict:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def to_text(nb: dict) -> str:
    """The only form in which a notebook is written. JupyterLab saves it like this, too."""
    return nbformat.writes(nbformat.from_dict(nb), version=nbformat.NO_CONVERT).rstrip("\n") + "\n"


def write(path: Path, nb: dict) -> bool:
    """Write the notebook normalised. Returns whether the file changed."""
    text = to_text(normalised(nb))
    if path.exists() and path.read_bytes() == text.encode():
        return False
    path.write_text(text, encoding="utf-8", newline="\n")
    return True


def joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


# Normalising


def normalised(nb: dict) -> dict:
    """A copy with only what a reader sees, and with valid, unique cell ids."""
    cells = [_normal_cell(cell) for cell in nb["cells"]]
    _name_cells(cells)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _normal_cell(cell: dict) -> dict:
    tags = cell.get("metadata", {}).get("tags")
    new = {key: cell[key] for key in ("attachments", "cell_type", "id") if key in cell}
    new |= {"metadata": {"tags": tags} if tags else {}, "source": joined(cell["source"])}
    if cell["cell_type"] == "code":
        new |= {"execution_count": cell.get("execution_count"), "outputs": _merged(cell.get("outputs", []))}
    return new


def _merged(outputs: list[dict]) -> list[dict]:
    """Join adjacent pieces of one stream: how often it was flushed is random."""
    merged: list[dict] = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if output["output_type"] == "stream" == last.get("output_type") and output["name"] == last["name"]:
            merged[-1] = last | {"text": joined(last["text"]) + joined(output["text"])}
        else:
            merged.append(output)
    return merged


def _name_cells(cells: list[dict]) -> None:
    """Valid ids stay. The others become cell-01, cell-02 and so on, by position."""
    kept: set[str] = set()
    for cell in cells:
        if GOOD_ID.fullmatch(cell.get("id", "")) and cell["id"] not in kept:
            kept.add(cell["id"])
        else:
            cell.pop("id", None)
    for number, cell in enumerate(cells, 1):
        if "id" not in cell:
            names = (f"cell-{number:02}{more}" for more in ("", *map("-{}".format, range(2, 999))))
            cell["id"] = next(name for name in names if name not in kept)
            kept.add(cell["id"])


# Saving in JupyterLab


def keep_unchanged(model: dict, path: str, contents_manager: object) -> None:
    """Called before JupyterLab saves a notebook: save the file's content when a reader would see no
    difference.

    JupyterLab writes the kernel's version and the state of widgets into a notebook, so its autosave would
    change every lesson that somebody opens or runs. An edited cell is saved as usual.
    """
    file = Path(contents_manager.root_dir, path)
    if model.get("type") != "notebook" or not file.is_file():
        return
    stored, given = read(file), model["content"]
    if _shown_to_reader(stored) != _shown_to_reader(given):
        return
    for old, new in zip(stored["cells"], given["cells"], strict=True):
        if new["metadata"].get("trusted"):
            old["metadata"]["trusted"] = True  # for the signature; it is not written to the file
    model["content"] = stored


def _shown_to_reader(nb: dict) -> list[dict]:
    """The cells without execution counts, each text in one piece."""
    cells = normalised(nb)["cells"]
    for cell in cells:
        cell.pop("execution_count", None)
        cell["outputs"] = [_whole(output) for output in cell.get("outputs", [])]
    return cells


def _whole(output: dict) -> dict:
    whole = {key: value for key, value in output.items() if key != "execution_count"}
    if "text" in output:
        whole["text"] = joined(output["text"])
    if "data" in output:
        texts = output["data"].items()
        whole["data"] = {mime: joined(value) if _is_text(value) else value for mime, value in texts}
    return whole


# Checking


def check(path: Path) -> list[str]:
    """What is wrong with this file, one line each."""
    nb = read(path)
    found = list(problems(nb))
    if to_text(normalised(nb)).encode() != Path(path).read_bytes():
        found.append("not in the normal form; run: python tools/notebooks.py normalise")
    return [f"{_shown(path)}: {problem}" for problem in found]


def problems(nb: dict) -> Iterator[str]:
    code = [(place, cell) for place, cell in enumerate(nb["cells"], 1) if cell["cell_type"] == "code"]
    if len(code) > CODE_CELLS:
        yield f"{len(code)} code cells; at most {CODE_CELLS} are allowed"
    if not any(cell["outputs"] for _, cell in code):
        yield "no outputs are stored"
    for count, (place, cell) in enumerate(code, 1):
        for problem in (*_run_problems(cell, count), *_output_problems(cell)):
            yield f"cell {place}: {problem}"


def _run_problems(cell: dict, count: int) -> Iterator[str]:
    if cell["execution_count"] != count:
        yield f"execution count is {cell['execution_count']}, not {count}; run the notebook from the top"
    source = joined(cell["source"])
    tags = cell.get("metadata", {}).get("tags", [])
    if "NBVAL_" in source or any(tag.startswith("nbval-") or tag == "raises-exception" for tag in tags):
        yield "it is excluded from nbval's comparison; every output must be compared"
    lines = source.count("\n") + 1
    if lines > CODE_LINES:
        yield f"{lines} lines; at most {CODE_LINES} are allowed"


def _output_problems(cell: dict) -> Iterator[str]:
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "error":
            yield f"it failed: {output['ename']}"
        if output.get("name") == "stderr":
            yield "it wrote to stderr"
        if skipped := sorted(set(data) - COMPARED):
            yield f"{skipped[0]} is never compared; show {', '.join(sorted(COMPARED))}"
        if output.get("metadata"):
            yield "the output has metadata, which is never compared"
        seen = "\n".join(joined(text) for text in (output.get("text", ""), *data.values()) if _is_text(text))
        for name, pattern in UNSTABLE.items():
            if match := pattern.search(seen):
                yield f"the output holds {name}: {match[0]!r}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))


# Running


def execute(path: Path) -> str:
    """Run the notebook in a new kernel in its own folder and write it back. Returns what went wrong, or
    ""."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    nb = nbformat.from_dict(normalised(read(path)))
    resources = {"metadata": {"path": str(path.resolve().parent)}}
    client = NotebookClient(nb, timeout=CELL_TIMEOUT, kernel_name="python3", resources=resources)
    client.record_timing = False
    client.extra_arguments = ["--log-level=ERROR"]  # the kernel's warnings are not the lesson's
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return f"{_shown(path)}: not written, because it failed:\n{error}"
    write(path, nb)
    return ""


def _shown(path: Path) -> str:
    path = Path(path).resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _normalise(path: Path) -> list[str]:
    if write(path, read(path)):
        print(f"{_shown(path)}: normalised")
    return []


def _execute(path: Path) -> list[str]:
    print(_shown(path), flush=True)
    failure = execute(path)
    return [failure] if failure else check(path)


def _tried(command: Callable[[Path], list[str]], path: Path) -> list[str]:
    try:
        return command(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"{_shown(path)}: not readable as a notebook: {error!r}"]


def main(arguments: list[str] | None = None) -> int:
    commands = {"execute": _execute, "normalise": _normalise, "check": check}
    parser = argparse.ArgumentParser(description="Run, normalise or check notebooks.")
    parser.add_argument("command", choices=commands)
    parser.add_argument("files", nargs="*", type=Path, help="default: all lessons and solutions")
    options = parser.parse_args(arguments)
    files = options.files or default_files()
    found = [line for path in files for line in _tried(commands[options.command], path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
