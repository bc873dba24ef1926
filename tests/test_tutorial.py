"""The tutorial, run from its first line to its last, in an empty folder."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from fedsim import __main__ as command_line

pytestmark = pytest.mark.long

TEXT = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text("utf-8")
BLOCK = re.compile(r"(?:^`(?P<file>[\w./]+)`\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The names that the tutorial's Python has made, after all its blocks."""
    names = {"__name__": "tutorial"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("tutorial"))
        patch.syspath_prepend(str(Path.cwd()))
        for number, block in enumerate(BLOCK.finditer(TEXT)):
            if block["file"]:
                Path(block["file"]).parent.mkdir(exist_ok=True)
                Path(block["file"]).write_text(block["body"], "utf-8")
            elif block["kind"] == "python":
                exec(compile(block["body"], f"tutorial.md, block {number}", "exec"), names)
            else:
                run(block["body"])
        yield names
    for name in [name for name in sys.modules if name.partition(".")[0] == "mylab"]:
        del sys.modules[name]


def run(body):
    for line in body.splitlines():
        start, *rest = shlex.split(line)[1:]
        assert (start, rest[0]) == ("-m", "fedsim")
        assert command_line.main(rest[1:]) == 0


def test_no_block_is_left_out():
    assert len([*BLOCK.finditer(TEXT)]) == TEXT.count("\n```") / 2


def test_what_the_tutorial_says_of_its_runs_holds(found):
    first, train, hurried = (found[name].points.iloc[0] for name in ("first", "train", "hurried"))
    assert first["seconds_to_target"] < first["sim_seconds"]
    assert train["score"] == first["score"]  # the same is learned, only later
    assert train["sim_seconds"] > first["sim_seconds"] + 5
    assert hurried["sim_seconds"] < train["sim_seconds"]
    assert hurried["folded"] < first["folded"]


def test_an_own_algorithm_costs_what_it_sends(found):
    points = found["both"].points
    own, fedavg = (points[points["algorithm"] == name] for name in ("mylab.momentum", "fedavg"))
    assert own["bytes_up"].tolist() == fedavg["bytes_up"].tolist()
    assert points.groupby("algorithm")["score"].mean().nunique() == 2
    assert Path(found["both"].folder / "report" / "report.html").is_file()


def test_an_own_trace_slows_the_client_that_it_names(found):
    ups = found["ups"]
    took = (ups["arrived"] - ups["sent"]).groupby(ups["src"]).max()
    assert took[2] > 2 * took[1] > 0  # its rate is less for six seconds, else more than twice as high
