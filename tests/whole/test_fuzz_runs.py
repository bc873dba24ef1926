"""Scenarios and tables that were changed, and pass the checks, are really run: each ends well, or is told why not.

Scenarios are shipped ones of little work (`mutations.tiny`) with values made others of their kind, so that half of them
run (one of each; with HYPOTHESIS_PROFILE=full two); those that would be much work are left out
(`mutations.affordable`).  What a run may do is in `bounded_runs`.
"""

import random
import shutil
from collections import Counter
from importlib.util import find_spec

import bounded_runs
import homes
import numpy as np
import pytest
from mutations import FULL, ROOT, affordable, bent, tiny, torn

from fedsim.data.files import published
from fedsim.scenario.text import yaml_text
from fedsim.sweep.arguments import LOGGERS

pytestmark = pytest.mark.long

LISTS = ("connections", "hospitals", "replay")  # name their clients in a table, which a smaller scenario lacks
SCENARIOS = [path for path in sorted((ROOT / "scenarios").glob("*.yaml")) if path.stem not in LISTS]
RUN, TRIED = (2 if FULL else 1), 60  # changed scenarios of each that must run, and that are tried for it
PLAIN = ["--jobs", "1", "--no-report", "--out", "out"]
TABLES = {
    "clients.csv": "client,rtt_ms,jitter_ms,loss_up,loss_down,gflops\n0,40,0,0.02,0,1\n1,80,10,0,0.01,2\n2,5,1,0,0,3\n",
    "rates.csv": "client,time_s,uplink_mbps,downlink_mbps\n0,0,5,20\n0,60,0,\n1,30,,2.5\n",
    "online.csv": "client,on_s,off_s\n0,0,10\n0,20,30\n1,5,50\n",
    "chances.csv": "client,rate\n0,0.5\n1,0.9\n2,0.1\n",
    "transfers.csv": "start_s,client,direction,bytes\n0,0,up,400\n0.1,0,up,900\n0.5,1,down,700\n7,1,up,0\n",
    "events.csv": "source,destination,timestamp\n" + "".join(f"{i % 7},{i * 3 % 11},{i}.5\n" for i in range(60)),
}
LINKS = {"latency": "1 ms", "uplink": "1 Mbit/s", "downlink": "2 Mbit/s"}
TRACE = {"name": "trace", "rates": "rates.csv"}
LEARNS = {
    "model": {"name": "gcn", "hidden": 3}, "training": {"optimiser": "sgd", "lr": 0.1},
    "network": LINKS, "device": "cpu", "protocol": {"name": "sync", "rounds": 3, "participation": 0.8},
    "algorithm": "fedavg", "clients": {"count": 2, "speed": "1 GFLOP/s"},
}  # fmt: skip
WITH_TABLES = {
    "asked": {
        "clients": {"count": 3, "table": "clients.csv", "sampler": {"name": "rates", "table": "chances.csv"}},
        "network": {**LINKS, "effects": [TRACE, {"name": "churn", "table": "online.csv", "unlisted": "online"}]},
        "protocol": {"name": "sync", "rounds": 3, "clients": 2}, "measure": {"until": "100 s"},
        "algorithm": {"name": "traffic", "down": "9 kB", "up": "1 B"},
    },
    "replayed": {
        "clients": {"count": 3, "table": "clients.csv"}, "network": LINKS,
        "protocol": {"name": "replay", "transfers": "transfers.csv"}, "measure": {"until": "100 s"},
    },
    "events": LEARNS | {
        "data": {
            "dataset": {"name": "tgb", "file": "events.csv"}, "partition": "random",
            "stream": {"name": "snapshots", "steps": 3, "every": "1 updates", "scored": "links"},
        },
        "task": "link_prediction", "measure": {"metrics": ["average_precision"]},
    },
    "arrays": LEARNS | {
        "data": {
            "dataset": {"name": "star_arrays", "file": "arrays.npz"}, "partition": "random",
            "stream": {"name": "snapshots", "steps": 4, "every": "1 updates"},
        },
    },
}  # fmt: skip
CUTS = {"asked": 15, "replayed": 15, "events": 8, "arrays": 8}  # how often a table of each is changed


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory):
    """One run of each kind: what libraries leave behind when they are first loaded is no run's doing."""
    home = tmp_path_factory.mktemp("warm") / "home"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cora_continual", "dgcolearn_table1", "private"):
            patch.setattr(bounded_runs, "watched", bounded_runs.unwatched)
            settle(home / name, patch)
            write(home / name, tiny(ROOT / "scenarios" / f"{name}.yaml", random.Random(0)))
            bounded_runs.run(["changed.yaml", *PLAIN], home / name, home / name / "out", name)


