"""The tutorial, run from its first line to its last, in an empty folder."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from fedsim import __main__ as command_line
from fedsim.core.errors import ScenarioError
from fedsim.point.run import run as run_point
from fedsim.scenario.schema import Scenario

pytestmark = pytest.mark.long

TEXT = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
BLOCK = re.compile(
    r"(?:^`(?P<file>[\w./]+)`(?P<more>, continued)?\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
MESSAGES = [block["body"].strip() for block in BLOCK.finditer(TEXT) if block["kind"] == "text"]
MISTAKES = {  # a class by that name, and what is wrong in it
    "Hasty": "def __post_init__(self): self.local_steps",
    "Keyed": "def download(self, state, client, step): return {**super().download(state, client, step), 'all': {0: 1}}",
    "Partial": "def corrected(self, grads, given): return given['correction']['layer1']",
    "Undeclared": "def upload_like(self, job): return {'update': job.download['model']}",
}


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
                with Path(block["file"]).open("a" if block["more"] else "w", encoding="utf-8") as file:
                    file.write("\n" * bool(block["more"]) + block["body"])
            elif block["kind"] == "python":
                exec(compile(block["body"], f"tutorial.md, block {number}", "exec"), names)
            elif block["kind"] == "sh":
                run(block["body"])
            else:
                assert block["kind"] == "text"
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
    first, train, hurried = (found[name].runs.iloc[0] for name in ("first", "train", "hurried"))
    assert first["seconds_to_target"] < first["sim_seconds"]
    assert train["score"] == first["score"]  # the same is learned, only later
    assert train["sim_seconds"] > first["sim_seconds"] + 5
    assert hurried["sim_seconds"] < train["sim_seconds"]
    assert hurried["folded"] < first["folded"]


def test_own_parts_take_part_in_a_run(found):
    first, own = found["first"], found["own"]
    row, plain = own.runs.iloc[0], first.runs.iloc[0]
    assert row["sim_seconds"] > plain["sim_seconds"] + 90  # nine pauses at least
    assert row["updates"] == plain["updates"] == 10
    assert (own.updates["wanted"] == 3).all()
    assert row["bytes_up"] < plain["bytes_up"] / 5
    assert row["score"] > 0.3


def test_an_own_metric_is_the_score(found):
    first, own = (found[name].runs.iloc[0] for name in ("first", "balanced"))
    assert own["metric"] == "mylab.balanced"
    assert 0 < own["score"] != first["score"]
    assert own["sim_seconds"] == first["sim_seconds"]


def test_an_own_split_is_scored_beside_the_others(found):
    first, own = found["first"], found["lonely"]
    assert {"test", "mylab.lonely"} == set(own.scores["split"])
    weights = own.scores.groupby("split")["weight"].max()
    assert 0 < weights["mylab.lonely"] < weights["test"]
    assert own.runs["score"][0] == first.runs["score"][0]


def test_an_own_algorithm_learns_what_ours_does_and_in_as_many_rounds_more_than_fedavg(found):
    points = found["drifting"].runs
    fedavg, own, ours = (
        points[points["algorithm"] == name].reset_index() for name in ("fedavg", "mylab.scaffold", "scaffold")
    )
    assert own["score"].to_numpy() == pytest.approx(ours["score"].to_numpy(), abs=0.01)
    assert (own["score"] > fedavg["score"] + 0.05).all()
    assert (1.9 * fedavg["bytes_up"] < own["bytes_up"]).all()
    assert (own["bytes_up"] < ours["bytes_up"]).all()
    assert Path(found["drifting"].folder / "report" / "report.html").is_file()


@pytest.mark.parametrize(("name", "message"), [*zip(MISTAKES, MESSAGES, strict=True)])
def test_fedsim_says_of_a_mistake_what_the_tutorial_says(found, tmp_path, name, message):
    assert found
    with pytest.raises((ValueError, RuntimeError, ScenarioError), match=re.escape(message)):
        drifting(tmp_path, name, MISTAKES[name], rounds=1)


def test_with_the_wrong_sign_it_falls_behind_fedavg(found, tmp_path):
    points = found["drifting"].runs
    wrong = "def corrected(self, grads, given): return tree.sub(grads, given['correction'])"
    row = drifting(tmp_path, "Reversed", wrong, rounds=20)
    assert row["score"] < points[points["algorithm"] == "fedavg"]["score"].iloc[0] - 0.05


def drifting(folder, name, wrong, rounds):
    """Run the tutorial's scenario with its algorithm, but for one method."""
    own = Path(f"mylab/{name.lower()}.py")
    own.write_text(
        "from dataclasses import dataclass\nfrom fedsim.learn.engine import tree\nfrom mylab.scaffold import Scaffold\n"
        f"@dataclass(frozen=True)\nclass {name}(Scaffold):\n    {wrong}\n",
        encoding="utf-8",
    )
    plain = yaml.safe_load(Path("drift.yaml").read_text("utf-8"))
    plain["protocol"]["rounds"] = rounds
    (point,) = Scenario.model_validate({**plain, "algorithm": f"mylab.{name.lower()}"}).points()
    return run_point(point, folder, folder, lambda progress: None)


def test_an_own_trace_slows_the_client_that_it_names(found):
    ups = found["ups"]
    took = (ups["arrived"] - ups["sent"]).groupby(ups["src"]).max()
    assert took[2] > 2 * took[1] > 0  # its rate is less for six seconds, else more than twice as high
