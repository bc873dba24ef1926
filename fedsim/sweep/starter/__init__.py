"""`--init FOLDER`: write a small study to start from, copied from the files beside this module.

Files that end in `.txt` here become Python modules of the user, outside this project's packages.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from fedsim.core.errors import UserError

FILES = {  # where each goes in the new folder: its template
    "scenario.yaml": "scenario.yaml",
    "clients.csv": "clients.csv",
    "own/momentum.py": "momentum.txt",
}
NEXT = """{folder} holds a small study:
  scenario.yaml     what is run, with comments
  clients.csv       the clients: their links, delays and speeds
  own/momentum.py   an algorithm to change, named own.momentum in the scenario

Run it (some seconds):
  cd {folder}
  python -m fedsim scenario.yaml

Then change a value and run it again. Look before you run:
  python -m fedsim scenario.yaml --explain
  python -m fedsim --list                   what else scenarios can name
  python -m fedsim --list algorithm power   the options of one"""


def write(folder: Path) -> str:
    """Write the study into a folder, which is created, and return what to do next.

    Raises UserError if a file exists already or the folder cannot be written; then nothing is written.
    """
    there = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if there:
        raise UserError(f"--init {folder}: {', '.join(there)} is there already; give another folder")
    texts = {name: _template(template).read_text(encoding="utf-8") for name, template in FILES.items()}
    written: list[Path] = []
    try:
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise UserError(f"--init {folder}: cannot be written ({error.strerror}); give another folder") from None
    return NEXT.format(folder=folder)


def _template(name: str) -> Traversable:
    return files(__name__) / name
