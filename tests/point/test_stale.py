"""Results that were made from other sources run again, with a message that names the file; comments change nothing."""

import ast
import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fake_runs
import pytest
from scenario_texts import SMALL
from small_sweeps import Listener, calls

from fedsim import __version__
from fedsim.point.results import folders, stale, stamp
from fedsim.point.results import source_hashes as imports
from fedsim.point.results.folders import place_of
from fedsim.scenario.text import yaml_file
from fedsim.sweep.engines.local import Local

ROOT = Path(__file__).resolve().parents[2]
HERE = Local(1)

TRAFFIC = """\
name: own
clients: {count: 4, speed: 1 GFLOP/s}
network: {latency: 30 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s, effects: [mylab.fog]}
protocol: {name: sync, rounds: 1, clients: 2}
grid:
  algorithm: [{name: traffic, down: 20 kB, up: 50 kB}, {name: mylab.mine, down: 20 kB, up: 50 kB}]
"""
MINE = '''\
"""What is sent in my lab."""

from dataclasses import dataclass

from algorithms.traffic import Traffic


@dataclass(frozen=True)
class Mine(Traffic):
    """Traffic with an option that says nothing."""

    extra: int = 3
'''
FOG = """\
from dataclasses import dataclass

from fedsim.net.effect import Effect
from fedsim.core.units import Seconds
from mylab import thickness


@dataclass(frozen=True)
class Fog(Effect):
    lift: Seconds = 60.0
    shapes = True

    def shape(self, transfer, rng):
        transfer.jitter += thickness.METRES / 3e8
"""
RINGS = '''\
from dataclasses import dataclass

import torch

from fedsim.data.dataset import Dataset, undirected
from fedsim.data.graph import graph_of


@dataclass(frozen=True)
class Rings(Dataset):
    """Nodes on rings, whose features tell their class, all but exactly."""

    def load(self, root, seed):
        y = torch.arange(60) % 3
        edges = torch.stack([torch.arange(60), (torch.arange(60) + 3) % 60])
        return graph_of(torch.eye(3)[y], undirected(edges, 60), y)
'''
LEARNED = """\
name: own
data: {dataset: mylab.rings, partition: random}
model: {name: gcn, hidden: 4}
training: {optimiser: sgd, lr: 0.1}
clients: {count: 3, speed: 1 GFLOP/s}
network: {latency: 30 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s}
protocol: {name: sync, rounds: 1, clients: 2}
grid: {algorithm: [fedavg, fedprox, local]}
device: cpu
"""


