"""Run a page of the documents from its first line to its last, in an empty folder."""

import contextlib
import io
import linecache
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedsim import __main__ as command_line

BLOCK = re.compile(r"(?:^`(?P<file>[\w./]+)`\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    return (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text("utf-8")


@contextlib.contextmanager
def run(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the names that the page's Python has made, after all its blocks, with `printed` and `folder`."""
    with made(name, BLOCK.finditer(text_of(name)), folder, _simulated) as names:
        yield names


@contextlib.contextmanager
def made(
    name: str, blocks: Iterable[re.Match[str]], folder: Path, other: Callable[[re.Match[str]], None]
) -> Iterator[dict[str, Any]]:
    """Yield what `run` does, of these blocks: files are written, Python is run, and `other` does the rest."""
    page, out = ModuleType(f"{name}_page"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        patch.setitem(sys.modules, page.__name__, page)
        for number, block in enumerate(blocks):
            if block["file"]:
                Path(block["file"]).parent.mkdir(exist_ok=True)
                Path(block["file"]).write_text(block["body"], "utf-8")
            elif block["kind"] == "python":
                place = f"/nowhere/{name}.md, block {number}"
                lines = block["body"].splitlines(keepends=True)
                patch.setitem(linecache.cache, place, (len(block["body"]), None, lines, place))  # as notebooks do
                exec(compile(block["body"], place, "exec"), vars(page))
            else:
                other(block)
        yield {**vars(page), "printed": out.getvalue(), "folder": Path.cwd()}


def _simulated(block: re.Match[str]) -> None:
    for line in block["body"].splitlines():
        assert line.startswith("python -m fedsim ")
        assert command_line.main([*shlex.split(line)[3:], "--jobs", "1"]) == 0