@pytest.fixture
def home(tmp_path, monkeypatch):
    return settle(tmp_path / "home", monkeypatch)


def settle(home, monkeypatch):
    """A home of its own, from which no data set can be fetched: what FEDSIM_DATA lacks is told."""
    home.mkdir(parents=True)
    homes.move(monkeypatch, home)
    monkeypatch.setattr(published, "fetch", unreachable)
    return home


def unreachable(url, path):
    raise OSError("tests fetch nothing")


def write(home, data):
    (home / "changed.yaml").write_bytes(yaml_text.text_of(data).encode("utf-8", "surrogatepass"))


def ends(home, shown, number):
    """The exit code of a run of the changed scenario, with results of its own."""
    out = home / f"out{number}"
    return bounded_runs.run(["changed.yaml", *PLAIN[:-1], str(out)], home, out, shown).code


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_changed_scenarios_run_or_are_refused_with_a_reason(path, home):
    draw, codes = random.Random(path.stem), Counter()
    for module in path.parent.glob("*.py"):  # what scenarios name
        shutil.copy(module, home)
    for number in range(TRIED):
        data = bent(tiny(path, draw), draw)
        if affordable(data) and codes[0] < RUN:
            write(home, data)
            codes[ends(home, yaml_text.text_of(data), number)] += 1
    assert codes[0] == RUN


@pytest.mark.parametrize("name", WITH_TABLES)
def test_runs_with_changed_tables_end_well_or_are_refused_with_a_reason(name, home):
    arrays = {"adjs": np.ones((4, 9, 9)), "attmats": np.ones((9, 4, 2)), "labels": np.eye(9)[:, :3]}
    for table, text in TABLES.items():
        (home / table).write_text(text)
    np.savez(home / "arrays.npz", **arrays)
    write(home, {"name": "tables", **WITH_TABLES[name]})
    assert ends(home, name, "whole") == 0
    draw, codes = random.Random(name), Counter()
    files = [table for table in [*TABLES, "arrays.npz"] if table in yaml_text.text_of(WITH_TABLES[name])]
    for number in range(CUTS[name]):
        file = home / draw.choice(files)
        whole = file.read_bytes()
        if file.suffix == ".npz":
            np.savez(file, **{key: odd_array(array, draw) for key, array in arrays.items()})
        else:
            file.write_bytes(torn(whole.decode(), draw).encode("utf-8", "surrogatepass"))
        codes[ends(home, file.read_bytes(), number)] += 1
        file.write_bytes(whole)
    assert codes[0]
    assert codes[2]


def odd_array(array, draw):
    """An array as it is, or with numbers, a shape or a type that it should not have."""
    if draw.random() < 0.5:
        return array
    array = array.copy()
    match draw.randrange(6):
        case 0:
            array.flat[draw.randrange(array.size)] = draw.choice([np.nan, np.inf, -1, 1e300, 7])
        case 1:
            array = array[: draw.randrange(len(array))]
        case 2:
            array = array.astype(draw.choice([np.int8, np.complex64, str, bool, np.float16]))
        case 3:
            array = array.reshape(-1)
        case 4:
            array = array * 0
        case 5:
            array = array[..., : draw.randrange(array.shape[-1])]
    return array


def test_reports_and_loggers_write_into_the_folder_of_results_alone(home):
    several = {"algorithm": ["fedavg", "fedprox"]}  # a single method is not ranked
    write(home, tiny(ROOT / "scenarios" / "private.yaml", random.Random(0)) | {"name": "said", "grid": several})
    loggers = [name for name in LOGGERS if find_spec(name)]
    words = ["changed.yaml", "--jobs", "1", "--trace", *(word for name in loggers for word in ("--log", name))]
    assert bounded_runs.run(words, home, home / "runs" / "said", loggers).code == 0
    left = {path.name for path in (home / "runs" / "said").rglob("*")}
    assert {"report.html", "runs.csv", "ranking.svg", "trace.json.gz"} <= left
