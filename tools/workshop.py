"""The lessons without their answers, for thinking first: python -m tools.workshop

Creates the folder `workshop`: the lessons without outputs and with the cell under each question folded,
because its asserts are the answer; the blank exercises; and the solutions. It may contain somebody's work,
so it is never overwritten.
"""

import copy
import shutil
import sys
from pathlib import Path

from tools import exercises, notebooks

ROOM = notebooks.ROOT / "workshop"
QUESTION = "**Predict before you run:**"


def cleared(nb: dict) -> dict:
    """A copy without outputs, in which the code under a question is folded until somebody opens it."""
    nb = copy.deepcopy(notebooks.normalised(nb))
    asked = False
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
            if asked:
                cell["metadata"]["jupyter"] = {"source_hidden": True}
        asked = QUESTION in cell["source"]
    return nb


def build(lessons: Path, room: Path) -> list[Path]:
    """Create the folder, which must not exist yet, all at once. Returns its files, the lessons first."""
    texts = {path.name: cleared(notebooks.read(path)) for path in sorted(lessons.glob("*.ipynb"))}
    for path in sorted((lessons / "solutions").glob("*.ipynb")):
        texts[f"exercises/{path.name}"] = exercises.exercise(notebooks.read(path))
        texts[f"solutions/{path.name}"] = notebooks.normalised(notebooks.read(path))
    half = room.with_name(f"{room.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    for name in ("exercises", "solutions"):
        (half / name).mkdir(parents=True)
    for name, nb in texts.items():
        (half / name).write_text(notebooks.to_text(nb), encoding="utf-8", newline="\n")
    half.rename(room)
    return [room / name for name in texts]


def main() -> int:
    if ROOM.exists():
        print(f"{ROOM.name}/ already exists and may contain somebody's work; delete it to create it again")
        return 1
    made = build(notebooks.ROOT / "notebooks", ROOM)
    first = made[0].relative_to(notebooks.ROOT).as_posix()
    print(f"{len(made)} notebooks; call make lab, and open {first} in the list of files on the left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
