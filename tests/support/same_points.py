"""Small points that between them take every protocol and most of what changes a message, for `test_same_tables`.

They set every section themselves, so that no change to `small_points` changes what was recorded of them.  Data are
drawn by the point: nothing is read from FEDSIM_DATA.
"""

from typing import Any

REPLAY = "start_s,client,direction,bytes\n" + "".join(
    f"{start},{client},{'up' if client % 2 else 'down'},{(client + 1) * 90_000}\n"
    for client, start in enumerate([0, 0, 0.1, 0.3, 0.3, 2, 2.5])
)  # the table of the point `replay`, at the place REPLAY_FILE
REPLAY_FILE = "{folder}/replay.csv"

CLIENTS = {"count": 5, "speed": "lognormal(100 kFLOP/s, 0.5)"}
NETWORK: dict[str, Any] = {
    "latency": "lognormal(50 ms, 0.4)",
    "uplink": "lognormal(4 Mbit/s, 0.5)",
    "downlink": "20 Mbit/s",
    "server": {"ingress": "10 Mbit/s", "egress": "100 Mbit/s"},
}
LEARNING: dict[str, Any] = {
    "seed": 11,
    "data": {
        "dataset": {"name": "synthetic", "nodes": 160, "classes": 4, "features": 10, "degree": 4.0},
        "partition": "random",
        "split": {"train": 0.4, "val": 0.2, "test": 0.4},
        "stream": {"name": "class_incremental", "classes": 2, "every": "2 updates"},
    },
    "model": {"name": "gcn", "hidden": 6},
    "training": {"optimiser": "adam", "lr": 0.05, "local_steps": 2},
    "clients": CLIENTS,
    "network": NETWORK,
    "protocol": {"name": "sync", "rounds": 5, "participation": 0.8},
    "algorithm": "fedavg",
    "measure": {
        "metrics": ["accuracy", "macro_f1"],
        "models": ["global", "local"],
        "splits": ["test", "val"],
        "over": "clients",
    },
}
TRAFFIC: dict[str, Any] = {
    "seed": 12,
    "data": None,
    "model": None,
    "clients": {"count": 200, "speed": "lognormal(2 GFLOP/s, 0.8)"},
    "network": {
        "profile": {"fibre": 0.2, "cable": 0.3, "lte": 0.4, "iot": 0.1},
        "server": {"ingress": "1 Gbit/s", "egress": "1 Gbit/s"},
        "effects": [{"name": "churn", "online": "2 min", "offline": "1 min"}],
    },
    "protocol": {"name": "sync", "rounds": 5, "participation": 0.3},
    "algorithm": {"name": "traffic", "down": "1 MB", "up": "500 kB", "operations": 10e9},
    "training": None,
    "measure": {},
}

CHURN = {"name": "churn", "online": "6 s", "offline": "2 s"}
STORM = [CHURN, {"name": "dropout", "rate": "0.15/s"}, {"name": "loss", "rate": "1 %"}]
NOISE = {"name": "byzantine", "attack": "noise", "share": 0.4}
FLIP = {"name": "byzantine", "attack": "sign_flip", "share": 0.4, "factor": 3.0}
RESTART = {"name": "restart", "every": "3 s", "length": "1 s", "checkpoint": 2}
TWICE = {"name": "restart", "at": ["900 ms", "2 s"], "length": "300 ms"}
UNDONE = {"name": "restart", "at": ["2 s", "3500 ms"], "length": "300 ms", "checkpoint": 3}
TREE = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}
PEERS = {"name": "peers", "graph": "ring"}
WIDE = {"ingress": "1 Gbit/s", "egress": "1 Gbit/s"}  # where a cohort is asked in one wave
SYNC = {"name": "sync", "rounds": 5, "participation": 1.0}
DEADLINE = {"name": "deadline", "rounds": 5, "clients": 3, "wait": "2 s", "over": 1.4}
BUFFERED = {"name": "buffered", "rounds": 6, "clients": 4, "buffer": 2}
LATE = {"name": "one_shot", "enough": 0.6, "late": "fold", "retry": True}
GOSSIP = {"name": "gossip", "rounds": 3}
EDGES = {"name": "hierarchical", "rounds": 3, "edge_rounds": 2, "participation": 1.0}
OWN_CLOCK = {"name": "class_incremental", "classes": 2, "every": "1 s", "offset": "uniform(0 s, 1 s)"}
ALL_PERIODS = ["test", "all_periods"]
CHANGING: dict[str, Any] = {
    "data": {
        "dataset": {"name": "drifting", "nodes": 80, "edges": 120, "classes": 3, "features": 5, "snapshots": 4},
        "partition": "random",
        "stream": {"name": "snapshots", "steps": 4, "every": "3 updates"},
    },
    "model": {"name": "roland", "hidden": 4, "norm": "sum"},
    "clients__count": 3,
    "protocol": {**SYNC, "rounds": 6},
}
EVOLVING: dict[str, Any] = {  # weights that evolve, at each client as its own periods end; views have what it was sent
    **CHANGING,
    "data": {**CHANGING["data"], "stream": {"name": "snapshots", "steps": 5, "every": "poisson(900 ms)"}},
    "measure__views": True,
}
NOISY = {"clip": 0.5, "noise": 0.3}
SKEWED = {"name": "dirichlet", "alpha": 0.5}

