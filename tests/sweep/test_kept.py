"""Modules from Python: given as classes and functions, and given back with the weights that a run has kept."""

import importlib
from pathlib import Path

import plain_nets
import pytest
import torch
from notebook_cells import Cells

from fedsim import simulate
from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.build import learning
from fedsim.point.build.parts import Parts
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Scenario
from fedsim.sweep import objects

SCENARIO = {
    "name": "kept",
    "data": {"dataset": "digit_images", "partition": {"name": "dirichlet", "alpha": 1.0},
             "split": {"train": 0.3, "val": 0.3, "test": 0.4}},
    "training": {"optimiser": "sgd", "lr": 0.1, "local_steps": 2},
    "clients": {"count": 3, "speed": "1 GFLOP/s"},
    "network": {"uplink": "8 Mbit/s", "downlink": "8 Mbit/s", "latency": "10 ms"},
    "protocol": {"name": "sync", "rounds": 3, "participation": 0.6},
    "algorithm": "fedavg",
    "measure": {"keep": "weights"},
}  # fmt: skip
CELL = '''
import torch
from torch import nn

SLOPE = 0.1


def block(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs), nn.LeakyReLU(SLOPE))


class Rows(nn.Module):
    """A network of rows."""

    def __init__(self, classes: int, hidden: int = 8):
        super().__init__()
        self.body, self.out = block(64, hidden), nn.Linear(hidden, classes)

    def forward(self, x):
        return self.out(self.body(x.flatten(1)))


def make(num_classes: int, hidden: int = 8, deep: bool = False):
    """Make a network of rows."""
    return Rows(num_classes, 2 * hidden if deep else hidden)
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def notebook():
    with Cells() as made:
        made.run(CELL)
        yield made


def run(**changes):
    return simulate(SCENARIO, progress=False, **changes)


def by_hand(result, module_of):
    """The accuracy on all clients' test rows of the module that a client is given."""
    scenario = Scenario.model_validate({**SCENARIO, "model": "gcn"})
    right = total = 0
    for client, (period,) in enumerate(learning.made(Parts(scenario), result.folder).periods):
        graph, module = period.graph, module_of(client)
        with torch.no_grad():
            answers = module(graph["x"][graph["test"]]).argmax(1)
        right, total = right + int((answers == graph["y"][graph["test"]]).sum()), total + len(answers)
    return right / total


@pytest.mark.parametrize("policy", ["average", "local"])
def test_the_module_scores_as_the_run_says(here, policy):
    result = run(model={"name": plain_nets.Images, "buffers": policy, "width": 3})
    assert result.runs["score"][0] > 0.15
    given = [result.module(client=client) for client in range(3)]
    assert all(type(module) is plain_nets.Images and not module.training for module in given)
    assert by_hand(result, given.__getitem__) == pytest.approx(result.runs["score"][0], abs=1e-12)
    if policy == "average":
        assert by_hand(result, lambda _: result.module(result.runs["run"][0])) == result.runs["score"][0]
        assert by_hand(result, lambda _: given[0].train()) != result.runs["score"][0]
    else:
        with pytest.raises(UserError, match=r"each client of .* has a model of its own: give client= one of 0, 1, 2"):
            result.module()


def test_what_is_missing_is_said(here):
    result = run(model=plain_nets.Images, measure={}, grid__seed=[0, 1])
    with pytest.raises(UserError, match="module: there are 2 runs; name one of the column 'run'"):
        result.module()
    with pytest.raises(UserError, match="module: there is no run 'nothing'"):
        result.module("nothing")
    with pytest.raises(UserError, match=r"seed=0-\w+ has kept no weights; write measure: \{keep: weights\}"):
        result.module(result.runs["run"][0])
    plain = run(model="gcn", data__dataset="digits", out="plain")
    with pytest.raises(UserError, match=r"'gcn' is no torch module; torch\.load"):
        plain.module()


def test_a_class_is_named_by_its_module_and_itself(here, monkeypatch):
    files = {}
    assert objects.plain(plain_nets.Images, files) == "plain_nets.Images"
    from torch_geometric.nn import GIN

    assert objects.plain(GIN, files) == "torch_geometric.nn.models.basic_gnn.GIN"
    (here / "lab_of_kept").mkdir()
    (here / "lab_of_kept" / "nets.py").write_text(CELL)
    monkeypatch.syspath_prepend(str(here))
    lab = importlib.import_module("lab_of_kept.nets")
    assert objects.plain({"name": lab.make, "deep": True}, files) == {"name": "lab_of_kept.nets.make", "deep": True}
    assert not files


def test_a_class_and_a_function_of_a_cell_are_saved(here, notebook):
    for name in ("Rows", "make"):
        files = {}
        part = objects.plain({"name": notebook.names[name], "hidden": 4}, files)
        (saved,) = files
        assert part == {"name": f"{saved.removesuffix('.py').replace('/', '.')}.{name}", "hidden": 4}
        assert "SLOPE = 0.1" in files[saved].decode()
    again = {}
    notebook.run(CELL.replace("SLOPE = 0.1", "SLOPE = 0.2"))
    objects.plain(notebook.names["make"], again)
    assert again.keys() != files.keys()  # another part, whose runs are others


def test_a_function_of_a_cell_is_trained_and_given_back(here, notebook):
    result = run(model={"name": notebook.names["make"], "deep": True})
    assert "# with model={'name': make, 'deep': True}\n" in (result.folder / "scenario.yaml").read_text()
    module = result.module()
    assert type(module).__name__ == "Rows"
    assert module.out.in_features == 16
    assert by_hand(result, lambda _: module) == pytest.approx(result.runs["score"][0], abs=1e-12)
    assert result.runs["status"].tolist() == ["done"]
    assert [path.name for path in Path("runs/kept/inputs").glob("inline_*/*.py")] == ["make.py"]


@pytest.mark.long
def test_workers_find_it_and_keep_the_same_weights(here, notebook):
    given = {"model": notebook.names["Rows"], "grid__seed": [0, 1]}
    pooled, alone = run(jobs=2, **given), run(out="alone", **given)
    assert pooled.runs["status"].tolist() == ["done", "done"]
    for name in pooled.runs["run"]:
        one, other = pooled.module(name).state_dict(), alone.module(name).state_dict()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_function_is_named_in_a_file_too(here):
    Path("own_nets.py").write_text(CELL + "\n\ndef wrong(classes):\n    return 3\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(here))
        result = run(model={"name": "own_nets.make", "hidden": 4})
        assert type(result.module()).__name__ == "Rows"
        with pytest.raises(UserError, match="'make' has no option 'hiden'"):
            run(model={"name": "own_nets.make", "hiden": 4}, out="other")
        with pytest.raises(UserError, match=r"wrong must return a torch.nn.Module, not int"):
            run(model="own_nets.wrong", out="other")
    assert not Path("other").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: plain_nets.Images(1, 10), r"model=Images\(.*: give the class Images and not a module of it"),
        (lambda: lambda classes: None, "a function without a name cannot be saved for other processes"),
        (
            lambda: make_hidden(3),
            "cannot save function inner: it uses the local variable 'extra'; put the function",
        ),
    ],
)
def test_what_cannot_be_a_model_is_refused(here, given, message):
    with pytest.raises(UserError, match=message):
        run(model=given())
    assert not [*here.iterdir()]


def make_hidden(extra):
    def inner(classes):
        return torch.nn.Linear(extra, classes)

    return inner


def test_a_keyword_that_would_hide_what_every_model_has_is_refused(here):
    Path("hiding_nets.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, classes, embed=3):\n        pass\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(here))
        told = "Net takes 'embed', a name that fedsim uses itself: give it another name"
        with pytest.raises(ScenarioError, match=told):
            find.build("model", Part(name="hiding_nets.Net"))
