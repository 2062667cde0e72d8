"""Renew constraints.txt with the newest versions that the bounds in pyproject.toml allow.

Run it with Python 3.11, because some packages are only needed by the oldest Python. Then run `make test`.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = "3.11.0"  # not merely 3.11: some packages want 3.11.5, and Debian 12 has 3.11.2
HEAD = f"""\
# Exact versions of everything that the tests are run with. pyproject.toml has the bounds.
# Renew with: python tools/renew_constraints.py
# All of them admit Python {OLDEST}. What a system other than {sys.platform} needs besides is left to pip.
"""


def direct_requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return [line for line in project["dependencies"] + extras if not line.startswith("receiptlab")]


def newest_versions(requirements: list[str]) -> dict[str, str]:
    """What pip would install for the oldest Python. Nothing is installed."""
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run", "--ignore-installed"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        aim = ["--python-version", OLDEST, "--only-binary=:all:", "--target", folder]
        subprocess.run([*pip, *aim, "--report", str(report), *requirements], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in found}


def main() -> None:
    versions = newest_versions(direct_requirements())
    lines = [f"{name}=={versions[name]}\n" for name in sorted(versions, key=str.lower)]
    (ROOT / "constraints.txt").write_text(HEAD + "".join(lines), encoding="utf-8", newline="\n")
    print(f"constraints.txt: {len(lines)} versions")


if __name__ == "__main__":
    main()
