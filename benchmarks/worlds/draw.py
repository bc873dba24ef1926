"""Draw whole scenarios as plain data, with the files that they name: odd, tiny, huge and duplicate values included.

A world ends soon: few clients, rounds and nodes, a limit of simulated time where something comes and goes for ever,
and no spell much shorter than that limit.  What it draws of learning is in `lessons`.
"""

from random import Random
from typing import Any

import lessons

Part = dict[str, Any]
LATENCIES = [
    "0 s", "1 us", "0.3 ms", "5 ms", "33.3 ms", "50 ms", "1.7 s", "20 s", "1e-9 s", "uniform(1 ms, 90 ms)",
    "lognormal(30 ms, 0.6)", "choice(0 s, 3 ms, 300 ms)", "0.05 s", "exponential(20 ms)",
]  # fmt: skip
RATES = [
    "1 Mbit/s", "333 kbit/s", "9.6 kbit/s", "75 bit/s", "10 Gbit/s", "400 Tbit/s", "125 kB/s", "1 MiB/s", "56 kbps",
    "uniform(1 Mbit/s, 9 Mbit/s)", "lognormal(4 Mbit/s, 0.8)", "choice(64 kbit/s, 1 Gbit/s)", "1e6 bit/s",
]  # fmt: skip
SPEEDS = [
    "1 GFLOP/s",
    "3 MFLOP/s",
    "lognormal(2 GFLOP/s, 0.8)",
    "1 FLOP/s",
    "1e30 FLOP/s",
    "choice(1 MFLOP/s, 1 TFLOP/s)",
]
SERVER_RATES = ["2 Mbit/s", "8 Mbit/s", "100 Mbit/s", "40 kbit/s", "1 Gbit/s"]
SIZES = ["0 B", "1 B", "2 kB", "1460 B", "1461 B", "40 kB", "0.6 MB", "1 MiB", "3 GB", "900 TB"]
TREES: list[Part] = [
    {"uplink": "6 Mbit/s", "downlink": "8 Mbit/s"},
    {"uplink": "50 Mbit/s", "downlink": "5 Mbit/s", "ingress": "4 Mbit/s", "egress": "9 Mbit/s", "assign": "random"},
    {"uplink": "300 kbit/s", "downlink": "1 Gbit/s", "assign": "round_robin", "latency": "0 s"},
]
PEERS: list[Part] = [
    {"graph": "ring"}, {"graph": "regular", "degree": 2}, {"graph": "erdos_renyi", "p": 0.6},
    {"graph": "barabasi_albert", "m": 1}, {"graph": "erdos_renyi", "p": 0.0}, {"graph": "edges.csv"},
]  # fmt: skip
EFFECTS: list[Part] = [
    {"name": "churn", "online": "6 s", "offline": "2 s"},
    {"name": "churn", "online": "30 s", "offline": "60 s"},
    {"name": "churn", "table": "hours.csv", "unlisted": "online"},
    {"name": "churn", "table": "hours.csv", "unlisted": "offline"},
    {"name": "dropout", "rate": "0.1/s"}, {"name": "dropout", "rate": "30/s"},
    {"name": "loss", "rate": "1 %"}, {"name": "loss", "up": "8 %", "down": 0}, {"name": "loss", "rate": "35 %"},
    {"name": "jitter", "most": "30 ms"}, {"name": "jitter", "most": "4 s"},
    {"name": "diurnal", "peak": 0.9, "trough": 0.4, "day": "30 s", "every": "8 s", "zones": 2},
    {"name": "diurnal", "peak": 1.0, "trough": 0.0},
    {"name": "outage", "every": "5 s", "length": "1 s", "share": 0.5},
    {"name": "outage", "every": "9 s", "length": "4 s", "cut": True, "times": "fixed"},
    {"name": "straggler", "factor": 3.0, "share": 0.3, "every": "4 s", "length": "2 s", "links": True},
    {"name": "straggler", "factor": 1000.0, "share": 0.5},
    {"name": "trace", "rates": "access.csv"}, {"name": "trace", "trace": "commute.txt", "least": "10 kbit/s"},
    {"name": "restart", "every": "9 s", "length": "2 s", "checkpoint": 2},
    {"name": "restart", "at": ["1 s", "3 s", "20 s"], "length": "500 ms"},
    {"name": "restart", "at": ["0 s"], "length": "3 s"},
]  # fmt: skip
FORGED: list[Part] = [
    {"name": "byzantine", "attack": "nan", "share": "40 %"},
    {"name": "byzantine", "attack": "sign_flip", "clients": [0]},
    {"name": "byzantine", "attack": "noise", "share": 1.0, "factor": 1e30},
]
SHARED: list[Part] = [
    {"name": "congestion", "link": "ingress", "load": 0.6, "on": "2 s", "off": "3 s"},
    {"name": "congestion", "link": "egress", "load": 0.99},
    {"name": "outage", "link": "ingress", "every": "4 s", "length": "1 s"},
]
SAMPLERS: list[Any] = [
    "uniform", "weighted", "round_robin", {"name": "availability", "prefer": "often", "exponent": 2.0},
    {"name": "availability", "prefer": "seldom"}, {"name": "rates", "table": "chances.csv"},
]  # fmt: skip
CODECS_UP: list[Any] = [
    None, None, "int8", "half", "bfloat16", {"name": "top_k", "share": 0.1}, {"name": "top_k", "share": 0.001},
    {"name": "rand_k", "share": 0.2}, {"name": "rand_k", "share": 1.0},
]  # fmt: skip
UNTIL: list[Any] = [
    "60 s", "1 h", "1 ms", {"bytes_up": "3 kB"}, {"bytes": "100 kB", "time": "200 s"}, {"updates": 2, "time": "500 s"},
]  # fmt: skip
FILES = {
    "hours.csv": "client,on_s,off_s\n0,0,5\n0,9,\n1,2,30\n",
    "access.csv": "client,time_s,uplink_mbps,downlink_mbps\n0,1,2,8\n0,4,0,\n0,6,1,4\n1,3,,0.5\n",
    "commute.txt": "0 3.5\n10 0.2\n20 8\n25.5 1\n",
    "chances.csv": "client,rate\n0,0.2\n1,0.9\n",
    "edges.csv": "a,b\n0,1\n1,2\n",
}


