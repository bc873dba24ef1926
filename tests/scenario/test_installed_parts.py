"""Parts of installed packages: named in scenarios, listed with their package, refused without plug-ins, told apart."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_points import PLAIN

ROOT = Path(__file__).resolve().parents[2]
ALGORITHM = '''"""FedAvg whose steps shrink: an algorithm of another package."""

from dataclasses import dataclass

from algorithms.fedavg import FedAvg


@dataclass(frozen=True)
class Shrinking(FedAvg):
    factor: float = 0.5
'''
EFFECT = '''"""Packets are a millisecond late (Doe and Roe, 2020)."""

from dataclasses import dataclass

from fedsim.net.effect import Effect


@dataclass(frozen=True)
class Calm(Effect):
    def shape(self, transfer, rng):
        transfer.jitter += 0.001
'''


def package(place, name, groups, version="1.2"):
    """Lay out an installed package with its record, and return the folder."""
    module = name.replace("-", "_")
    record = place / f"{module}-{version}.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[fedsim.{group}]\n{entries}\n" for group, entries in groups.items()]
    (record / "entry_points.txt").write_text("\n".join(lines))
    inner = place / module
    inner.mkdir()
    (inner / "__init__.py").touch()
    (inner / "shrinking.py").write_text(ALGORITHM)
    (inner / "calm.py").write_text(EFFECT)
    return place


@pytest.fixture
def more(tmp_path):
    groups = {"algorithms": "shrinking = fedsim_more.shrinking", "effects": "calm = fedsim_more.calm"}
    return package(tmp_path / "installed", "fedsim-more", groups)


def fedsim(folder, *words, path):
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, path)]), "COLUMNS": "200"}
    command = [sys.executable, "-m", "fedsim", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)


def scenario(folder, **changes):
    effects = {"effects": [{"name": "calm"}]}
    plain = {**PLAIN, "network": {**PLAIN["network"], **effects}, "grid": {"algorithm": ["fedavg", "shrinking"]}}
    (folder / "small.yaml").write_text(yaml.safe_dump({**plain, **changes}))


def test_a_scenario_names_them_and_the_list_says_whose_they_are(more, tmp_path):
    scenario(tmp_path)
    ended = fedsim(tmp_path, "small.yaml", "--jobs", 1, "--no-report", path=[more])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Shrinking" in ended.stdout
    listed = fedsim(tmp_path, "--list", "algorithm", path=[more]).stdout
    assert "shrinking: FedAvg whose steps shrink: an algorithm of another package (from fedsim-more 1.2)" in listed
    assert "fedavg: " in listed
    assert "factor: " in fedsim(tmp_path, "--list", "algorithm", "shrinking", path=[more]).stdout
    cited = "calm: Packets are a millisecond late (Doe and Roe, 2020) (from fedsim-more 1.2)"
    assert cited in fedsim(tmp_path, "--list", "effect", path=[more]).stdout


def test_without_the_package_or_without_plug_ins_they_are_refused(more, tmp_path):
    scenario(tmp_path)
    ended = fedsim(tmp_path, "small.yaml", "--dry-run", path=[])
    assert ended.returncode == 2
    assert "'shrinking' is not an algorithm" in ended.stderr
    ended = fedsim(tmp_path, "small.yaml", "--dry-run", "--no-plugins", path=[more])
    assert ended.returncode == 2
    assert "'shrinking' would run " in ended.stderr


def test_what_comes_with_fedsim_is_found_first_and_two_of_a_name_are_a_mistake(more, tmp_path):
    scenario(tmp_path)
    groups = {"algorithms": "fedavg = fedsim_other.shrinking"}
    other = package(tmp_path / "other", "fedsim-other", groups)
    ended = fedsim(tmp_path, "--list", "algorithm", "fedavg", path=[more, other])
    assert "factor: " not in ended.stdout
    assert "weight_by: " in ended.stdout
    rival = package(tmp_path / "rival", "fedsim-rival", {"algorithms": "shrinking = fedsim_rival.shrinking"}, "3")
    ended = fedsim(tmp_path, "small.yaml", "--dry-run", path=[more, rival])
    assert ended.returncode == 2
    assert "'shrinking' is offered by fedsim-more 1.2 and by fedsim-rival 3: uninstall one" in ended.stderr


def test_another_distribution_of_the_name_is_told(tmp_path):
    (tmp_path / "fedsim-3.1.dist-info").mkdir()
    (tmp_path / "fedsim-3.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: fedsim\nVersion: 3.1\n")
    told = {}
    for folder in (tmp_path, tmp_path / "empty"):
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [sys.executable, "-c", "import fedsim"], capture_output=True, text=True, check=True, env=environment
        )
        told[folder.name] = done.stderr
    assert "the distribution fedsim 3.1 is another simulator" in told[tmp_path.name]
    assert "uninstall it and fedgraphsim, then install fedgraphsim again" in told[tmp_path.name]
    assert told["empty"] == ""
