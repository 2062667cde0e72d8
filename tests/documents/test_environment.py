"""One list of bounds: pyproject.toml, environment.yml and constraints.txt agree."""

import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools.renew_constraints import OLDEST

ROOT = Path(__file__).resolve().parents[2]
CONDA_NAMES = {"playwright-python": "playwright"}  # conda-forge's own `playwright` has no Python in it


def bounds(lines: list[str]) -> dict[str, SpecifierSet]:
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in requirements}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pip_bounds() -> dict[str, SpecifierSet]:
    extras = [line for lines in project()["optional-dependencies"].values() for line in lines]
    found = bounds(project()["dependencies"] + extras)
    del found["receiptlab"]  # the extra `lab` includes the extra `show`
    return found


def environment() -> dict:
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def conda_bounds() -> dict[str, SpecifierSet]:
    found = bounds([line for line in environment()["dependencies"] if isinstance(line, str)])
    return {CONDA_NAMES.get(name, name): specifier for name, specifier in found.items()}


def constraints() -> dict[str, SpecifierSet]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return bounds([line for line in lines if not line.startswith("#")])


def test_conda_and_pip_have_the_same_names_and_bounds():
    conda = conda_bounds()
    del conda["python"], conda["pip"]
    assert conda == pip_bounds()


def test_conda_and_pip_want_the_same_python():
    assert conda_bounds()["python"] == SpecifierSet(project()["requires-python"])


def test_the_oldest_python_of_the_constraints_is_the_oldest_we_admit():
    assert SpecifierSet(project()["requires-python"]) == SpecifierSet(f">={OLDEST.removesuffix('.0')}")


def test_conda_installs_the_project_itself_from_conda_forge():
    assert environment()["channels"] == ["conda-forge"]
    assert environment()["dependencies"][-1] == {"pip": ["-e ."]}


def test_every_bound_has_both_ends():
    for name, specifier in pip_bounds().items():
        assert sorted(part.operator for part in specifier) == ["<", ">="], name


def test_every_direct_dependency_is_pinned_within_its_bounds():
    pins = constraints()
    for name, specifier in pip_bounds().items():
        (pin,) = pins[name]
        assert pin.operator == "==" and pin.version in specifier, name


def test_constraints_are_exact_versions_and_nothing_else():
    for name, specifier in constraints().items():
        assert [part.operator for part in specifier] == ["=="], name
