"""What fedsim needs of a system: it can be imported, run and refused where POSIX's modules and METIS are missing."""

import ast
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """
name: cut
data: {dataset: {name: synthetic, nodes: 200}, partition: metis}
model: {name: gcn, hidden: 4}
training: {optimiser: sgd, lr: 0.1}
clients: {count: 2, speed: 1 GFLOP/s}
network: {latency: 1 ms, uplink: 1 Mbit/s, downlink: 1 Mbit/s}
protocol: {name: sync, rounds: 1, clients: 2}
algorithm: fedavg
device: cpu
"""
BARE = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None  # as where there is no such module
"""
IMPORT = """
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
COMMAND = """
from fedsim.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
POSIX = "fcntl,resource,pwd,grp,termios,pty,tty,posix"
OWN = ("fedsim", "algorithms", "analysis")


def modules():
    for package in OWN:
        for path in sorted((ROOT / package).rglob("*.py")):
            steps = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(steps[:-1] if steps[-1] in ("__init__", "__main__") else steps)


def bare(code, *words, without="pymetis", cwd=ROOT):
    """Run code in a Python that lacks modules, and return how it has ended."""
    return subprocess.run(
        [sys.executable, "-c", BARE + code, without, *map(str, words)],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_every_module_can_be_imported_without_posix_and_without_metis():
    names = sorted({*modules()} - {"fedsim.deploy.flower"})  # which needs Flower
    assert len(names) > 300
    done = bare(IMPORT, *names, without="fcntl,resource,pymetis")
    assert done.returncode == 0, done.stderr


def test_no_module_names_what_posix_alone_has():
    found = []
    for package in OWN:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                names += [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
                found += [f"{path.name}: {name}" for name in names if name in [*POSIX.split(","), *ONLY_THERE]]
    assert found == []


ONLY_THERE = [  # of `os` and `signal`; see their documentation's "Availability"
    *(f"os.{name}" for name in (
        "fork", "forkpty", "kill", "killpg", "getuid", "geteuid", "getgid", "chown", "mkfifo", "nice", "getloadavg",
        "sched_getaffinity", "uname", "wait", "waitpid", "setsid", "getpgid", "link", "O_DIRECTORY", "O_NOFOLLOW",
    )),
    *(f"signal.{name}" for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "alarm", "setitimer")),
]  # fmt: skip


def test_every_text_that_is_opened_names_its_encoding():
    found = []
    for package in OWN:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _reads_locale(node):
                    found.append(f"{path.name}, line {node.lineno}: {ast.unparse(node)}")
    assert found == []


def _reads_locale(call):
    """Whether a call opens a text without an encoding, so that it would be read as the system's locale says."""
    name, said = call.func.attr, [ast.unparse(argument) for argument in call.args]
    said += [f"{word.arg}={ast.unparse(word.value)}" for word in call.keywords]
    if any("encoding=" in word or "utf-8" in word for word in said):
        return False
    if name == "open" and ast.unparse(call.func) not in ("pa.ipc.open", "zipfile.open", "gzip.open", "os.open"):
        return any(word.strip("'") in ("r", "w", "a", "r+", "w+", "a+") for word in said)
    return name in ("read_text", "write_text")


@pytest.mark.long
def test_metis_without_pymetis_is_one_message_with_the_mend_before_anything_runs(tmp_path):
    (tmp_path / "cut.yaml").write_text(SCENARIO, encoding="utf-8")
    done = bare(COMMAND, "cut.yaml", "--jobs", 1, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    needs = 'needs pymetis, which is not installed: pip install "fedgraphsim[metis]"'
    assert f"cut.yaml, line 3: data.partition: {needs}" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_louvain_is_the_default_and_runs_where_posix_and_metis_are_missing(tmp_path):
    (tmp_path / "cut.yaml").write_text(SCENARIO.replace(", partition: metis", ""), encoding="utf-8")
    done = bare(
        COMMAND, "cut.yaml", "--jobs", 2, "--no-report", "--set", "grid.seed=[0,1]", cwd=tmp_path,
        without="resource,pymetis",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "runs" / "cut").glob("points/*/row.json")]
    assert [row["status"] for row in rows] == ["done", "done"]
    assert not [*(tmp_path / "runs" / "cut").glob(".*")]


SPAWNED = """
import multiprocessing
import sys
from pathlib import Path
import fake_runs, yaml
from fedsim.sweep.engines.local import Local
from fedsim.scenario.schema import Scenario
from fedsim.sweep.runner import Sweep
from small_sweeps import Listener
from scenario_texts import SMALL

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    fake_runs.FILES = ()  # a worker that is a copy of this process would write no file
    root = Path(sys.argv[1])
    points = [*Scenario.model_validate(yaml.safe_load(SMALL) | {"grid": {"seed": [1, 2]}}).points()]
    with Local(2, "fake_runs") as engine:
        rows = Sweep(points, SMALL, root / "runs", root).run(fake_runs.run, engine, Listener())
    print([row["status"] for row in rows], len([*root.glob("runs/points/*/transfers.parquet")]))
"""


@pytest.mark.long
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_are_spawned_and_inherit_nothing_whatever_the_system_does(method, tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED, encoding="utf-8")
    paths = os.pathsep.join([str(ROOT / "tests" / "support"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), method],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "['done', 'done'] 2", done.stderr
