"""docs/own_model.md: its modules are those of the scenarios, twenty lines at most, and its Python runs."""

import inspect
import re
import sys
from pathlib import Path

import pytest
import torch
import yaml
from notebook_cells import Cells

from fedsim.scenario.parts import lookup
from fedsim.sweep import starter

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "own_model.md").read_text("utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
EXAMPLES = [block for block in PYTHON if "class " in block]
SHIPPED = yaml.safe_load((ROOT / "scenarios" / "own_modules.yaml").read_text("utf-8"))["grid"]["model"]


@pytest.fixture
def cells():
    with Cells("own_model_page") as made:
        for block in EXAMPLES:
            made.run(block)
        yield made


def output_of(made, seed):
    """What a module of this class that is drawn with this seed makes of the same rows."""
    drawn = torch.Generator().manual_seed(1)
    x, edges = torch.randn(12, 1, 8, 8, generator=drawn), torch.randint(12, (2, 40), generator=drawn)
    of_graph = "edge_index" in inspect.signature(made.forward).parameters
    sizes = {"in_channels": 64 if of_graph else 1, "num_classes": 10}
    torch.manual_seed(seed)
    module = made(**{name: sizes[name] for name in sizes if name in inspect.signature(made).parameters})
    return module.state_dict(), module(x.flatten(1), edges) if of_graph else module(x)


def test_the_modules_of_the_page_are_those_of_the_scenario(cells):
    assert len(EXAMPLES) == len(SHIPPED) == 3
    with lookup.within_reach(ROOT / "scenarios"):
        for name in SHIPPED:
            file, _, own = name.partition(".")
            shipped = getattr(lookup.load(file), own)
            (state, output), (of_page, same) = output_of(shipped, 3), output_of(cells.names[own], 3)
            assert state.keys() == of_page.keys()
            assert torch.equal(output, same)


def test_each_is_twenty_lines_at_most():
    assert all(len(block.rstrip().splitlines()) <= 20 for block in EXAMPLES)


def test_the_python_of_the_page_runs(cells, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    starter.write(tmp_path, "module")
    small = Path("scenario.yaml").read_text("utf-8").replace("rounds: 20", "rounds: 2").replace("[0, 1, 2]", "[0]")
    Path("scenario.yaml").write_text(small, "utf-8")
    load, simulating = (block for block in PYTHON if block not in EXAMPLES)
    cells.run(simulating.replace('"scenario.yaml",', '"scenario.yaml", progress=False,'))
    result, net = cells.names["result"], cells.names["net"]
    assert not net.training
    assert result.runs["status"].tolist() == ["done", "done"]
    (kept,) = Path("runs/my_network/points").glob(f"{result.runs['run'][0]}/model.pt")
    cells.run("import torch\n" + load.replace("runs/NAME/points/RUN/model.pt", str(kept)))
    loaded = cells.names["net"].state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in net.state_dict().items())
    assert sys.modules["own_model_page"] is cells.module
