"""`--init FOLDER`: write a small study to start from, of an algorithm or of a network, copied from the files here.

`--demo` runs one of the files as it is.

Files that end in `.txt` here become Python modules of the user, outside this project's packages.
"""

from importlib.resources import files
from pathlib import Path

from fedsim.core.errors import UserError

DEMO = Path(__file__).with_name("demo.yaml")
STUDIES = {  # where each file of a study goes in the new folder: its template
    "algorithm": {"scenario.yaml": "scenario.yaml", "clients.csv": "clients.csv", "own/momentum.py": "momentum.txt"},
    "module": {"scenario.yaml": "module.yaml", "own/net.py": "net.txt"},
}
HOLDS = {
    "algorithm": """{folder} holds a small study:
  scenario.yaml     what is run, with comments
  clients.csv       the clients: their links, delays and speeds
  own/momentum.py   an algorithm to change, named own.momentum in the scenario""",
    "module": """{folder} holds a small study of a network of your own:
  scenario.yaml     what is run, with comments
  own/net.py        the network, a torch.nn.Module, named own.net.Net in the scenario""",
}
RUN = """

Run it (some seconds):
  cd {folder}
  python -m fedsim scenario.yaml

Then change a value and run it again. Look before you run:
  python -m fedsim scenario.yaml --explain
  python -m fedsim --list                     what else scenarios can name
"""
LAST = {
    "algorithm": """  python -m fedsim --list algorithm power     the options of one""",
    "module": """  python -m fedsim --list model own.net.Net   the options of your network

Each run keeps the trained weights, model.pt in its folder. In Python:
  from fedsim import simulate
  result = simulate("scenario.yaml")
  net = result.module(result.runs["run"][0])""",
}


def write(folder: Path, study: str = "algorithm") -> str:
    """Write a study into a folder, which is created, and return what to do next.

    Raises UserError if a file exists already or the folder cannot be written; then nothing is written.
    """
    templates = STUDIES[study]
    if existing := [name for name in templates if (folder / name).exists() or (folder / name).is_symlink()]:
        raise UserError(f"--init {folder}: {', '.join(existing)} is there already; give another folder")
    texts = {name: (files(__name__) / template).read_text(encoding="utf-8") for name, template in templates.items()}
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
    return f"{HOLDS[study]}{RUN}{LAST[study]}".format(folder=folder)