def edit(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def add(path):
    """Change what a module says."""
    path.write_text(path.read_text("utf-8") + "\nSTRANGE = 1\n", "utf-8")


@pytest.fixture
def lab(tmp_path):
    """A folder with modules of the user's own."""
    (tmp_path / "mylab").mkdir()
    for name, text in {"mine": MINE, "fog": FOG, "thickness": "METRES = 30\n", "rings": RINGS}.items():
        (tmp_path / "mylab" / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "mylab" / "unrelated.py").write_text("raise SystemExit\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "mylab"]:
        del sys.modules[name]


@pytest.fixture
def project(tmp_path):
    """A copy of the project, whose files may be edited."""
    for package in ("fedsim", "algorithms", "analysis"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def command(folder, text, *words, root=ROOT):
    """Run the command in a process of its own, and return its lines."""
    (folder / "own.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "fedsim", "own.yaml", "--jobs", "1", "--no-report", *words], cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def of_sources(lines):
    return [line for line in lines if " repeated: " in line or "are finished already" in line]


@pytest.mark.long
def test_own_parts_that_were_edited_run_again_and_comments_do_not(lab):
    assert of_sources(command(lab, TRAFFIC)) == []
    edit(lab / "mylab" / "mine.py", "What is sent in my lab.", "What is sent in another lab.")
    edit(lab / "mylab" / "mine.py", "extra: int = 3", "extra: int = 3  # or more")
    edit(lab / "mylab" / "unrelated.py", "raise", "# nobody imports it\nraise")
    assert of_sources(command(lab, TRAFFIC)) == ["2 of 2 runs are finished already"]
    edit(lab / "mylab" / "mine.py", "extra: int = 3", "extra: int = 4")
    assert of_sources(command(lab, TRAFFIC)) == [
        "1 of 2 runs is repeated: mylab/mine.py has changed since",
        "1 of 2 runs are finished already",
    ]
    edit(lab / "mylab" / "thickness.py", "30", "3_000_000")
    before = {path: path.stat().st_mtime_ns for path in lab.glob("runs/own/points/*/row.json")}
    assert of_sources(command(lab, TRAFFIC)) == ["2 of 2 runs are repeated: mylab/thickness.py has changed since"]
    rewritten = [path for path, time in before.items() if path.stat().st_mtime_ns != time]
    assert (len(before), len(rewritten)) == (3, 2)  # the point of the old default is kept as it was
    assert not [*lab.glob("runs/own/.*")]
    for path in rewritten:
        (path.parent / stale.FILE).unlink()
    assert of_sources(command(lab, TRAFFIC)) == [f"2 of 2 runs are repeated: {stale.UNKNOWN}"]
    assert of_sources(command(lab, TRAFFIC)) == ["2 of 2 runs are finished already"]


@pytest.mark.long
def test_an_edited_data_set_runs_again_with_all_that_learn_from_it(lab):
    assert of_sources(command(lab, LEARNED)) == []
    edit(lab / "mylab" / "rings.py", "all but exactly", "exactly")
    edit(lab / "mylab" / "rings.py", "torch.eye(3)[y]", "1 - torch.eye(3)[y]")
    assert of_sources(command(lab, LEARNED)) == ["3 of 3 runs are repeated: mylab/rings.py has changed since"]


SWEEP = """
import sys
from pathlib import Path
import fake_runs
from small_sweeps import Listener
from fedsim.scenario.text import yaml_file
from fedsim.sweep.engines.local import Local
from fedsim.sweep.runner import Sweep

if __name__ == "__main__":
    root, jobs = Path(sys.argv[1]), int(sys.argv[2])
    scenario, document = yaml_file.load(root / "own.yaml")
    watcher = Listener()
    with Local(jobs, prepare="fake_runs") as engine:
        Sweep([*scenario.points()], document.text, root / "runs", root).run(fake_runs.run, engine, watcher)
    print(*watcher.notes, sep="\\n")
"""


def swept(project, jobs=1):
    """Sweep over three algorithms with a run that writes empty tables, and return what is noted."""
    (project / "own.yaml").write_text(
        SMALL.replace("fedavg\n", "fedavg\ngrid: {algorithm: [fedavg, fedprox, local]}\n")
    )
    (project / "swept.py").write_text(SWEEP)
    tests = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join([str(project), str(tests / "support")])
    done = subprocess.run(
        [sys.executable, "swept.py", str(project), str(jobs)], cwd=project,
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line and " of an earlier form " not in line]


@pytest.mark.long
def test_shipped_parts_that_were_edited_and_upgrades_run_again(project):
    assert swept(project) == swept(project) == []
    edit(project / "algorithms" / "fedprox.py", "mu: float = ", "mu: float = 0.5 + ")
    assert swept(project, jobs=2) == ["1 of 3 runs is repeated: algorithms/fedprox.py has changed since"]
    add(project / "algorithms" / "local.py")
    assert swept(project) == ["1 of 3 runs is repeated: algorithms/local.py has changed since"]
    edit(project / "algorithms" / "fedavg.py", '"""', '"""Also: ')
    add(project / "fedsim" / "sweep" / "display.py")
    add(project / "algorithms" / "power.py")
    assert swept(project) == []
    edit(project / "fedsim" / "core" / "version.py", f'__version__ = "{__version__}"', '__version__ = "9.0.0"')
    add(project / "fedsim" / "clock" / "server.py")
    assert [note.partition(": ")[2] for note in swept(project)] == [f"fedsim {__version__} -> 9.0.0"]
    assert swept(project) == []


# ---- in one process


def stamps(swept):
    return {point.id: place_of(swept.out, point) / stale.FILE for point in swept.points}


def test_old_results_stay_until_the_new_ones_are_complete(make, tmp_path):
    swept = make(seeds=[1, 2])
    swept.run(fake_runs.run, HERE, Listener())
    for path in stamps(swept).values():
        path.unlink()
    first, second = swept.points
    seen = []

    def run(point, folder, data, progress):
        seen.append(folders.finished(place_of(swept.out, point)) is not None)
        if point.id == second.id:
            raise KeyboardInterrupt
        return fake_runs.run(point, folder, data, progress)

    with pytest.raises(KeyboardInterrupt):
        swept.run(run, HERE, Listener())
    assert seen == [True, True]
    assert stamps(swept)[first.id].is_file()
    assert folders.finished(place_of(swept.out, second))  # as it was
    assert not stamps(swept)[second.id].is_file()
    listener = Listener()
    swept.run(fake_runs.run, HERE, listener)
    assert listener.notes == [f"1 of 2 runs is repeated: {stale.UNKNOWN}"]
    assert calls(tmp_path) == [first.id, second.id, first.id, second.id]


@pytest.mark.parametrize("moved", [False, True])
def test_results_that_were_giving_way_when_the_program_ended_are_not_lost(make, moved):
    swept = make(seeds=[1])
    [point] = swept.points
    swept.run(fake_runs.run, HERE, Listener())
    place = place_of(swept.out, point)
    aside = place.with_name(f"{folders.OLD}{place.name}")
    shutil.copytree(place, aside)
    if not moved:
        shutil.rmtree(place)
    assert len(swept.unfinished()) == (not moved)
    listener = Listener()
    swept.run(fake_runs.run, HERE, listener)
    assert listener.begun == (1, 1)
    assert not aside.exists()


def test_a_move_that_fails_leaves_what_was_there(tmp_path):
    place = tmp_path / "points" / "seed=0-012345"
    place.mkdir(parents=True)
    (place / "row.json").write_text("old")
    with pytest.raises(FileNotFoundError):
        folders.put(tmp_path / "nothing", place)
    folders.settle(tmp_path)
    assert (place / "row.json").read_text() == "old"


def test_other_versions_of_libraries_are_reported_and_kept(make):
    swept, listener = make(seeds=[1, 2]), Listener()
    swept.run(fake_runs.run, HERE, listener)
    for path in stamps(swept).values():
        path.write_text(path.read_text().replace(f'"simpy":"{stamp.version_of("simpy")}"', '"simpy":"0.1"'))
    swept.run(fake_runs.run, HERE, listener)
    assert listener.begun == (2, 2)
    assert listener.notes == [
        f"2 runs were made with simpy 0.1 (now {stamp.version_of('simpy')}) and are kept: last digits may differ; "
        "use --fresh to rerun them"
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"fedsim": 1, "libraries": {}, "modules": {"a": 1}, "written": ""}']
)
def test_a_stamp_that_is_none_is_as_good_as_none(text):
    assert stamp.parsed(text) is None


def test_a_finished_point_tells_where_it_was_run_and_no_table_does(make):
    swept = make(seeds=[1])
    swept.run(fake_runs.run, HERE, Listener())
    [point] = swept.points
    told = json.loads((place_of(swept.out, point) / "row.json").read_text())["provenance"]
    assert told["python"].endswith(sys.version.split()[0])
    assert told["versions"]["fedsim"] == __version__
    assert {"torch", "numpy", "simpy"} <= told["versions"].keys()
    assert told["cores"] == os.cpu_count()
    assert told["began"] <= told["ended"]
    assert told["cpu"]
    assert "provenance" not in (swept.out / "summary.csv").read_text()


EDITED = """
import importlib, sys
from pathlib import Path
import yaml
from fedsim import simulate
from fedsim.core.errors import UserError

text = Path("own.yaml").read_text()
first = simulate(yaml.safe_load(text), progress=False).runs
mine = Path("mylab/mine.py")
mine.write_text(mine.read_text().replace("What is", "What was"))
simulate(yaml.safe_load(text), progress=False)  # a docstring
mine.write_text(mine.read_text() + "\\n\\ndef later():\\n    return 1\\n")
try:
    simulate(yaml.safe_load(text), progress=False)
    raise SystemExit("it was run")
except UserError as error:
    print(error)
importlib.reload(sys.modules["mylab.mine"])
simulate(yaml.safe_load(text), progress=True)
"""


@pytest.mark.long
def test_a_module_that_was_edited_after_its_import_is_refused_until_it_is_imported_anew(lab):
    (lab / "own.yaml").write_text(TRAFFIC)
    done = subprocess.run(
        [sys.executable, "-c", EDITED], cwd=lab, env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{lab}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    refused, *rest = done.stdout.splitlines()
    assert refused.startswith(
        "mylab/mine.py has changed since this Python process imported it, and would run as it was: restart"
    )
    assert of_sources(rest) == [
        "1 of 2 runs is repeated: mylab/mine.py has changed since",
        "1 of 2 runs are finished already",
    ]


def test_a_scenario_that_was_resolved_is_known_by_its_sources_alone(lab, monkeypatch):
    monkeypatch.syspath_prepend(lab)
    path = lab / "own.yaml"
    path.write_text(LEARNED)
    points = [*yaml_file.load(path)[0].points()]
    needs = [stamp.needs(point.scenario).modules for point in points]
    assert all(
        {"fedsim.point.run", "fedsim.point.build.learning", "mylab.rings", "analysis.measures.summarise"}
        <= modules.keys()
        for modules in needs
    )
    for modules in needs:
        for aside in (
            "fedsim.sweep.display",
            "fedsim.sweep.runner",
            "fedsim.sweep.engines",
            "fedsim.__main__",
            "analysis.report",
            "fedsim.point.results.stamp",
        ):
            assert not [name for name in modules if name == aside or name.startswith(f"{aside}.")]
    assert ["algorithms.fedprox" in modules for modules in needs] == [False, True, False]


def test_a_worker_takes_over_what_was_read_but_not_of_a_file_written_since(tmp_path, monkeypatch):
    file, other = tmp_path / "mine.py", tmp_path / "other.py"
    for path in (file, other):
        path.write_text("A = 1\n")
        imports.read(path)
    found = imports.known()
    monkeypatch.setattr(imports, "_sources", functools.cache(dict))  # as in another process
    other.write_text("A = 123\n")
    parsed, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda data, *more: parsed.append(data) or parse(data, *more))
    imports.know(found)
    assert imports.read(file).hash == found[next(key for key in found if key[0] == str(file))].hash
    assert parsed == []
    assert imports.read(other).hash != imports.read(file).hash
    assert len(parsed) == 1
