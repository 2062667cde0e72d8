"""The lessons without their answers, for a room: python tools/workshop.py

Writes build/workshop: the lessons without outputs, the exercises blank, the solutions as they are. The links
between them stay as they are, so nothing else has to be there.
"""

import copy
import shutil
import sys
from pathlib import Path

try:
    from tools import exercises, notebooks
except ImportError:  # run as a file
    import exercises
    import notebooks

ROOM = notebooks.ROOT / "build" / "workshop"


def cleared(nb: dict) -> dict:
    """A copy without outputs."""
    nb = copy.deepcopy(notebooks.normalised(nb))
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return nb


def build(lessons: Path, room: Path) -> list[Path]:
    """Make the folder anew; return what is in it, the lessons first."""
    if room.exists():
        shutil.rmtree(room)
    (room / "exercises").mkdir(parents=True)
    (room / "solutions").mkdir()
    made = []
    for path in sorted(lessons.glob("*.ipynb")):
        notebooks.write(room / path.name, cleared(notebooks.read(path)))
        made.append(room / path.name)
    for path in sorted((lessons / "solutions").glob("*.ipynb")):
        notebooks.write(room / "exercises" / path.name, exercises.exercise(notebooks.read(path)))
        shutil.copy(path, room / "solutions" / path.name)
        made += [room / "exercises" / path.name, room / "solutions" / path.name]
    return made


def main() -> int:
    made = build(notebooks.ROOT / "notebooks", ROOM)
    first = made[0].relative_to(notebooks.ROOT).as_posix()
    print(f"{len(made)} notebooks; open {first} in JupyterLab (make lab)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
