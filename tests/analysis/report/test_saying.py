"""A report says what it is doing while it is written, on a terminal and nowhere else."""

import io
import sys

import pytest
from synthetic_sweep import write_sweep

from analysis import terminal
from analysis.report.write import write


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_each_stage_of_a_report_is_said(tmp_path):
    said = []
    folder = write_sweep(tmp_path / "sweep", ("fedavg",), ("10 ms",), ("1.0",), (0, 1))
    write([folder], say=said.append)
    assert said[:2] == [f"reading {folder}", "reading the tables of 2 of 2 runs"]
    assert said[2].startswith("drawing chart 1: ")
    assert said[-1] == f"writing {folder / 'report.html'}"


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_line_is_shown_on_a_terminal_and_erased_at_the_end(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.working() as say:
        say("drawing [chart] 1")
    assert "drawing [chart] 1" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")


def test_nothing_is_shown_elsewhere(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with terminal.working() as say:
        say("drawing")
    assert file.getvalue() == ""
