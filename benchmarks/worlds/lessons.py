"""Draw what a world learns: nothing (traffic), a small graph that stands, or one that changes."""

from random import Random
from typing import Any

Part = dict[str, Any]
COHORTS: list[Any] = [
    "fedavg", {"name": "fedavg", "aggregation": "median"}, {"name": "fedavg", "aggregation": "trimmed_mean"},
    {"name": "fedavg", "weight_by": "train"}, "fedprox", {"name": "fedprox", "mu": 0.0}, "scaffold", "fed_nova",
    {"name": "fed_nova", "least": 1}, "fed_proto", {"name": "fed_proto", "average": True}, "fed_pub", "fedgta",
    {"name": "fedgta", "moments": 2}, "fgssl", "fed_twp", "fed_ergnn", {"name": "fed_ergnn", "beta": 0.0}, "power",
    {"name": "power", "transfer": False}, {"name": "power", "preset": "official", "beta": 1.0}, "fed_ego", "local",
    {"name": "fed_tad", "iterations": 1, "nodes": 8},
    {"name": "fed_cvae", "server_steps": 3, "latent": 2, "hidden": 4}, {"name": "fens", "aggregator_rounds": 2},
    {"name": "fed_sd2c", "latent_steps": 3, "server_epochs": 2, "width": 4, "latent": 2},
    {"name": "fed_dslr", "structure_steps": 2}, "fed_gcn", {"name": "fed_gcn", "hops": 0}, "ghost",
    {"name": "ghost", "use_fgw": False},
    {"name": "fedsage_plus", "generator_epochs": 2, "encoder": 4, "latent": 4, "narrow": 4, "wide": 8},
    "d_fedgnn",
]  # fmt: skip
SINGLE = [each for each in COHORTS if each not in ("fed_gcn", {"name": "fed_gcn", "hops": 0})]
CHANGING: list[Any] = [
    {"name": "dg_colearn", "rounds": 2}, {"name": "dg_colearn", "rounds": 2, "exchange": "none"},
    {"name": "dg_colearn", "rounds": 2, "exchange": "full_graph", "retrain": "full"}, "feddgl", "feddgl",
    "fedavg", "fedprox", "power",
]  # fmt: skip
PARTITIONS: list[Any] = [
    "random", "random", {"name": "dirichlet", "alpha": 0.3}, "louvain", {"name": "label_skew", "majors": 1},
]  # fmt: skip
EVOLVING = ("gcn", "roland", "evolve_gcn_o", "gcrn_gru", "evolve_gcn_h")
PEERS: list[Any] = ["d_fedgnn", "d_fedgnn", {"name": "d_fedgnn", "masking": True}, "fedavg", "fedprox", "local"]
PRIVACY: list[Part] = [
    {"clip": 1.0}, {"clip": 0.01, "noise": 1.0}, {"clip": 1e6, "noise": 0.0, "secure_aggregation": True},
    {"secure_aggregation": True}, {"secure_aggregation": {"neighbours": 2, "threshold": 0.5, "bits": 64}},
    {"secure_aggregation": {"neighbours": 4, "threshold": 1.0}},
]  # fmt: skip
PRIVATE = ["fedavg", "fedprox", "fed_ergnn", "fgssl", {"name": "power", "transfer": False}]


def lesson(rng: Random, protocol: str, sizes: list[str]) -> Part:
    """Return the sections of a scenario that say what is learned."""
    kind = rng.random()
    if kind < 0.5:
        return {"algorithm": {
            "name": "traffic", "down": rng.choice(sizes), "up": rng.choice(sizes),
            "operations": rng.choice([0, 1, 2e8, 1e12]),
        }}  # fmt: skip
    found = _changing(rng, protocol) if kind > 0.87 else _standing(rng, protocol)
    every = rng.choice(["1 updates", "1 updates", "2 updates", "3 s"])
    measure: Part = {"every": every, "models": rng.choice([["global"], ["global", "local"]])}
    measure |= rng.choice([{}, {"metrics": ["accuracy", "macro_f1"]}, {"splits": ["test", "val"]}, {"target": 0.5}])
    if kind <= 0.87 and rng.random() < (0.3 if protocol in ("sync", "deadline") else 0.02):
        found |= {"privacy": rng.choice(PRIVACY), "algorithm": rng.choice(PRIVATE)}
    return {"measure": measure, "cohort": rng.choice(["union", "union", "loop"]), **found}


