"""The pages that a newcomer reads: their words and sentences, and their blocks, which run or say why not."""

import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import made

from fedsim import __main__ as command_line

DOCS = Path(__file__).parents[2] / "docs"
LONGEST = 30  # words of a sentence
FOLDERS = ("tutorials", "howto", "explanation")
BLOCK = re.compile(
    r"(?:^% not run: (?P<why>[^\n]+)\n\n?)?(?:^`(?P<file>[\w./]+)`\n\n)?"
    r"^```(?P<kind>\{?\w+\}?)[^\n]*\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
OWN = ("own", "mylab", "net", "protocols", "samplers", "codecs", "metrics")  # modules that pages write


def pages() -> list[Path]:
    """Every page of the four kinds."""
    found = [page for folder in FOLDERS for page in sorted((DOCS / folder).glob("*.md"))]
    return [*found, *(DOCS / name for name in ("report.md", "glossary.md"))]


def prose(page: Path) -> str:
    """A page without code, drawings, directives and the targets of links."""
    text = BLOCK.sub("", page.read_text("utf-8"))
    return LINK.sub(r"\1", re.sub(r"^%.*$|<!--.*?-->", "", text, flags=re.MULTILINE))


def words(page: Path) -> int:
    """How many words a page has, headings and tables included, code not."""
    return len(re.findall(r"\w[\w'’.-]*", re.sub(r"^[|: -]+$", "", prose(page), flags=re.MULTILINE)))


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page; an entry of a list and a cell of a table end one, too."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*] |\d+\. |[|:#])", prose(page)):
        for cell in paragraph.split("|") if paragraph.lstrip().startswith("|") else [paragraph]:
            yield from re.split(r"(?<=[.?!:;])\s+(?=\W*[A-Z0-9`])", " ".join(cell.split()))


@contextlib.contextmanager
def run(page: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the names that a page's Python has made, after all its blocks, with `printed`; `folder` is empty before."""
    found = BLOCK.finditer(page.read_text("utf-8"))
    blocks = [each for each in found if not (each["why"] or each["kind"] == "text" or each["kind"].startswith("{"))]
    before = {*sys.modules}  # such as Python's own `codecs`, which must stay
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.syspath_prepend(str(folder))
        with made(page.stem, blocks, folder, _commands) as names:
            yield names
    for name in [name for name in sys.modules if name not in before and name.partition(".")[0] in OWN]:
        del sys.modules[name]


def _commands(block: re.Match[str]) -> None:
    for line in block["body"].splitlines() if block["kind"] == "sh" else ():
        command(line)


def command(line: str) -> None:
    """Run a command of a page: fedsim's own in this process, others by Python."""
    python, flag, module, *given = shlex.split(line, comments=True)
    assert (python, flag) == ("python", "-m")
    if module == "fedsim":
        jobs = ["--jobs", "1"] if given[0].endswith(".yaml") else []
        assert command_line.main([*given, *jobs]) == 0, line
    else:
        ended = subprocess.run([sys.executable, "-m", module, *given], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr + ended.stdout


def shown(page: Path) -> Iterator[str]:
    """Yield the lines that a page says its blocks print."""
    for block in BLOCK.finditer(page.read_text("utf-8")):
        if block["kind"] == "text" and (block["why"] or "").startswith("what the block above prints"):
            yield from filter(str.strip, block["body"].splitlines())


def fragments(page: Path) -> list[str]:
    """The pieces of scenarios that a page shows without a file's name."""
    found = BLOCK.finditer(page.read_text("utf-8"))
    return [block["body"] for block in found if block["kind"] == "yaml" and not (block["file"] or block["why"])]
