"""What is shown while a sweep runs: lines that fit, whole numbers, and a line now and then without a terminal."""

import io
import re
import time
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fedsim.core import amounts
from fedsim.core.progress import Progress
from fedsim.sweep.display import Display, name


@dataclass
class Named:
    id: str
    axes: dict = field(default_factory=dict)


AXES = {"network.latency": "100 ms", "protocol.participation": 0.1, "algorithm": "fed_ergnn", "seed": 0}
LONG = {**AXES, "network.effects": "trace(trace=a/very/long/path/to/some/trace.csv, shift=False, loop=True)"}


class Watch:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        return self.now


def display(watch=None, width=80, **console):
    file = io.StringIO()
    made = Console(file=file, markup=False, highlight=False, width=width, **console)
    return Display(made, now=watch or time.monotonic, every=1000.0), file


def screen(shown):
    """The lines of the display, of which each fits the width."""
    with shown.console.capture() as drawn:
        shown.console.print(shown.screen())
    lines = [line.rstrip() for line in drawn.get().splitlines()]
    assert max(map(cell_len, lines)) <= shown.console.width
    return lines


@pytest.mark.parametrize("width", [80, 200])
def test_at_80_columns_labels_give_way_and_numbers_do_not(width):
    watch = Watch()
    shown, _ = display(watch, width)
    shown.begin(54, 0)
    watch.now = 100.0
    shown.done = 10
    shown.progressed(Named("a", AXES), Progress(12.3, 0.5, 0.513, 18))
    shown.progressed(Named("b", {**AXES, "algorithm": "power", "seed": 11}), Progress(9000.0, 0.5, None, 1118))
    lines = screen(shown)
    assert re.fullmatch(r"10/54 runs  ━+╸? +elapsed 1:40  about 6:31 left", lines[0])
    label = re.escape("100 ms, 0.1, fed_ergnn, 0" if width == 80 else name(AXES))
    assert re.fullmatch(label + r"  ━+ +12.30 s simulated    update 18  score 0.513", lines[1])
    assert lines[2].endswith("2.5 h simulated  update 1118      score –")


@given(
    st.integers(12, 250), st.floats(0, 1e7), st.floats(0, 1), st.none() | st.floats(0, 1), st.integers(0, 10**6),
    st.booleans(),
)  # fmt: skip
def test_at_any_width_lines_fit_and_hold_every_number(width, simulated, share, score, updates, long):
    shown, _ = display(width=width)
    shown.begin(7, 0)
    shown.progressed(Named("a", LONG if long else AXES), Progress(simulated, share, score, updates))
    text = " ".join(" ".join(screen(shown)).split())
    for number in (amounts.duration(simulated), f"update {updates}", amounts.number(score)):
        assert number in text


def test_the_time_left_counts_what_this_sweep_has_done_and_parts_of_points():
    watch = Watch()
    shown, _ = display(watch)
    shown.begin(10, 4)
    watch.now = 60.0
    assert shown.line() == "4/10 runs done, elapsed 1:00"
    shown.progressed(Named("a"), Progress(1.0, 0.5, None, 1))
    assert shown.line() == "4/10 runs done, 1 running, elapsed 1:00, about 11:00 left"
    for point in "abcdef":
        shown.ended(Named(point), {"status": "done"}, "")
    assert shown.line() == "10/10 runs done, elapsed 1:00"


def test_points_that_followed_another_are_counted():
    shown, _ = display()
    shown.begin(3, 0)
    for point, followed in ("a", None), ("b", "a"), ("c", "a b"):
        shown.ended(Named(point), {"status": "done", "followed": followed}, "")
    assert shown.line().startswith("3/3 runs done, 2 reused a record, elapsed")
    text = " ".join(" ".join(screen(shown)).split())
    assert "2 reused a record elapsed" in text


def test_without_a_terminal_there_is_a_line_at_both_ends_and_one_for_each_failure():
    shown, file = display()
    with shown:
        shown.begin(3, 0)
        shown.progressed(Named("a", AXES), Progress(1.0, 0.5, None, 1))
        shown.ended(Named("a", AXES), {"status": "done"}, "")
        shown.ended(Named("b", AXES), {"status": "failed"}, "RuntimeError: no (runs/x/b.log)")
        shown.ended(Named("c", AXES), {"status": "stalled", "sim_seconds": 0.15}, "")
    lines = file.getvalue().splitlines()
    assert lines[0] == "3 runs to do"
    assert lines[1] == f"2/3 b {name(AXES)}: failed: RuntimeError: no (runs/x/b.log)"
    assert lines[2].startswith(f"3/3 c {name(AXES)}: stalled after 0.15 s simulated: nothing more can happen")
    assert re.fullmatch(r"3/3 runs done, 1 failed, elapsed 0:0\d", lines[3])
    assert len(lines) == 4


def test_what_a_point_does_while_its_clock_stands_is_a_line():
    shown, out = display()
    shown.progressed(Named("a", AXES), Progress(1.0, 0.5, None, 1))
    assert out.getvalue() == ""
    shown.progressed(Named("a", AXES), Progress(1.0, 0.5, None, 1, "the clock has stood"))
    assert out.getvalue().endswith(": the clock has stood\n")


def test_without_a_terminal_a_line_comes_whenever_the_time_is_up():
    file = io.StringIO()
    shown = Display(Console(file=file, width=80), every=0.01)
    with shown:
        shown.begin(3, 0)
        while file.getvalue().count("0/3 runs done") < 3:
            time.sleep(0.01)
    assert not shown._clock.is_alive()


def test_a_terminal_moves_and_is_left_as_it_was():
    shown, file = display(force_terminal=True, color_system=None, _environ={"TERM": "xterm", "COLUMNS": "80"})
    with shown:
        shown.begin(2, 0)
        shown.progressed(Named("a", AXES), Progress(90.0, 0.5, 0.25, 7))
        shown._live.refresh()
        shown.ended(Named("a", AXES), {"status": "done"}, "")
    text = file.getvalue()
    assert "90.00 s simulated  update 7  score 0.250" in text
    assert text.rstrip("\n").endswith("\x1b[2K")  # the last thing is to clear it
    assert "to run" not in text


def test_a_dumb_terminal_gets_lines():
    shown, file = display(force_terminal=True, _environ={"TERM": "dumb"})
    with shown:
        shown.begin(1, 0)
    assert "\x1b[2K" not in file.getvalue()
    assert "1 run to do" in file.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.50 kB"), (2e9, "2.00 GB"), (None, "–")],
)
def test_bytes_are_shown_in_a_fitting_unit(value, text):
    assert amounts.size(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.50 s"), (180, "3.0 min"), (7200, "2.0 h"), (None, "–")])
def test_times_are_shown_in_a_fitting_unit(value, text):
    assert amounts.duration(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0:00"), (65.4, "1:05"), (3600, "1:00:00"), (59.7, "1:00")])
def test_times_of_this_computer_are_those_of_a_stopwatch(value, text):
    assert amounts.watch(value) == text
