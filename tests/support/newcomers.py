"""The pages that a newcomer reads: their words and sentences, and their blocks, which run or say why not."""

import contextlib
import io
import linecache
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
    module, out = ModuleType(f"{page.stem}_page"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setitem(sys.modules, module.__name__, module)
        for number, block in enumerate(BLOCK.finditer(page.read_text("utf-8"))):
            if block["why"] or block["kind"] == "text" or block["kind"].startswith("{"):
                continue
            if block["file"]:
                Path(block["file"]).parent.mkdir(exist_ok=True)
                Path(block["file"]).write_text(block["body"], "utf-8")
            elif block["kind"] == "python":
                place = f"/nowhere/{page.stem}.md, block {number}"
                lines = block["body"].splitlines(keepends=True)
                patch.setitem(linecache.cache, place, (len(block["body"]), None, lines, place))
                exec(compile(block["body"], place, "exec"), vars(module))
            elif block["kind"] == "sh":
                for line in block["body"].splitlines():
                    command(line)
        yield {**vars(module), "printed": out.getvalue(), "folder": Path.cwd()}
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]


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


def fragments(page: Path) -> list[str]:
    """The pieces of scenarios that a page shows without a file's name."""
    found = BLOCK.finditer(page.read_text("utf-8"))
    return [block["body"] for block in found if block["kind"] == "yaml" and not (block["file"] or block["why"])]
