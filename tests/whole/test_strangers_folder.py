"""In a stranger's folder no code of that folder runs: neither here, nor in workers, nor in what git starts."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from scenario_texts import SMALL
from small_plan import OFFICE, PLAN
from small_points import PLAIN
from small_sweeps import table

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "import sys\nfrom fedsim.__main__ import main\n\nif __name__ == '__main__':\n    sys.exit(main())\n"
LOADED = """
import sys
import multiprocessing.resource_tracker, multiprocessing.spawn
import algorithms.fedavg, fedsim.point.build.learning, fedsim.point.run, fedsim.sweep.engines.local
print(*{name.partition(".")[0] for name in sys.modules})
"""
WORKERS = """
import sys
from fedsim.scenario.schema import Scenario
from fedsim.sweep.engines.local import Local
from jobs import known

if __name__ == "__main__":
    import yaml
    points = [*Scenario.model_validate(yaml.safe_load(sys.argv[1]) | {"grid": {"seed": [1, 2]}}).points()]
    with Local(2, prepare="json") as engine:
        for _, path in engine.work(points, known, lambda *_: None):
            assert path == sys.path, path
    print("all alike")
"""
JOBS = "import sys\n\n\ndef known(point, report):\n    return sys.path\n"


@cache
def loaded():
    """The names of all modules that a run, its workers and multiprocessing's own processes load."""
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    return {*done.stdout.split(), "sitecustomize", "usercustomize", "ray"} - {"__main__"}


def trap(there, names):
    """Write a module of every name that leaves a mark when it runs."""
    for name in names:
        (there / f"{name}.py").write_text(f"open({str(there.parent / 'ran' / name)!r}, 'w').close()\n")


@pytest.fixture
def traps(tmp_path):
    """A folder with a module of the name of each of Python's own; none of them may have run at the end."""
    for name in ("there", "ran"):
        (tmp_path / name).mkdir()
    trap(tmp_path / "there", sys.stdlib_module_names)
    yield tmp_path / "there"
    assert [path.name for path in (tmp_path / "ran").iterdir()] == []


@pytest.fixture
def folder(traps):
    """The same with modules of all names that are loaded, a scenario, a plan, and a repository that names a program."""
    trap(traps, loaded())
    (traps / "small.yaml").write_text(yaml.safe_dump({**PLAIN, "grid": {"seed": [1, 2]}}))
    (traps.parent / "plan").mkdir()
    (traps.parent / "plan" / "plan.yaml").write_text(PLAN)
    (traps.parent / "plan" / "office.yaml").write_text(OFFICE)
    if git := shutil.which("git"):
        own = [git, "-C", traps, "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], ["add", "small.yaml"], ["commit", "-qm", "all"]):
            subprocess.run([*own, *words], check=True)
        mark = traps.parent / "ran" / "git"
        subprocess.run([*own, "config", "filter.trap.clean", f"touch '{mark}'; cat"], check=True)
        (traps / ".git" / "info" / "attributes").write_text("* filter=trap\n")
        os.utime(traps / "small.yaml", (1, 1))  # as if it had been unpacked
    return traps


def run(there, *words):
    """Run Python in the folder, as an installed command is run: its path begins with the folder of the command."""
    variables = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [sys.executable, *words], cwd=there, env={**variables, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def installed(there, text):
    """Write a command into a folder of commands and return its path."""
    path = there.parent / "bin" / "command"
    path.parent.mkdir()
    path.write_text(text)
    (path.parent / "jobs.py").write_text(JOBS)
    return path


def test_workers_begin_without_the_working_folder_and_then_search_where_this_process_does(traps):
    assert run(traps, installed(traps, WORKERS), SMALL) == "all alike\n"


def test_workers_find_what_is_run_from_the_working_folder_alone(tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "own.py").write_text(WORKERS)
    assert run(tmp_path, "-m", "own", SMALL) == "all alike\n"


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_sweep_without_plugins_runs_nothing_of_the_working_folder(folder, engine):
    if engine == "ray":
        pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')
    words = ["small.yaml", "--no-plugins", "--jobs", "2", "--engine", engine, "--out", "out"]
    run(folder, installed(folder, COMMAND), *words)
    assert [row["status"] for row in table(folder / "out")] == ["done", "done"]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_the_reference_table_runs_nothing_of_the_working_folder_if_python_leaves_it_out(folder, engine):
    if engine == "ray":
        pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')
    plan = ["--plan", folder.parent / "plan" / "plan.yaml", "--only", "office/small/static/prox/sync/given"]
    shown = run(folder, "-P", "-m", "fedsim.reference", *plan, "--jobs", "2", "--engine", engine)
    assert "2 cells in docs/reference" in shown
