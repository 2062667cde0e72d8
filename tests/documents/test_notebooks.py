"""Every notebook is executed, complete and comparable; and the checks that say so can fail."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import notebooks

PROJECT = notebooks.ROOT / "pyproject.toml"


@pytest.mark.parametrize("path", notebooks.default_files(), ids=lambda path: path.stem)
def test_the_notebook_is_good(path: Path):
    assert notebooks.check(path) == []


# A small notebook for the tests below


def code(source: str, count: int | None = 1, *outputs: dict) -> dict:
    return {
        "cell_type": "code",
        "id": f"code-{count}",
        "execution_count": count,
        "metadata": {},
        "source": source,
        "outputs": list(outputs),
    }


def stream(text: str, name: str = "stdout") -> dict:
    return {"output_type": "stream", "name": name, "text": text}


def shown(mime: str, value: str) -> dict:
    return {"output_type": "display_data", "metadata": {}, "data": {mime: value}}


def book(*cells: dict) -> dict:
    return {"cells": list(cells), "metadata": notebooks.METADATA, "nbformat": 4, "nbformat_minor": 5}


GOOD = book(code("print(1)", 1, stream("1\n")), code("x = 2", 2))


def problems(*cells: dict) -> list[str]:
    return list(notebooks.problems(book(*cells)))


# What nbval alone would let pass


def test_a_good_notebook_has_no_problems():
    assert list(notebooks.problems(GOOD)) == []


def test_cleared_outputs_are_found():
    assert problems(code("print(1)", None)) == [
        "no outputs are stored",
        "cell 1: execution count is None, not 1; run the notebook from the top",
    ]


def test_cells_run_out_of_order_are_found():
    found = problems(code("print(1)", 2, stream("1\n")), code("x = 2", 1))
    assert [problem.split(";")[0] for problem in found] == [
        "cell 1: execution count is 2, not 1",
        "cell 2: execution count is 1, not 2",
    ]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (stream("careful\n", "stderr"), "cell 1: it wrote to stderr"),
        (
            shown("image/png", "aGk="),
            "cell 1: image/png is never compared; show image/svg+xml, text/html, text/plain",
        ),
        (
            shown("image/jpeg", "aGk="),
            "cell 1: image/jpeg is never compared; show image/svg+xml, text/html, text/plain",
        ),
        (
            {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []},
            "cell 1: it failed: ValueError",
        ),
        (
            shown("text/plain", "<object at 0x7f31aa60>"),
            "cell 1: the output holds an address: 'at 0x7f31aa60'",
        ),
        (
            shown("application/vnd.vega.v5+json", "{}"),
            "cell 1: application/vnd.vega.v5+json is never compared; show image/svg+xml, text/html, text/plain",
        ),
        (
            shown("text/plain", "x") | {"metadata": {"a": 1}},
            "cell 1: the output has metadata, which is never compared",
        ),
        (stream("open /tmp/x.db\n"), "cell 1: the output holds an absolute path: '/tmp/'"),
        (stream("in C:\\Users\n"), "cell 1: the output holds an absolute path: 'C:\\\\'"),
        (
            shown("text/html", "<i id='0f8fad5b-d9cb-469f-a165-70867728950e'>"),
            "cell 1: the output holds a uuid: '0f8fad5b-d9cb-469f-a165-70867728950e'",
        ),
    ],
)
def test_a_bad_output_is_found(output: dict, problem: str):
    assert problems(code("run()", 1, output)) == [problem]


@pytest.mark.parametrize("text", ["a/tmp/b", "https://example.org/home/x", "0x52434C42", "8 of 10"])
def test_harmless_text_is_not_taken_for_a_path_or_an_address(text: str):
    assert problems(code("run()", 1, stream(text))) == []


def test_the_projects_own_folder_in_an_output_is_found():
    (found,) = problems(code("run()", 1, stream(f"{notebooks.ROOT}{os.sep}data\n")))
    assert "an absolute path" in found


# The normal form


def test_normalising_drops_what_no_reader_sees_and_keeps_tags():
    messy = copy.deepcopy(GOOD) | {"nbformat_minor": 4, "metadata": {"widgets": {}}}
    messy["cells"][0]["metadata"] = {"execution": {"iopub.status.busy": "then"}, "tags": ["naive"]}
    messy["cells"][1]["metadata"] = {"scrolled": True, "tags": []}
    clean = notebooks.normalised(messy)
    assert [cell["metadata"] for cell in clean["cells"]] == [{"tags": ["naive"]}, {}]
    assert (clean["metadata"], clean["nbformat_minor"]) == (notebooks.METADATA, 5)


def test_a_file_in_another_form_is_found_and_repaired(tmp_path: Path):
    path = tmp_path / "one.ipynb"
    path.write_text(notebooks.to_text(GOOD) + "\n", encoding="utf-8", newline="\n")
    assert [line.split(";")[0] for line in notebooks.check(path)] == ["one.ipynb: not in the normal form"]
    assert notebooks.main(["normalise", str(path)]) == 0
    assert notebooks.main(["check", str(path)]) == 0
    assert notebooks.write(path, GOOD) is False


@pytest.mark.parametrize("text", ["", "[]", '{"cells": [{}]}'])
def test_a_file_that_is_no_notebook_is_a_problem_and_no_traceback(tmp_path: Path, text: str, capsys):
    (tmp_path / "x.ipynb").write_text(text)
    assert notebooks.main(["check", str(tmp_path / "x.ipynb")]) == 1
    assert "x.ipynb: not readable as a notebook" in capsys.readouterr().out


# The strict run, with a real kernel


def test_the_strict_run_fails_for_an_edited_output_and_for_nothing_else(tmp_path: Path):
    good, edited = tmp_path / "good.ipynb", tmp_path / "edited.ipynb"
    notebooks.write(good, book(code("print(1 + 1)", None), code("2 + 2", None)))
    assert notebooks.execute(good) == ""
    assert notebooks.check(good) == []
    nb = notebooks.read(good)
    nb["cells"][1]["outputs"][0]["data"]["text/plain"] = "5"
    notebooks.write(edited, nb)

    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(PROJECT),
        "-p",
        "no:cacheprovider",
        "--color=no",
        "--nbval",
    ]
    run = subprocess.run([*command, "--rootdir=.", good.name, edited.name], cwd=tmp_path, capture_output=True)
    told = run.stdout.decode()
    failed = [line.split(" - ")[0].strip() for line in told.splitlines() if line.startswith("FAILED")]
    assert (run.returncode, failed) == (1, ["FAILED edited.ipynb::Cell 1"]), told
    assert "1 failed, 3 passed" in told


def test_a_failing_cell_leaves_the_file_as_it_was(tmp_path: Path):
    path = tmp_path / "broken.ipynb"
    notebooks.write(path, book(code("1 / 0", None)))
    before = path.read_bytes()
    assert "ZeroDivisionError" in notebooks.execute(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("tag", ["nbval-ignore-output", "nbval-skip", "raises-exception"])
def test_a_cell_that_is_not_to_be_compared_is_found(tag: str):
    said = ["cell 1: it is excluded from nbval's comparison; every output must be compared"]
    cell = code("print(1)", 1, stream("1\n"))
    assert problems(cell | {"metadata": {"tags": [tag]}}) == said
    assert problems(code("# NBVAL_IGNORE_OUTPUT\nprint(1)", 1, stream("1\n"))) == said
