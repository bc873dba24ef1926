"""Without the extra `learn`: traffic, its report and calibration work, and what learns says what to install."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fedsim.core.errors import LEARNING, not_installed
from fedsim.point.results.stamp import INSTALLED_AS

ROOT = Path(__file__).parents[2]
BARE = f"import runpy, sys; sys.modules.update(dict.fromkeys({LEARNING}))\n"
BARE += "sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"


def bare(folder, module, *words):
    """Run a module's command where the packages of learning cannot be imported."""
    done = subprocess.run(
        [sys.executable, "-c", BARE, module, *map(str, words)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def traffic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core") / "run"
    scenario = ROOT / "scenarios" / "replay.yaml"
    done = bare(ROOT, "fedsim", scenario, "--jobs", "1", "--out", folder, "--set", "grid.network.model=[fluid]")
    assert done.returncode == 0, done.stderr
    return folder


def test_traffic_is_simulated_and_reported(traffic):
    assert (traffic / "report" / "report.html").stat().st_size > 100_000
    assert (count := len([*traffic.glob("points/*/transfers.parquet")])) > 0
    words = (ROOT / "scenarios" / "replay.yaml", "--status", "--out", traffic, "--set", "grid.network.model=[fluid]")
    assert f"{count} done" in bare(ROOT, "fedsim", *words).stdout


def test_calibration_fits_a_run(traffic, tmp_path):
    (point, *_) = sorted(traffic.glob("points/*"))
    done = bare(ROOT, "fedsim.calibrate", point, "--out", tmp_path / "clients.csv")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "clients.csv").read_text().startswith("client,")


@pytest.mark.parametrize(
    "words",
    [
        ["scenarios/sparse_clients.yaml"], ["scenarios/sparse_clients.yaml", "--dry-run"], ["--demo"],
        ["--try", "fedavg"], ["--list", "model", "gcn"],
    ],
)  # fmt: skip
def test_what_learns_says_once_what_to_install(words, tmp_path):
    done = bare(ROOT, "fedsim", *words, *([] if words[0] == "--list" else ["--out", tmp_path / "x"]))
    assert done.returncode == 2
    assert done.stderr.count('pip install "fedgraphsim[learn]"') == 1
    assert done.stderr.startswith("fedsim: learning needs ")
    assert not (tmp_path / "x").exists()


def test_the_extra_installs_what_the_message_is_about():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["learn"]
    assert {Requirement(line).name.lower() for line in extra} == {
        INSTALLED_AS.get(name, name).lower() for name in LEARNING
    }


@pytest.mark.parametrize(("name", "says"), [("torch", True), ("torch.nnn", False), ("mylab", False), (None, False)])
def test_a_module_that_an_installed_package_has_not_is_another_mistake(name, says):
    assert bool(not_installed(ModuleNotFoundError(name=name))) is says