# Name to what the point changes; `network__effects` reaches inside a section.
LEARN: dict[str, dict[str, Any]] = {
    "sync in a storm": {"network__effects": STORM},
    "deadline, by each client's clock": {
        "protocol": {**DEADLINE, "rounds": 8}, "data__stream": OWN_CLOCK, "measure__splits": ALL_PERIODS,
        "measure__every": "700 ms",
    },
    "buffered, int8 both ways": {
        "protocol": BUFFERED, "network__codec": {"up": "int8", "down": "int8"}, "network__effects": STORM,
        "measure__views": True,
    },
    "buffered, top_k up": {
        "protocol": {**BUFFERED, "most_stale": 1}, "network__effects": STORM,
        "network__codec": {"up": {"name": "top_k", "share": 0.2}, "down": "half"},
    },
    "one_shot, late replies folded": {"protocol": LATE, "data__stream": "static", "network__effects": STORM},
    "one_shot, ghost": {
        "protocol": "one_shot", "algorithm": {"name": "ghost", "server_steps": 3},
        "data__stream": "static", "data__partition": SKEWED, "measure__models": ["global"],
    },
    "one_shot, an ensemble": {
        "protocol": "one_shot", "algorithm": {"name": "fens", "aggregator_rounds": 2, "width": 4},
        "data__stream": "static",
    },
    "hierarchical on edges": {"protocol": EDGES, "network__topology": TREE, "network__effects": STORM},
    "hierarchical, edges wait, the cloud restarts": {
        "protocol": {"name": "hierarchical", "rounds": 4, "clients": 2, "wait": "2 s"}, "network__topology": TREE,
        "network__effects": [CHURN, RESTART], "network__codec": {"up": "int8"},
    },
    "gossip among peers": {"protocol": GOSSIP, "network__topology": PEERS, "network__effects": STORM},
    "gossip, int8, forgers, views": {
        "protocol": GOSSIP, "network__topology": PEERS, "network__codec": {"up": "int8"},
        "network__effects": [NOISE], "measure__views": True,
    },
    "scores of all predictions": {
        "protocol": {"name": "sync", "rounds": 4, "participation": 0.6},
        "measure__metrics": ["macro_f1"], "measure__over": "predictions",
    },
    "isolated": {
        "protocol": {"name": "isolated", "rounds": 4, "participation": 0.6},
        "data__stream": {**OWN_CLOCK, "every": "200 ms"}, "network__effects": [CHURN],
    },
    "private": {"privacy": {"clip": 0.5, "noise": 0.3}, "network__effects": STORM},
    "masked": {
        "privacy": {"secure_aggregation": True, "clip": 0.5, "noise": 0.2}, "protocol": SYNC,
        "network__codec": {"down": "half"}, "network__effects": STORM,
    },
    "masked, in waves, forgers": {
        "privacy": {"secure_aggregation": True}, "protocol": SYNC, "network__server": WIDE, "network__effects": [NOISE],
    },
    "forgers": {"network__effects": [FLIP], "aggregation": "median"},
    "forgers, int8, late": {
        "protocol": BUFFERED, "network__codec": {"up": "int8"}, "network__effects": [*STORM, NOISE],
    },
    "values that are not finite": {"network__effects": [{"name": "byzantine", "attack": "nan", "clients": [1, 3]}]},
    "restarts, rand_k up": {
        "protocol": {**SYNC, "rounds": 8}, "network__effects": [RESTART],
        "network__codec": {"up": {"name": "rand_k", "share": 0.3}},
    },
    "restarts, buffered": {"protocol": BUFFERED, "network__effects": [*STORM, TWICE]},
    "waves of learners": {
        "protocol": {**DEADLINE, "clients": 4}, "network__server": WIDE, "network__effects": [CHURN],
        "data__stream": OWN_CLOCK, "measure__views": True,
    },
    "dg_colearn": {
        **CHANGING, "algorithm": {"name": "dg_colearn", "rounds": 3}, "measure__metrics": ["accuracy"],
        "measure__views": True,
    },
    "dg_colearn, layer by layer in a storm": {
        **CHANGING, "algorithm": {"name": "dg_colearn", "rounds": 3, "exchange": "layerwise", "privacy": "strict"},
        "network__effects": STORM, "measure__metrics": ["accuracy"],
    },
    "power in churn": {
        "algorithm": {"name": "power", "rebuild_steps": 2, "restarts": 0}, "network__effects": [CHURN],
        "network__codec": {"up": "int8"}, "clients__speed": "lognormal(3 MFLOP/s, 0.5)",
    },
    "a model for each client": {"algorithm": {"name": "fed_pub", "proxy_blocks": 1}, "network__effects": [CHURN]},
    "memories": {"algorithm": {"name": "fed_dslr", "structure_steps": 3}, "protocol": BUFFERED},
    "two exchanges a round": {
        "algorithm": {"name": "feddgl", "epochs": 2}, "protocol": {**SYNC, "rounds": 3}, "network__effects": STORM,
    },
    "private, restarts": {"privacy": NOISY, "protocol": {**SYNC, "rounds": 8}, "network__effects": [UNDONE]},
    "private, restarts, buffered": {
        "privacy": NOISY, "protocol": {**BUFFERED, "rounds": 10}, "network__effects": [*STORM, UNDONE],
    },
    "masked, a deadline": {
        "privacy": {"secure_aggregation": True}, "protocol": {**DEADLINE, "clients": 5, "wait": "500 ms"},
        "network__effects": [CHURN], "clients__count": 8,
    },
    "a quorum, restarts": {
        "protocol": {**SYNC, "rounds": 8, "least": 4, "longest_wait": "1500 ms"},
        "network__effects": [{**CHURN, "online": "2 s"}, UNDONE],
    },
    "weights that evolve, buffered": {
        **EVOLVING, "model": {"name": "evolve_gcn_o", "hidden": 4}, "protocol": {**BUFFERED, "clients": 3},
    },
    "weights that evolve, on edges": {
        **EVOLVING, "model": {"name": "evolve_gcn_h", "hidden": 4}, "protocol": EDGES, "network__topology": TREE,
    },
    "forgers, a trimmed mean on edges": {
        "aggregation": {"name": "trimmed_mean", "trim": 0.3}, "clients__count": 8,
        "protocol": EDGES, "network__topology": TREE, "network__effects": [*STORM, FLIP],
    },
    "chosen by losses and times": {
        "clients": {**CLIENTS, "count": 8, "sampler": "oort"}, "protocol": {"name": "sync", "rounds": 8, "clients": 3},
        "network__effects": [CHURN, {"name": "dropout", "rate": "0.5/s"}],
    },
    "chosen by losses, buffered": {
        "clients": {**CLIENTS, "count": 8, "sampler": {"name": "power_of_choice", "candidates": 4}},
        "protocol": BUFFERED,
    },
}  # fmt: skip
SEND: dict[str, dict[str, Any]] = {
    "traffic in waves": {},
    "traffic, deadline, restarts": {
        "protocol": {"name": "deadline", "rounds": 5, "participation": 0.3, "wait": "20 s", "over": 1.3},
        "network__effects": [
            {"name": "churn", "online": "40 s", "offline": "20 s"}, {"name": "dropout", "rate": "0.02/s"},
            {"name": "restart", "every": "30 s", "length": "3 s", "checkpoint": 2},
        ],
    },
    "traffic, naive links, until": {"network__model": "naive", "network__server": {}, "measure": {"until": "3 min"}},
    "traffic, buffered": {"protocol": {"name": "buffered", "rounds": 30, "clients": 40, "buffer": 10}},
    "replay": {
        "clients": {"count": 7}, "network": NETWORK, "protocol": {"name": "replay", "transfers": REPLAY_FILE},
        "algorithm": None, "network__congestion_control": "bbr",
    },
}  # fmt: skip
NAMES = [*LEARN, *SEND]
# Those that say little beyond the others; they are marked long.
MORE = {
    "one_shot, an ensemble",
    "forgers, int8, late",
    "restarts, buffered",
    "dg_colearn, layer by layer in a storm",
    "a model for each client",
    "memories",
    "two exchanges a round",
    "traffic, buffered",
}
# Those whose clients report losses: their tables must be the same where a record has the answers.
REPORTING = ("chosen by losses and times", "chosen by losses, buffered")
# What the tables of a point must show (`test_same_tables.shown`), or it says nothing of what it is named after.
SHOWN = {
    "private, restarts": {"undone", "noise"},
    "private, restarts, buffered": {"undone", "noise", "stale"},
    "masked, a deadline": {"unmasked", "given up", "late"},
    "a quorum, restarts": {"undone", "short of the quorum"},
    "weights that evolve, buffered": {"periods at once", "stale"},
    "weights that evolve, on edges": {"periods at once"},
    "forgers, a trimmed mean on edges": {"lost"},
    "chosen by losses and times": {"lost"},
    "chosen by losses, buffered": {"stale"},
}


def changes(name: str) -> dict[str, Any]:
    """Return what a point sets: every key that decides its tables, sections whole."""
    base, changed = (LEARNING, LEARN[name]) if name in LEARN else (TRAFFIC, SEND[name])
    plain = dict(base)
    for key, value in changed.items():
        section, _, inner = key.partition("__")
        plain[section] = {**plain[section], inner: value} if inner else value
    return plain