def world(seed: int, number: int) -> tuple[Part, dict[str, str]]:
    """Return the scenario of a world as plain data, and the texts of the files beside it."""
    rng = Random(f"{seed}/{number}")
    count = rng.choice([1, 2, 3, 4, 5, 6, 8, 12])
    protocol = _protocol(rng, count)
    topology = _topology(rng, protocol["name"], count)
    lesson = {"algorithm": "fedavg"} if protocol["name"] == "replay" else lessons.lesson(rng, protocol["name"], SIZES)
    files = {**FILES, "clients.csv": _clients(rng, count), "replay.csv": _replayed(rng, count)}
    if protocol["name"] == "replay":
        lesson = {}
    learns = "data" in lesson
    network = _network(rng, topology, learns, protocol["name"])
    data: Part = {
        "name": "world", "seed": rng.choice([0, 1, rng.randrange(10**6), 2**31]), "device": "cpu", **lesson,
        "clients": {"count": count, "speed": rng.choice(SPEEDS), "sampler": rng.choice(SAMPLERS)},
        "network": network, "protocol": protocol,
    }  # fmt: skip
    if rng.random() < 0.5:
        data["clients"]["table"] = "clients.csv"
        if rng.random() < 0.2:
            del data["clients"]["count"]
    if rng.random() < 0.2:
        data["server"] = {"speed": rng.choice(["50 GFLOP/s", "200 kFLOP/s", "1 FLOP/s"]), "cores": rng.choice([1, 3])}
        if protocol["name"] == "buffered" and data["server"]["speed"] == "1 FLOP/s":  # replies would come all the same
            data["server"]["speed"] = "200 kFLOP/s"
    if network["effects"] or rng.random() < 0.4:
        data.setdefault("measure", {})["until"] = rng.choice(_ends(network["effects"]))
    if rng.random() < 0.05:
        data["grid"] = {"network.latency": ["1 ms", rng.choice(LATENCIES)]}
    return data, files


def _ends(effects: list[Part]) -> list[Any]:
    """Return ends of a run that come soon: a client that leaves thirty times a second is asked again as often."""
    return UNTIL[:1] if {"name": "dropout", "rate": "30/s"} in effects else UNTIL[:2] if effects else UNTIL


