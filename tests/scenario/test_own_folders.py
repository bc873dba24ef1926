"""A user's folders of parts (`models`, `effects`, ...) are searched as `algorithms` is."""

import os
import subprocess
import sys

import pytest
import yaml

from fedsim import __main__ as command_line
from fedsim import simulate
from fedsim.core.errors import UserError
from fedsim.point.results import source_hashes as imports
from fedsim.point.results import stamp
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup
from fedsim.scenario.schema import Scenario
from fedsim.sweep import listing

STUDY = """\
name: study
clients: {count: 4, speed: 1 GFLOP/s}
network:
  {latency: 30 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s, effects: [{name: slow, rate: 0.1}, {name: loss, rate: 0}]}
protocol: {name: sync, rounds: 1, clients: 2}
algorithm: {name: algorithms.traffic, down: 1 kB, up: 2 kB}
"""
SUBCLASS = """\
from dataclasses import dataclass

from {module} import {base}
from . import words


@dataclass(frozen=True)
class {name}({base}):
    '''As fedsim's.'''

    more: int = words.MORE
"""
BASES = {  # a part of each kind that a user may extend
    "protocol": ("sync", "Sync"), "topology": ("star", "Star"), "transport": ("tcp", "Tcp"), "effect": ("loss", "Loss"),
    "codec": ("half", "Half"), "sampler": ("uniform", "Uniform"), "dataset": ("cora", "Cora"),
    "partition": ("random", "Random"), "stream": ("static", "Static"), "model": ("gcn", "GCN"),
    "task": ("node_classification", "NodeClassification"), "split": ("val", "Val"),
}  # fmt: skip


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def subclass(kind, name):
    stem, base = BASES[kind]
    return SUBCLASS.format(module=f"{find.KINDS[kind].package}.{stem}", base=base, name=name)


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder on this process's path with a part of each kind, and a name of fedsim's taken by the user."""
    for kind, (stem, _) in BASES.items():
        folder = find.KINDS[kind].package.rpartition(".")[2]
        write(tmp_path / folder, {f"{name}.py": subclass(kind, "Mine") for name in ("mine", stem)})
        write(tmp_path / folder, {"words.py": "MORE = 7\n"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield tmp_path
    for name in [name for name in sys.modules if f".{lookup.OWN}" in name]:
        del sys.modules[name]


@pytest.mark.parametrize("kind", BASES)
def test_a_part_in_a_folder_of_the_users_is_found_by_its_name(kind, lab):
    package, stem = find.KINDS[kind].package, BASES[kind][0]
    path = lab / package.rpartition(".")[2] / "mine.py"
    assert lookup.file_of(find.module_of(kind, "mine")) == path
    assert "mine" in find.names(kind)
    assert "words" not in find.names(kind)
    assert (
        find.check(kind, Part(name="mine", options={"more": 3, **({"rounds": 1} if kind == "protocol" else {})})) == []
    )
    assert find.find(kind, Part(name="mine"), kind).__module__ == f"{package}.own.mine"
    assert listing.entry(kind, "mine") == ("", "")  # it has no docstring
    # of one name, the user's comes first, and says so
    assert lookup.file_of(find.module_of(kind, stem)) == path.with_name(f"{stem}.py")
    assert find.note(kind, stem) == f"{kind} {stem} is {path.with_name(f'{stem}.py')}; fedsim's own is {package}.{stem}"
    assert find.note(kind, "mine") == ""
    assert find.module_of(kind, f"{package}.{stem}") == f"{package}.{stem}"


def test_it_is_built_and_its_stamp_holds_its_modules(lab):
    assert find.build("effect", Part(name="mine", options={"rate": 0.1})).more == 7
    scenario = yaml.safe_load(STUDY)
    scenario["network"]["effects"] = [{"name": "mine", "rate": 0.1}]
    made = stamp.of(Scenario.model_validate(scenario))
    names = {f"fedsim.net.effects.own.{name}" for name in ("mine", "words")}
    assert names <= made.modules.keys()
    assert stamp.Disk().changed(made) == []
    (lab / "effects" / "words.py").write_text("MORE = 8\n")
    assert len(stamp.Disk().changed(made)) == 1


def test_a_part_may_import_other_modules_of_the_users(lab):
    write(lab, {"mylab_of_mine.py": "", "effects/words.py": "import mylab_of_mine\nMORE = 7\n"})
    found = imports.needed([stamp.ROOT, "fedsim.net.effects.own.mine"])
    assert found.modules["mylab_of_mine"] == lab / "mylab_of_mine.py"


def test_a_module_that_is_missing_beside_a_part_is_not_taken_for_fedsims(lab):
    write(lab, {"algorithms/needy.py": "from .absent import MORE\n"})
    (problem,) = find.check("algorithm", Part(name="needy"))
    assert "absent" in problem.message
    assert "is a package of fedsim" not in problem.message


def test_a_file_that_has_nothing_to_do_with_fedsim_hides_nothing(lab):
    path = lab / "models" / "gcn.py"
    path.write_text("import torch\n\n\nclass GCN(torch.nn.Module):\n    pass\n")
    assert find.module_of("model", "gcn") == "fedsim.learn.models.gcn"
    assert find.note("model", "gcn") == f"model gcn is fedsim's own; {path} defines no Model"
    path.write_text("def (:\n")
    assert "cannot be imported: invalid syntax (gcn.py, line 1)" in str(find.check("model", Part(name="gcn"))[0])


def test_folders_of_installed_libraries_are_not_searched(tmp_path, monkeypatch):
    write(tmp_path / "site-packages" / "datasets", {"cora.py": subclass("dataset", "Cora"), "__init__.py": ""})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages"), *sys.path])
    assert find.module_of("dataset", "cora") == "fedsim.data.datasets.cora"


def test_a_folder_with_an_init_runs_it_as_a_package_of_pythons_would(lab):
    write(
        lab / "effects",
        {
            "__init__.py": "MORE = 9\n",
            "loss.py": subclass("effect", "Loss").replace("import words", "MORE").replace("words.MORE", "MORE"),
        },
    )
    text = (lab / "effects" / "loss.py").read_text().replace("from . MORE", "from . import MORE")
    (lab / "effects" / "loss.py").write_text(text)
    assert find.build("effect", Part(name="loss", options={"rate": 0.1})).more == 9


@pytest.mark.long
def test_a_scenario_is_run_with_an_effect_beside_it_in_every_worker(tmp_path):
    slow = subclass("effect", "Slow").replace("from . import words\n", "").replace("words.MORE", "1")
    write(tmp_path / "there", {"effects/slow.py": slow, "study.yaml": STUDY})
    done = subprocess.run(
        [sys.executable, "-m", "fedsim", "there/study.yaml", "--set", "grid.seed=[0,1]", "--jobs", "2", "--no-report"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_plugins_are_refused(tmp_path, monkeypatch, capsys):
    trap = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).mkdir()\n" + subclass("effect", "Loss")
    write(
        tmp_path,
        {
            "effects/loss.py": trap,
            "effects/words.py": "MORE = 1\n",
            "study.yaml": STUDY.replace("{name: slow, rate: 0.1}, ", ""),
        },
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # as `python -m` does
    assert command_line.main([str(tmp_path / "study.yaml"), "--no-plugins", "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert "'loss' would run" in message
    assert "rename that file to use fedsim's own fedsim.net.effects.loss" in message
    with pytest.raises(UserError, match="would run"):
        simulate(tmp_path / "study.yaml", plugins=False, progress=False)
    assert not (tmp_path / "ran").exists()
