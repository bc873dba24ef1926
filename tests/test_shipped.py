"""A user's own folders `algorithms` and `analysis` and fedsim's live together, in a checkout and from a wheel."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedsim.core import shipped
from fedsim.point import stamp
from fedsim.scenario import find, lookup, options, source, stated
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Scenario
from fedsim.sweep import listing, objects

ROOT = Path(__file__).resolve().parents[1]
MINE = '''\
"""What is sent in my lab."""

from dataclasses import dataclass

from algorithms.sizes import DOWN
from algorithms.traffic import Traffic as Theirs
from fedsim.core.units import Bytes


@dataclass(frozen=True)
class {name}(Theirs):
    """Fedsim's traffic with other defaults."""

    down: Bytes = DOWN
    up: Bytes = 30_000
'''
SPIRAL = """\
from dataclasses import dataclass

from algorithms.spiral import turns
from algorithms.traffic import Traffic
from fedsim.core.units import Bytes

from .arms import Arms


@dataclass(frozen=True)
class Spiral(Arms, Traffic):
    down: Bytes = turns.COUNT * 1000
    up: Bytes = 1000
"""
ARMS = """\
from dataclasses import dataclass


@dataclass(frozen=True)
class Arms:
    arms: int = 2
"""
UNRELATED = "def score():\n    return 3\n"
LOUD = "raise SystemExit('the analysis of my own was run')\n"
STUDY = """\
name: study
clients: {count: 4, speed: 1 GFLOP/s}
network: {latency: 30 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s}
protocol: {name: sync, rounds: 1, clients: 2}
grid: {algorithm: [traffic, spiral, {name: algorithms.traffic, down: 1 kB, up: 2 kB}]}
"""


THEIRS = ("algorithms.sizes", "algorithms.mine", "algorithms.spiral", "algorithms.own")


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


OURS = {"sizes.py": "DOWN = 20_000\n", "traffic.py": MINE.format(name="Traffic"), "mine.py": MINE.format(name="Mine")}
OURS |= {"spiral/__init__.py": SPIRAL, "spiral/turns.py": "COUNT = 3\n", "spiral/arms.py": ARMS}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with algorithms of the user's own, one of which is called like one of fedsim's."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(ROOT / "tests")])  # has algorithms/
    write(tmp_path / "algorithms", OURS)
    return tmp_path


@pytest.fixture
def reached(lab, monkeypatch):
    """The same folder, on this process's path."""
    monkeypatch.setattr(sys, "path", [str(lab), *sys.path])
    importlib.invalidate_caches()
    yield lab
    for name in [name for name in sys.modules if name.startswith(THEIRS)]:
        del sys.modules[name]


def python(folder, *words, path=ROOT):
    """Run Python in a folder, with nothing on its path but this, and return what it has printed."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_name_is_the_users_file_before_fedsims_and_a_dotted_one_is_fedsims(reached):
    assert find.module_of("algorithm", "mine") == "algorithms.mine"
    assert find.module_of("algorithm", "power") == "algorithms.power"
    assert find.module_of("algorithm", "traffic") == "algorithms.own.traffic"
    assert lookup.file_of("algorithms.own.traffic") == reached / "algorithms" / "traffic.py"
    assert lookup.file_of("algorithms.mine") == reached / "algorithms" / "mine.py"
    assert lookup.file_of("algorithms.traffic") == ROOT / "algorithms" / "traffic.py"
    assert lookup.file_of("algorithms.nobodys") is None
    assert find.module_of("effect", "traffic") == "fedsim.net.effects.traffic"


def test_both_classes_are_built_and_the_users_may_extend_the_one_it_replaces(reached):
    theirs = find.build("algorithm", Part(name="traffic"))
    ours = find.build("algorithm", Part(name="algorithms.traffic", options={"down": "1 B", "up": "2 B"}))
    assert (theirs.down, theirs.up, ours.down) == (20_000, 30_000, 1)
    assert type(ours) in type(theirs).__mro__
    assert find.build("algorithm", Part(name="mine")).down == 20_000


def test_a_line_says_so_where_a_users_file_takes_the_place_of_fedsims(reached):
    own = reached / "algorithms" / "traffic.py"
    assert find.note("algorithm", "traffic") == f"algorithm traffic is {own}; fedsim's own is algorithms.traffic"
    assert [find.note("algorithm", name) for name in ("mine", "power", "algorithms.traffic", "../x")] == [""] * 4


def test_names_hold_the_users_algorithms_and_none_of_its_other_files(reached):
    write(reached / "algorithms", {"sorting.py": "class Sort: pass\n", "torn.py": "def (:\n", "_hidden.py": ""})
    known = find.names("algorithm")
    assert {"mine", "traffic", "power"} <= {*known}
    assert not {"sizes", "sorting", "torn", "_hidden"} & {*known}
    assert len(known) == len({*known})


def test_a_file_in_fedsims_place_that_is_no_algorithm_is_reported_with_the_way_out(reached):
    write(reached / "algorithms", {"power.py": "class Power: pass\n"})
    (told,) = map(str, find.check("algorithm", Part(name="power")))
    assert "defines no Algorithm" in told
    assert told.endswith("fedsim's own is algorithms.power)")
    assert find.check("algorithm", Part(name="algorithms.power")) == []


def test_a_folder_with_an_init_is_an_algorithm_and_its_stamp_holds_the_modules_in_it(reached):
    assert find.module_of("algorithm", "spiral") == "algorithms.spiral"
    assert "spiral" in find.names("algorithm")
    assert find.check("algorithm", Part(name="spiral", options={"arms": 3})) == []
    assert stated.spelled_out("algorithm", "spiral", {}) == {"arms": 2, "down": "3 kB", "up": "1 kB", "operations": 0.0}
    built = find.build("algorithm", Part(name="spiral", options={"arms": 3}))
    assert (built.arms, built.down, built.learns) == (3, 3000, False)
    assert listing.entry("algorithm", "spiral").name == "spiral"
    assert objects.plain(built, {}) == {"name": "spiral", "arms": 3}
    assert {option.name for option in options.of("algorithm", "spiral")[1]} == {"down", "up", "operations", "arms"}
    scenario = {key: value for key, value in yaml.safe_load(STUDY).items() if key != "grid"}
    made = stamp.of(Scenario.model_validate({**scenario, "algorithm": "spiral"}))
    assert {"algorithms.spiral", "algorithms.spiral.turns", "algorithms.spiral.arms"} <= made.modules.keys()
    assert stamp.Disk().changed(made) == []
    for name in ("turns", "arms"):
        path = reached / "algorithms" / "spiral" / f"{name}.py"
        text = path.read_text("utf-8")
        path.write_text(f"# a comment\n{text}", "utf-8")
        assert stamp.Disk().changed(made) == []
        path.write_text(f"{text}\nMORE = 1\n", "utf-8")
        assert stamp.Disk().changed(made) == [source.shown(path)]
        path.write_text(text, "utf-8")


@pytest.mark.parametrize(("kind", "name"), [("algorithm", "traffic"), ("algorithm", "power")])
def test_without_a_folder_of_the_users_a_name_is_fedsims(kind, name, monkeypatch):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(ROOT / "tests")])
    assert shipped.folders("algorithms") == []
    assert find.module_of(kind, name) == f"algorithms.{name}"


def test_folders_are_within_reach_for_a_while(lab):
    before = [*sys.path]
    with shipped.within_reach(lab, lab, ROOT):
        assert shipped.folders("algorithms") == [lab / "algorithms"]
        assert sys.path.count(str(lab)) == 1
    assert sys.path == before


IMPORTS = """\
{before}
import fedsim
import algorithms, analysis
from algorithms.traffic import Traffic
from algorithms.sizes import DOWN
from analysis import axes
from analysis.quantity import show
assert "fedsim" not in Traffic.__module__ and Traffic.__dataclass_fields__["operations"].default == 0
assert not hasattr(analysis, "nothing_of_the_kind")
print(analysis.score(), DOWN)
"""


@pytest.mark.parametrize("before", ["", "import analysis, algorithms\nassert analysis.score() == 3"])
@pytest.mark.parametrize("form", ["analysis.py", "analysis/__init__.py"])
def test_a_users_package_keeps_its_names_whichever_was_imported_first(lab, form, before):
    write(lab, {form: UNRELATED, "algorithms/__init__.py": "", "script.py": IMPORTS.format(before=before)})
    assert python(lab, "script.py") == "3 20000\n"


def test_a_users_module_that_was_imported_first_gives_way_to_fedsims_of_that_name(lab):
    write(lab, {"analysis/__init__.py": "", "analysis/axes.py": UNRELATED, "analysis/more.py": UNRELATED})
    script = "import analysis.axes, analysis.more\nmine = analysis\nimport fedsim\nfrom analysis.axes import short\n"
    script += "import analysis.own.axes\nassert analysis.own.axes is mine.axes\n"
    script += "from analysis.more import score\nassert score is mine.more.score\nprint(mine.axes.score())\n"
    assert python(lab, "-c", script) == "3\n"


@pytest.mark.long
@pytest.mark.parametrize("place", ["here", "beside"])
def test_a_study_finds_the_users_folder_here_or_beside_the_scenario(lab, tmp_path, place):
    write(lab, {"study.yaml": STUDY})
    (tmp_path / "elsewhere").mkdir()
    here, file = (lab, "study.yaml") if place == "here" else (tmp_path / "elsewhere", "../study.yaml")
    out = python(here, "-m", "fedsim", file, "--jobs", "1", "--no-report")
    assert out.count("fedsim's own is algorithms.traffic") == 1
    (lab / "algorithms" / "spiral" / "arms.py").write_text(ARMS + "\nSTRANGE = 1\n")
    told = python(here, "-m", "fedsim", file, "--jobs", "1", "--no-report")
    assert "1 of 3 points runs again: " in told
    assert "algorithms/spiral/arms.py has changed since" in told
    assert "2 of 3 points are finished already" in told


@pytest.mark.long
def test_a_file_that_takes_fedsims_place_or_leaves_it_makes_its_points_run_again(lab):
    text = STUDY.replace("[traffic, spiral, {", "[{name: traffic, down: 20 kB, up: 30 kB}, {")
    write(lab, {"study.yaml": text})
    own = lab / "algorithms" / "traffic.py"
    words = ("-m", "fedsim", "study.yaml", "--jobs", "1", "--no-report")
    aside = own.rename(lab / "aside.py")
    assert "again" not in python(lab, *words)
    aside.rename(own)
    assert "1 of 2 points runs again: algorithms/traffic.py has changed since" in python(lab, *words)
    assert "2 of 2 points are finished already" in python(lab, *words)
    own.unlink()
    assert "1 of 2 points runs again: " in python(lab, *words)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A wheel of this project in a folder of its own, made from a copy and without asking another machine."""
    copy, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for folder in ("fedsim", *shipped.PACKAGES):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    offline = ("--no-deps", "--no-index")
    made = (*pip, "wheel", *offline, "--no-build-isolation", "-w", str(copy / "dist"), str(copy))
    subprocess.run(made, check=True, capture_output=True)
    (wheel,) = (copy / "dist").glob("*.whl")
    subprocess.run((*pip, "install", *offline, "--target", str(target), str(wheel)), check=True, capture_output=True)
    return target


@pytest.mark.long
def test_a_wheel_brings_one_top_level_package(installed):
    assert sorted(path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")) in (
        ["bin", "fedsim"],
        ["fedsim"],
    )
    listed = python(installed.parent, "-c", SHIPPED, path=installed).split()
    assert listed == [
        str(installed / "fedsim" / "_shipped" / name) for name in ("algorithms/power.py", "analysis/load.py")
    ]


SHIPPED = """\
from fedsim.scenario import lookup
print(*map(lookup.file_of, ("algorithms.power", "analysis.load")))
"""


@pytest.mark.long
@pytest.mark.parametrize(("form", "package"), [("analysis.py", True), ("analysis/report.py", False)])
def test_from_a_wheel_a_study_runs_beside_folders_of_the_same_names(installed, lab, form, package):
    write(lab, {"study.yaml": STUDY, form: LOUD, **({"algorithms/__init__.py": UNRELATED} if package else {})})
    out = python(lab, "-m", "fedsim", "study.yaml", "--jobs", "2", path=installed)
    assert out.count("fedsim's own is algorithms.traffic") == 1
    assert (lab / "runs" / "study" / "report" / "report.html").is_file()
    assert "report.html" in python(lab, "-m", "fedsim.analysis", "runs/study", "--out", "paper", path=installed)
    assert (lab / "paper" / "report.html").is_file()


LEARNED = """\
name: learned
data: {dataset: digits, partition: random}
model: {name: gcn, hidden: 4}
training: {optimiser: sgd, lr: 0.1}
clients: {count: 2, speed: 1 GFLOP/s}
network: {latency: 1 ms, uplink: 1 Mbit/s, downlink: 1 Mbit/s}
protocol: {name: sync, rounds: 1, clients: 2}
grid: {algorithm: [fedavg, fedprox, algorithms.fedavg]}
device: cpu
"""
FEDAVG = """\
from dataclasses import dataclass

from algorithms.fedavg import FedAvg as Theirs


@dataclass(frozen=True)
class FedAvg(Theirs):
    def update(self, state, replies, step):
        print("mine")
        return super().update(state, replies, step)
"""


@pytest.mark.long
def test_from_a_wheel_a_users_fedavg_learns_and_fedprox_is_of_fedsims(installed, lab):
    write(lab, {"learned.yaml": LEARNED, "algorithms/fedavg.py": FEDAVG})
    out = python(lab, "-m", "fedsim", "learned.yaml", "--jobs", "1", "--no-report", path=installed)
    assert out.splitlines().count("mine") == 1
    modules = [path.read_text("utf-8") for path in lab.glob("runs/learned/*/stamp.json")]
    assert sorted("algorithms.own.fedavg" in text for text in modules) == [False, False, True]
    assert all('"algorithms.fedavg"' in text for text in modules)
