"""Small points of a synthetic graph that run in a tenth of a second, for tests of whole runs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.core.record import Recorder
from fedsim.point.run import run
from fedsim.scenario.schema import Point, Scenario

TABLES = ("transfers", "updates", "spans", "arrivals", "partitions", "scores")
EFFECTS = [
    {"name": "churn", "online": "6 s", "offline": "2 s"},
    {"name": "dropout", "rate": "0.15/s"},
    {"name": "loss", "rate": "1 %"},
]
SYNC = {"name": "sync", "rounds": 5, "participation": 0.6}
PLAIN: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "data": {
        "dataset": {"name": "synthetic", "nodes": 160, "classes": 4, "features": 10, "degree": 4.0},
        "partition": "random",
        "split": {"train": 0.4, "val": 0.2, "test": 0.4},
        "stream": {"name": "class_incremental", "classes": 2, "every": "2 updates"},
    },
    "model": {"name": "gcn", "hidden": 6},
    "training": {"optimiser": "adam", "lr": 0.05, "local_steps": 2},
    "clients": {"count": 5, "speed": "lognormal(100 kFLOP/s, 0.5)"},
    "network": {
        "latency": "50 ms",
        "uplink": "lognormal(4 Mbit/s, 0.5)",
        "downlink": "20 Mbit/s",
        "server": {"ingress": "10 Mbit/s", "egress": "100 Mbit/s"},
    },
    "protocol": SYNC,
    "algorithm": "fedavg",
    "measure": {"metrics": ["accuracy", "macro_f1"], "models": ["global", "local"], "splits": ["test", "val"]},
    "device": "cpu",
}

# What a small run needs to stay small; an algorithm that is not here runs with its defaults.
CHEAPER: dict[str, dict[str, Any]] = {
    "power": {"rebuild_steps": 8},
    "fed_dslr": {"structure_steps": 6},
    "fedsage_plus": {"generator_epochs": 2, "encoder": 6, "latent": 5, "narrow": 6, "wide": 8},
    "fed_pub": {"proxy_blocks": 1},
    "feddgl": {"epochs": 4},  # longer training meets kinks of its rectifier, which blow rounding up
    "ghost": {"repeats": 1, "server_steps": 2},
    "oasis": {"codes": 5, "server_epochs": 2, "teacher_steps": 5},
    "fens": {"aggregator_rounds": 2, "width": 6},
    "fed_sd2c": {"latent": 4, "width": 6, "latent_steps": 3, "server_epochs": 3},
    "fed_nova": {"least": 1},
    "o_pfgl": {"surrogate_steps": 60, "first_steps": 20, "check": 10},
    "fed_tad": {"nodes": 12, "iterations": 1, "model_steps": 2, "walk": 2},
    "fed_cvae": {"hidden": 8, "latent": 4, "server_steps": 3},
    "dg_colearn": {"exchange": "none"},  # nothing is cut of a graph that does not change
    "fed_gcn": {"hops": 0},  # likewise
    "llcg": {"corrections": 0},  # of graphs whose cut edges nobody knows
    "glfc": {"rebuild_steps": 2, "restarts": 0},
    "target": {"rounds": 2, "inner_steps": 1, "batch": 8, "warm_up": 1, "student_steps": 1, "noise": 4},
    "lander": {
        "rounds": 3,
        "inner_steps": 1,
        "batch": 8,
        "warm_up": 2,
        "student_steps": 1,
        "anchor_size": 5,
        "kd": 0.1,
    },
}


def scenario(**changes: Any) -> Scenario:
    """The small scenario with keys changed; `network__effects=...` reaches inside a section."""
    plain = {key: dict(value) if isinstance(value, dict) else value for key, value in PLAIN.items()}
    for key, value in changes.items():
        section, _, inner = key.partition("__")
        if inner:
            plain[section][inner] = value
        else:
            plain[section] = value
    return Scenario.model_validate(plain)


def point(**changes: Any) -> Point:
    (only,) = scenario(**changes).points()
    return only


def run_in(folder: Path, **changes: Any) -> dict[str, Any]:
    """Run the point and return its row; its files are in the folder, which is made."""
    folder.mkdir(parents=True)
    return run(point(**changes), folder, folder, lambda progress: None)


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES}


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / f"{name}.parquet").to_pylist())


def rows(recorder: Recorder, name: str) -> list[dict[str, Any]]:
    table: pa.Table = recorder.tables()[name]
    return list(table.to_pylist())


def run_tables(folder: Path, **changes: Any) -> dict[str, list[dict[str, Any]]]:
    """Run the point and return the rows of its tables."""
    run_in(folder, **changes)
    return {name: table(folder, name) for name in TABLES}