def _protocol(rng: Random, count: int) -> Part:
    rounds = rng.choice([1, 2, 3, 4, 6])
    who: Part = rng.choice([{"participation": 0.7}, {"participation": 1.0}, {"clients": max(1, count // 2)}])
    patient: Part = rng.choice(
        [{}, {}, {"least": "50 %", "longest_wait": "20 s"}, {"least": "80 %", "longest_wait": "5 s"}]
    )
    some = {"rounds": rounds, **who, **patient}
    wait = rng.choice(["4 s", "1500 ms", "1 min", "10 us"])
    return rng.choice([
        {"name": "sync", **some}, {"name": "sync", **some}, {"name": "sync", **some},
        {"name": "deadline", **some, "wait": wait, "over": rng.choice([1.0, 1.5, 3.0])},
        {"name": "deadline", "rounds": rounds, **who, "wait": wait},
        {"name": "buffered", "rounds": rounds, "clients": max(1, count - 1), "buffer": rng.choice([1, 2]),
         "staleness": rng.choice(["constant", "polynomial", "hinge"])},
        {"name": "buffered", "rounds": rounds, "clients": count, "buffer": 1, "most_stale": rng.choice([0, 1])},
        {"name": "one_shot", "retry": True, "enough": 0.8},
        {"name": "one_shot", **who, "wait": wait, "late": rng.choice(["drop", "fold"])},
        {"name": "hierarchical", **some, "edge_rounds": rng.choice([1, 2])},
        {"name": "hierarchical", "rounds": rounds, **who, "wait": wait},
        {"name": "gossip", "rounds": rounds, "weights": rng.choice(["equal", "metropolis"])},
        {"name": "isolated", "rounds": rounds, **who},
        {"name": "replay", "transfers": "replay.csv"},
    ])  # fmt: skip


def _topology(rng: Random, protocol: str, count: int) -> Part:
    fits = {"hierarchical": ["tree"], "gossip": ["peers"], "isolated": ["star", "tree", "peers"]}
    name = rng.choice(fits.get(protocol, ["star", "star", "tree"]))
    if name == "tree":
        return {"name": "tree", "edges": rng.randint(1, min(3, count)), "latency": "15 ms", **rng.choice(TREES)}
    return {"name": "peers", **rng.choice(PEERS)} if name == "peers" else {"name": "star"}


def _network(rng: Random, topology: Part, learns: bool, protocol: str) -> Part:
    peers, naive = topology["name"] == "peers", rng.random() < 0.15
    server = {} if peers else {side: rng.choice(SERVER_RATES) for side in ("ingress", "egress") if rng.random() < 0.6}
    if server and rng.random() < 0.3:
        server["ingress_burst"] = rng.choice(["50 kB", "1 B", "1514 B"])
    there = [each for each in EFFECTS if each["name"] != "restart" or protocol not in ("gossip", "isolated", "replay")]
    there = (
        there
        + FORGED * (learns and protocol != "isolated")
        + [each for each in SHARED if each["link"] in server and not naive]
    )
    effects = rng.sample(there, min(len(there), rng.choice([0, 0, 0, 1, 1, 2, 3])))
    if effects and rng.random() < 0.05:
        effects.append(effects[0])
    network: Part = {
        "model": "naive" if naive else "fluid", "topology": topology, "latency": rng.choice(LATENCIES),
        "uplink": rng.choice(RATES), "downlink": rng.choice(RATES), "server": server, "effects": effects,
        "congestion_control": rng.choice(["cubic", "bbr", "reno"]),
        "connection": {"kind": "kept" if rng.random() < 0.3 else "fresh"},
        "tls_rtts": rng.choice([0, 0, 1, 2]), "tcp": {"deterministic": True} if rng.random() < 0.2 else {},
    }  # fmt: skip
    if rng.random() < 0.3:
        network["codec"] = {"up": rng.choice(CODECS_UP[:5] if peers else CODECS_UP)}
        if not peers:
            network["codec"]["down"] = rng.choice([None, "half", "int8"])
    if rng.random() < 0.1:
        network["profile"] = rng.choice(["fibre", "iot", {"lte": 0.5, "wifi": 0.5}])
        for key in rng.sample(["latency", "uplink", "downlink"], 2):
            del network[key]
    return network


def _clients(rng: Random, count: int) -> str:
    head = "client,uplink_mbps,downlink_mbps,rtt_ms,jitter_ms,loss_up,loss_down,gflops,up_burst_bytes,down_burst_bytes"
    lines = [head]
    bursts = rng.random() < 0.4
    for client in range(count):
        cells: list[Any] = [
            rng.choice([0.5, 2, 8, 1000, 0.004]), rng.choice([1, 30, 0.02]), rng.choice([0, 8, 40, 90.5]),
            rng.choice(["", 0, 3]), rng.choice(["", "", 0.02]), rng.choice(["", 0.01]), rng.choice(["", 0.5, 2]),
            *([rng.choice(["", 20000]), rng.choice(["", 1, 9000])] if bursts else ["", ""]),
        ]  # fmt: skip
        lines.append(",".join(map(str, [client, *cells])))
    return "\n".join([lines[0], *rng.sample(lines[1:], len(lines) - 1)]) + "\n"


def _replayed(rng: Random, count: int) -> str:
    rows = []
    for _ in range(rng.choice([1, 1, 5, 20])):
        start = rng.choice([0, 0, 0.1, rng.uniform(0, 9), 1e6])
        rows.append((start, rng.randrange(count), rng.choice(["up", "down"]), rng.choice([0, 1, 999, 400_000, 10**8])))
    return "start_s,client,direction,bytes\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
