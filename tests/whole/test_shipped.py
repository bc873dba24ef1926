"""A user's own folders `algorithms` and `analysis` and fedsim's live together, in a checkout and from a wheel."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedsim.point.results import stamp
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup, options, source
from fedsim.scenario.schema import Scenario
from fedsim.sweep import listing, objects

ROOT = Path(__file__).resolve().parents[2]
MINE = '''\
"""What is sent in my lab."""

from dataclasses import dataclass

from algorithms.traffic import Traffic as Theirs
from fedsim.core.units import Bytes

from .sizes import DOWN


@dataclass(frozen=True)
class {name}(Theirs):
    """Fedsim's traffic with other defaults."""

    down: Bytes = DOWN
    up: Bytes = 30_000
'''
SPIRAL = """\
from dataclasses import dataclass

from algorithms.traffic import Traffic
from fedsim.core.units import Bytes

from . import turns
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
    for name in [name for name in sys.modules if name.startswith("algorithms.own")]:
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
    assert find.module_of("algorithm", "mine") == "algorithms.own.mine"
    assert find.module_of("algorithm", "power") == "algorithms.power"
    assert find.module_of("algorithm", "traffic") == "algorithms.own.traffic"
    assert lookup.file_of("algorithms.own.traffic") == reached / "algorithms" / "traffic.py"
    assert lookup.file_of("algorithms.own.mine") == reached / "algorithms" / "mine.py"
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
    assert find.module_of("algorithm", "spiral") == "algorithms.own.spiral"
    assert "spiral" in find.names("algorithm")
    assert find.check("algorithm", Part(name="spiral", options={"arms": 3})) == []
    assert options.spelled_out("algorithm", Part(name="spiral")).options == {
        "arms": 2,
        "down": "3 kB",
        "up": "1 kB",
        "operations": 0.0,
    }
    built = find.build("algorithm", Part(name="spiral", options={"arms": 3}))
    assert (built.arms, built.down, built.learns) == (3, 3000, False)
    assert listing.entry("algorithm", "spiral") == ("", "")
    assert objects.plain(built, {}) == {"name": "spiral", "arms": 3}
    assert {option.name for option in options.of("algorithm", "spiral")[1]} == {"down", "up", "operations", "arms"}
    scenario = {key: value for key, value in yaml.safe_load(STUDY).items() if key != "grid"}
    made = stamp.of(Scenario.model_validate({**scenario, "algorithm": "spiral"}))
    assert {"algorithms.own.spiral", "algorithms.own.spiral.turns", "algorithms.own.spiral.arms"} <= made.modules.keys()
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
    assert lookup.own_folders("algorithms") == []
    assert find.module_of(kind, name) == f"algorithms.{name}"


def test_folders_are_within_reach_for_a_while(lab):
    before = [*sys.path]
    with lookup.within_reach(lab, lab, ROOT):
        assert lookup.own_folders("algorithms") == [lab / "algorithms"]
        assert sys.path.count(str(lab)) == 1
    assert sys.path == before


IMPORTS = """\
{before}
import fedsim
from algorithms.traffic import Traffic
from analysis.quantity import show
assert Traffic.__dataclass_fields__["operations"].default == 0
print("fedsim's")
"""


@pytest.mark.parametrize("form", ["analysis.py", "analysis/__init__.py", "analysis/mine.py"])
def test_after_fedsim_is_imported_its_packages_are_found_and_none_of_the_users(lab, form):
    write(lab, {form: LOUD, "algorithms/__init__.py": LOUD, "script.py": IMPORTS.format(before="")})
    assert python(lab, "script.py") == "fedsim's\n"


def test_a_package_of_the_users_that_was_imported_before_fedsim_is_named_with_the_way_out(lab):
    write(lab, {"analysis/__init__.py": UNRELATED, "script.py": IMPORTS.format(before="import analysis")})
    told = subprocess.run(
        [sys.executable, "script.py"], cwd=lab, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False,
    ).stderr  # fmt: skip
    assert f"{lab / 'analysis' / '__init__.py'} was imported as 'analysis' before fedsim" in told
    assert told.endswith("import fedsim first, or rename yours\n")


def test_of_two_folders_the_one_within_reach_is_loaded(lab, tmp_path):
    for number, name in enumerate(("one", "two")):
        write(tmp_path / name / "algorithms", {"mine.py": MINE.format(name="Mine"), "sizes.py": f"DOWN = {number}\n"})
        with lookup.within_reach(tmp_path / name):
            assert find.build("algorithm", Part(name="mine")).down == number


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
    assert "1 of 3 runs is repeated: " in told
    assert "algorithms/spiral/arms.py has changed since" in told
    assert "2 of 3 runs are finished already" in told


@pytest.mark.long
def test_a_file_that_takes_fedsims_place_or_leaves_it_makes_its_points_run_again(lab):
    text = STUDY.replace("[traffic, spiral, {", "[{name: traffic, down: 20 kB, up: 30 kB}, {")
    write(lab, {"study.yaml": text})
    own = lab / "algorithms" / "traffic.py"
    words = ("-m", "fedsim", "study.yaml", "--jobs", "1", "--no-report")
    aside = own.rename(lab / "aside.py")
    assert "again" not in python(lab, *words)
    aside.rename(own)
    assert "1 of 2 runs is repeated: algorithms/traffic.py has changed since" in python(lab, *words)
    assert "2 of 2 runs are finished already" in python(lab, *words)
    own.unlink()
    assert "1 of 2 runs is repeated: " in python(lab, *words)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A wheel of this project in a folder of its own, made from a copy and without asking another machine."""
    copy, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for folder in lookup.OURS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    offline = ("--no-deps", "--no-index")
    made = (*pip, "wheel", *offline, "--no-build-isolation", "-w", str(copy / "dist"), str(copy))
    subprocess.run(made, check=True, capture_output=True)
    (wheel,) = (copy / "dist").glob("*.whl")
    subprocess.run((*pip, "install", *offline, "--target", str(target), str(wheel)), check=True, capture_output=True)
    return target


@pytest.mark.long
def test_a_wheel_brings_three_packages(installed):
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names - {"bin"} == {*lookup.OURS}
    for name in names & {*lookup.OURS}:
        held = {path.relative_to(installed) for path in (installed / name).rglob("*.py")}
        assert held == {path.relative_to(ROOT) for path in (ROOT / name).rglob("*.py")}


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
    modules = [path.read_text("utf-8") for path in lab.glob("runs/learned/points/*/stamp.json")]
    assert sorted("algorithms.own.fedavg" in text for text in modules) == [False, False, True]
    assert all('"algorithms.fedavg"' in text for text in modules)
