"""Small points that between them take every model, task and codec, and what else computes with tensors.

Algorithms and protocols are those of `test_contract`; attacks, privacy and views are points of `same_points`.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import small_points
import torch
from pretended_gpu import Gpu, pretended_gpu
from small_points import PLAIN, SYNC
from torch import Tensor
from values import client_of, server_state

from fedsim.core.record import Recorder
from fedsim.learn.engine import layout, optimiser, products
from fedsim.point.build.assemble import build
from fedsim.scenario.parts import find

FEW = {"protocol": {**SYNC, "rounds": 2}, "data__stream": "static"}
DRIFTING = {"name": "drifting", "nodes": 48, "edges": 70, "classes": 3, "features": 6, "snapshots": 4}
SNAPSHOTS = {"name": "snapshots", "steps": 4, "every": "1 updates"}
ALL = {**SYNC, "participation": 1.0}
CHANGING: dict[str, Any] = {
    "data": {"dataset": DRIFTING, "partition": "random", "stream": SNAPSHOTS},
    "model": {"name": "roland", "hidden": 4},
    "clients": {"count": 3, "speed": "100 kFLOP/s"},
    "protocol": {**ALL, "rounds": 2},
    "measure": {"metrics": ["accuracy", "micro_f1"], "models": ["global", "local"]},
}
TWICE: dict[str, Any] = {  # two rounds in each period
    **CHANGING,
    "data": {**CHANGING["data"], "stream": {**SNAPSHOTS, "every": "2 updates"}},
    "protocol": {**ALL, "rounds": 4},
}
LINKS: dict[str, Any] = {
    **CHANGING,
    "data": {**CHANGING["data"], "stream": {**SNAPSHOTS, "scored": "links"}},
    "task": {"name": "link_prediction", "negatives": 20},
    "measure": {
        "metrics": ["accuracy", "auc", "average_precision", "mrr"], "models": ["global"],
        "splits": ["test", "val", "across"],
    },
}  # fmt: skip
MEETINGS = {"name": "meetings", "communities": 3, "members": 8, "group": 4, "seconds": 12}
EVENTS: dict[str, Any] = {
    **CHANGING,
    "data": {
        "dataset": MEETINGS, "partition": "louvain",
        "stream": {"name": "snapshots", "patch": 36, "scored": "events", "every": "1 updates"},
    },
    "task": {"name": "event_prediction", "batch": 5},
    "model": {"name": "dygformer", "hidden": 4, "channel": 2, "time": 3, "length": 4},
    "measure": {"metrics": ["accuracy", "auc", "average_precision"], "models": ["global", "local"]},
}  # fmt: skip
NUMBERED = {"name": "static", "numbered": True}
LATER = {"name": "class_incremental", "classes": 2, "every": "2 s", "offset": "uniform(0 s, 1 s)"}
SGD = {
    "optimiser": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3, "local_steps": 3, "clip": 1.0,
    "schedule": "cosine",
}  # fmt: skip
ADAM = {"optimiser": "adam", "lr": 0.05, "weight_decay": 1e-3, "local_steps": 2, "keep_state": False, "clip": 0.5}
ALIGNED = {"name": "dg_colearn", "rounds": 2}
TWO_EDGES = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}


def _of_codecs() -> dict[str, dict[str, Any]]:
    """Each codec on what goes up, and those that need no choice of values also on what comes down."""
    chosen = {name: {"name": name, "share": 0.3} for name in ("rand_k", "top_k")}
    return {
        name: {**FEW, "network__codec": {"up": chosen.get(name, name), "down": None if name in chosen else name}}
        for name in find.names("codec")
    }


MODELS = {name: {"model": {"name": name, "hidden": 4}} for name in find.names("model") if name != "dygformer"}
CODECS = _of_codecs()
LEARNING: dict[str, dict[str, Any]] = {
    "thinned": {**FEW, "data__keep": {"features": 0.5, "edges": 0.7, "labels": 0.8, "fanout": 3}},
    "sgd, clipped, cosine": {**FEW, "training": SGD},
    "adam, decay, forgotten": {**FEW, "training": ADAM},
    "one by one": {**FEW, "cohort": "loop"},
    "split to fit": {**FEW, "cohort": {"memory": "64 KiB"}},
    "trimmed mean": {**FEW, "aggregation": {"name": "trimmed_mean", "trim": 0.3}},
    "median on edges": {
        **FEW, "aggregation": "median", "network__topology": TWO_EDGES,
        "protocol": {"name": "hierarchical", "rounds": 2, "edge_rounds": 2, "participation": 1.0},
    },
    "held out and pooled": {
        **FEW, "data__partition": {"name": "label_skew", "held": 0.2},
        "measure__splits": ["test", "held_out", "pooled", "train"],
    },
    "all periods": {"data__stream": LATER, "measure__splits": ["test", "all_periods"]},
    "fed_gcn, one hop": {**FEW, "algorithm": {"name": "fed_gcn", "hops": 1}, "data__stream": NUMBERED},
    "fed_gcn, two hops": {**FEW, "algorithm": {"name": "fed_gcn", "hops": 2, "norm": "row"}, "data__stream": NUMBERED},
    "fed_gcn, snapshots": {
        **CHANGING, "data": {**CHANGING["data"], "stream": {**SNAPSHOTS, "scored": "split"}}, "algorithm": "fed_gcn",
        "model": {"name": "gcn", "hidden": 4},
    },
    "hardly any nodes": {
        **FEW, "data__dataset": {**PLAIN["data"]["dataset"], "nodes": 12, "degree": 1.0},
        "data__split": {"train": 0.2, "val": 0.4, "test": 0.4}, "clients__count": 8,
    },
    "hardly any links": {
        **LINKS, "clients": {"count": 8, "speed": "100 kFLOP/s"},
        "data": {**LINKS["data"], "dataset": {**DRIFTING, "nodes": 16, "edges": 12}},
    },
    "dg_colearn, nodes that change hands": {
        **TWICE, "algorithm": {**ALIGNED, "exchange": "layerwise"},
        "data": {**TWICE["data"], "partition": {"name": "label_skew", "majors": 1, "each_snapshot": True}},
    },
    "events": EVENTS,
    "events, alone": {**EVENTS, "algorithm": "local"},
    "hardly any events": {
        **EVENTS, "clients": {"count": 9, "speed": "100 kFLOP/s"}, "data": {**EVENTS["data"], "partition": "random"},
    },
    "fed_twp, second derivatives of attention": {
        "algorithm": "fed_twp", "model": {"name": "gat", "hidden": 4}, "protocol": {**SYNC, "rounds": 3},
        "clients": {"count": 2, "speed": "1 GFLOP/s"},
    },
    "dg_colearn, links": {
        **LINKS, "algorithm": ALIGNED, "protocol": {**ALL, "rounds": 4},
        "data": {**LINKS["data"], "stream": {**LINKS["data"]["stream"], "every": "2 updates"}},
    },
    **{
        f"dg_colearn, {how}": {**TWICE, "algorithm": {**ALIGNED, "exchange": how}}
        for how in ("none", "exact", "paper", "full_graph", "fedgcn", "layerwise")
    },
}  # fmt: skip


def sparse_graph(file: Path) -> dict[str, Any]:
    """Write a graph whose features are so sparse that they are stored as such, and return what the point changes."""
    rng = np.random.default_rng(7)
    x = (rng.random((120, 100)) < 0.05).astype(np.float32)
    edges = rng.integers(120, size=(2, 300))
    np.savez(file, x=x, edge_index=edges, y=np.arange(120) % 4)
    return {**FEW, "data__dataset": {"name": "file", "file": str(file)}, "data__keep": {"features": 0.9}}


@contextmanager
def branches_of_a_gpu() -> Iterator[None]:
    """Have the host take the branches that are a GPU's, whose sums are grouped otherwise.

    What a server computes beside its models (`algorithms`) is the host's in either case.
    """
    with ExitStack() as stack:
        stack.enter_context(patch.object(layout.Bucket, "one_by_one", False))
        for function, instead in {
            products.times: lambda rows, dense: rows.tensor().to(dense.dtype) @ dense.detach().contiguous(),
            optimiser._runs: lambda steps: None,
        }.items():
            for name, module in [*sys.modules.items()]:  # wherever the function has been imported
                if name.startswith("fedsim.learn.") and getattr(module, function.__name__, None) is function:
                    stack.enter_context(patch.object(module, function.__name__, instead))
        yield


def learned(device: str, **changes: Any) -> dict[str, bytes]:
    """Run a point, and return all tables, and the arrays of the server's state and the clients' memories by path."""
    scenario, recorder = small_points.scenario(**{**changes, "device": device}), Recorder()
    built = build(scenario, Path(), recorder)
    built.world.env.run(until=built.done)
    built.world.end()
    built.observer.score()
    clients = [client_of(built, number) for number in range(scenario.clients.count)]
    found = dict(arrays([server_state(built), [[client.memory, client.notes] for client in clients]]))
    return found | {name: repr(table.to_pydict()).encode() for name, table in recorder.tables().items()}


def arrays(value: Any, path: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the arrays in a value with their paths; what is derived from a graph is left out."""
    if isinstance(value, Tensor):
        dense = value.detach().to_dense() if value.layout != torch.strided else value.detach()
        yield path, dense.cpu().contiguous().numpy().tobytes()
    elif isinstance(value, np.ndarray):
        yield path, value.tobytes()
    elif isinstance(value, dict):
        for key in value:
            if key != "layout":
                yield from arrays(value[key], f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from arrays(one, f"{path}/{number}")
    elif is_dataclass(value):
        for field in fields(value):
            yield from arrays(getattr(value, field.name), f"{path}/{field.name}")


def check_alike(**changes: Any) -> Gpu:
    """Run a point on the host and on the pretended GPU, and compare tables, states and memories to the last bit."""
    with branches_of_a_gpu():
        host = learned("cpu", **changes)
    with pretended_gpu() as gpu:
        device = learned("cuda", **changes)
    assert [name for name in host.keys() | device.keys() if host.get(name) != device.get(name)] == []
    assert any(name.startswith("/0") for name in host)
    assert 4 * gpu.operations > gpu.on_host  # L-BFGS of a few rows is the host's, in many small steps
    return gpu