def _standing(rng: Random, protocol: str) -> Part:
    nodes = rng.choice([30, 60, 120, 200])
    dataset = {
        "name": "synthetic", "nodes": nodes, "classes": rng.choice([2, 3, 4]),
        "features": rng.choice([1, 4, 12]), "degree": rng.choice([0.5, 3.0, 6.0]),
    }  # fmt: skip
    return {
        "data": {
            "dataset": dataset, "stream": _stream(rng),
            "partition": rng.choice(PARTITIONS),
            "split": rng.choice([
                {"train": 0.4, "val": 0.2, "test": 0.4}, {"train": 0.05, "val": 0.0, "test": 0.95},
                {"train": 0.5, "val": 0.2, "test": 0.3, "by": "client"}, {"train": 1.0, "val": 0, "test": 0},
            ]),
            "keep": rng.choice([{}, {}, {"edges": 0.01}, {"features": 0.5, "labels": "30 %"}, {"fanout": 1}]),
        },
        "model": rng.choice([
            {"name": "gcn", "hidden": 4}, {"name": "gcn", "hidden": 1}, {"name": "gat", "hidden": 4},
            {"name": "sage", "hidden": 3}, {"name": "mlp", "hidden": 4}, {"name": "gcn", "hidden": 4, "dropout": 0.5},
        ]),
        "training": _training(rng),
        "algorithm": rng.choice({"gossip": PEERS, "sync": COHORTS, "deadline": COHORTS}.get(protocol, SINGLE)),
    }  # fmt: skip


def _changing(rng: Random, protocol: str) -> Part:
    links = rng.random() < 0.3
    stream: Part = {"name": "snapshots", "steps": 4, "every": rng.choice(["1 updates", "2 updates", "3 s"])}
    found: Part = {
        "data": {
            "dataset": {
                "name": "drifting", "nodes": rng.choice([80, 160]), "edges": 200, "classes": 3, "features": 4,
                "snapshots": 4, "growth": rng.choice([0.0, 0.3]), "removal": rng.choice([0.0, 0.5]),
            },
            "partition": rng.choice(["random", "louvain", "colearn"]), "stream": stream,
        },
        "model": {"name": rng.choice(EVOLVING), "hidden": 4},
        "training": _training(rng),
        "algorithm": rng.choice(CHANGING if protocol in ("sync", "deadline") else ["fedavg", "fedprox", "feddgl"]),
    }  # fmt: skip
    if links:
        stream["scored"] = "links"
        found |= {"task": "link_prediction", "measure": {"metrics": ["average_precision", "mrr"]}}
    return found


def _stream(rng: Random) -> Any:
    every = rng.choice(["1 updates", "2 updates", "2 s", "poisson(3 s)", "1 ms"])
    timed = {"name": "class_incremental", "classes": rng.choice([1, 2]), "every": every}
    if every.endswith(" s") and rng.random() < 0.5:
        timed["offset"] = "uniform(0 s, 4 s)"
    if rng.random() < 0.3:
        timed["edges"] = "kept"
    return rng.choice(["static", timed, timed])


def _training(rng: Random) -> Part:
    return rng.choice([
        {"optimiser": "adam", "lr": 0.05, "local_steps": 2}, {"optimiser": "sgd", "lr": 0.1},
        {"optimiser": "sgd", "lr": 1e18, "local_steps": 2}, {"optimiser": "sgd", "lr": 0.1, "momentum": 0.9},
        {"optimiser": "adam", "lr": 0.01, "weight_decay": 5e-4, "clip": 0.1, "schedule": "cosine", "local_steps": 3},
    ])  # fmt: skip
