"""Random scenarios that learn nothing and run in milliseconds, and what a whole run of one of them has shown."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import simpy
import small_points
from hypothesis import strategies as st

from fedsim.clock.world import World
from fedsim.core.record import SERVER
from fedsim.net import network as networks
from fedsim.net.network import SimulatedNetwork
from fedsim.point import run as running
from fedsim.point.build.assemble import Built
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import paths

FILES = {
    "clients.csv": "client,rtt_ms,jitter_ms,loss_up,loss_down,up_burst_bytes,down_burst_bytes,up_buffer_bytes\n"
    "0,40,0,0.02,0,20000,15000,\n1,80,10,0,0.01,0,0,100000\n",
    "rates.csv": "client,rate\n0,0.2\n1,0.9\n",
    "hours.csv": "client,on_s,off_s\n0,0,5\n0,9,\n1,2,30\n",
    "access.csv": "client,time_s,uplink_mbps,downlink_mbps\n0,1,2,8\n0,4,0,\n0,6,1,4\n1,3,,0.5\n",
    "replay.csv": "start_s,client,direction,bytes\n0,0,up,400000\n0,1,up,400000\n0.1,0,up,9000\n0.5,1,down,700000\n"
    "0.6,0,down,700000\n5.5,0,up,3000\n7,1,up,0\n9,1,up,50000\n",
}


def with_files(folder: Path) -> Path:
    """The folder, with the files that random scenarios name."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


LINKS = {"hierarchical": ("tree",), "gossip": ("peers",), "isolated": ("star", "tree", "peers")}
PROTOCOLS: list[dict[str, Any]] = [
    {"name": "sync", "rounds": 4, "participation": 0.7},
    {"name": "deadline", "rounds": 4, "clients": 2, "wait": "4 s", "over": 1.5},
    {"name": "deadline", "rounds": 5, "participation": 0.8, "wait": "1500 ms"},
    {"name": "buffered", "rounds": 5, "clients": 4, "buffer": 2},
    {"name": "buffered", "rounds": 6, "clients": 3, "buffer": 1, "most_stale": 1},
    {"name": "one_shot", "retry": True, "enough": 0.8},
    {"name": "one_shot", "clients": 3, "wait": "5 s"},
    {"name": "one_shot", "enough": 0.4, "late": "fold"},
    {"name": "replay", "transfers": "replay.csv"},
    {"name": "hierarchical", "rounds": 3, "edge_rounds": 2, "participation": 0.8},
    {"name": "hierarchical", "rounds": 4, "clients": 2, "wait": "4 s"},
    {"name": "gossip", "rounds": 3},
    {"name": "gossip", "rounds": 3, "weights": "metropolis"},
    {"name": "isolated", "rounds": 4, "participation": 0.7},
]
TREE = {"name": "tree", "edges": 2, "latency": "15 ms"}
TOPOLOGIES: dict[str, list[dict[str, Any]]] = {
    "star": [{"name": "star"}],
    "tree": [
        {**TREE, "uplink": "6 Mbit/s", "downlink": "8 Mbit/s", "assign": "random"},
        {**TREE, "uplink": "50 Mbit/s", "downlink": "5 Mbit/s", "ingress": "4 Mbit/s", "egress": "9 Mbit/s"},
    ],
    "peers": [{"name": "peers", "graph": "ring"}, {"name": "peers", "graph": "barabasi_albert", "m": 1}],
}
SAMPLERS: list[Any] = [
    "uniform", "weighted", "round_robin", {"name": "availability", "prefer": "often", "exponent": 2.0},
    {"name": "rates", "table": "rates.csv"},
]  # fmt: skip
EFFECTS: list[dict[str, Any]] = [
    {"name": "churn", "online": "6 s", "offline": "2 s"},
    {"name": "churn", "table": "hours.csv", "unlisted": "online"},
    {"name": "dropout", "rate": "0.1/s"},
    {"name": "loss", "rate": "1 %"},
    {"name": "loss", "up": "8 %", "down": 0},
    {"name": "jitter", "most": "30 ms"},
    {"name": "diurnal", "peak": 0.9, "trough": 0.4, "day": "30 s", "every": "8 s", "zones": 2},
    {"name": "outage", "every": "5 s", "length": "1 s", "share": 0.5},
    {"name": "outage", "every": "5 s", "length": "1 s", "share": 0.5, "cut": True, "times": "fixed"},
    {"name": "straggler", "factor": 3.0, "share": 0.3, "every": "4 s", "length": "2 s", "links": True},
    {"name": "trace", "rates": "access.csv"},
]
ON_LINKS: list[dict[str, Any]] = [
    {"name": "congestion", "link": "ingress", "load": 0.6, "on": "2 s", "off": "3 s"},
    {"name": "congestion", "link": "egress", "load": 0.5},
    {"name": "outage", "link": "ingress", "every": "4 s", "length": "1 s"},
]
CODECS = {
    "up": [None, None, "int8", {"name": "top_k", "share": 0.1}, {"name": "rand_k", "share": 0.2}],
    "down": [None, None, "half", "int8"],
}

KEPT: list[dict[str, Any]] = [
    {}, {}, {"kind": "kept"}, {"kind": "kept", "request": "push"}, {"kind": "kept", "idle_restart": False},
]  # fmt: skip
CONNECTIONS = [*KEPT, {"kind": "exchange"}]
TRANSPORTS: list[Any] = [
    "tcp", "tcp", "tcp", {"name": "flower_supernodes", "poll": "2 s", "start": "300 ms"},
    "grpc", {"name": "grpc", "window": "64 KiB", "renewed": "bytes"},
]  # fmt: skip


def scenarios(protocols: Sequence[str] = ()) -> st.SearchStrategy[dict[str, Any]]:
    """Scenarios as plain data, of these protocols or of all; they need the files of `FILES`.

    Each is drawn from one number: independent choices cover more than hypothesis's own, which repeat one another.
    """
    chosen = [each for each in PROTOCOLS if not protocols or each["name"] in protocols]
    return st.integers(0, 2**32 - 1).map(lambda number: _scenario(number, chosen))


def instants(last: float, count: int) -> st.SearchStrategy[list[float]]:
    """So many times between 0 and the last, ascending."""
    return st.integers(0, 2**32 - 1).map(
        lambda number: sorted(np.random.default_rng(number).uniform(0, last, count).tolist())
    )


def _scenario(number: int, protocols: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rng = np.random.default_rng(number)

    def one(of: Any) -> Any:
        return of[rng.integers(len(of))]

    protocol = one(protocols)
    topology = one(TOPOLOGIES[one(LINKS.get(protocol["name"], ("star", "tree")))])
    peers = topology["name"] == "peers"  # who sends whole shares, and nothing down
    codec = {"up": one([None, "half", "int8"])} if peers else {way: one(which) for way, which in CODECS.items()}
    naive = one([False] * 4 + [True])
    rates = {"ingress": one(["2 Mbit/s", "8 Mbit/s"]), "egress": one(["4 Mbit/s", "30 Mbit/s"])}
    shared = not naive and not peers
    there = EFFECTS + ON_LINKS * shared
    effects = [there[place] for place in rng.choice(len(there), rng.integers(4), replace=False)]
    on_links = any(effect in ON_LINKS for effect in effects)
    limited = {name: rate for name, rate in rates.items() if on_links or one([True, True, False])}
    operations, many = one([0.0, 2e8, 1e9]), one([False, True])
    sizes = {"down": one(["0 B", "2 kB", "600 kB"]), "up": one(["1 B", "40 kB", "900 kB"])}
    floats = {"name": "lab.float_traffic", "numbers": 60_000, "operations": operations}
    return {
        "name": "whole",
        "seed": int(rng.integers(10**6)),
        "clients": {
            "count": int(rng.integers(4, 10)), "speed": "lognormal(1 GFLOP/s, 0.8)", "sampler": one(SAMPLERS),
            "table": one([None, "clients.csv"]),
        },
        "network": {
            "model": "naive" if naive else "fluid", "topology": topology, "latency": "lognormal(30 ms, 0.6)",
            "uplink": "lognormal(4 Mbit/s, 0.8)", "downlink": "lognormal(12 Mbit/s, 0.8)",
            "server": limited | ({"ingress_burst": "50 kB"} if many else {}), "effects": effects,
            "codec": codec, "connection": one(KEPT if protocol["name"] in ("gossip", "replay") else CONNECTIONS),
            "transport": one(TRANSPORTS if topology["name"] == "star" and protocol["name"] != "replay" else ["tcp"]),
            "congestion_control": one(["cubic", "bbr"]), "tls_rtts": one([0, 1]),
            "tcp": one([{}, {"deterministic": True}]),
        },
        "server": {"speed": one(["50 GFLOP/s", "200 kFLOP/s"])},
        "protocol": protocol,
        "algorithm": one([{"name": "traffic", **sizes, "operations": operations}, floats]),
        "measure": {"until": "90 s"},
    }  # fmt: skip


@dataclass
class Seen:
    """A run's row of the summary and its tables, what was sent, and what each transfer drew: by its ends and number."""

    scenario: Scenario
    row: dict[str, Any] = field(default_factory=dict)
    sent: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    draws: dict[tuple[int, int, int], tuple[float, float]] = field(default_factory=dict)
    builts: list[Built] = field(default_factory=list)
    given: list[Any] = field(default_factory=list)  # access rates (bytes/s) before any effect: up, down
    files: dict[str, bytes] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def world(self) -> World:
        return self.builts[0].world

    @property
    def fluid(self) -> bool:
        return self.scenario.network.model == "fluid"

    def has(self, *effects: str) -> bool:
        return any(effect.name in effects for effect in self.scenario.network.effects)

    def rows(self, name: str) -> list[Any]:
        """The rows of a table, as named tuples."""
        return list(self.tables[name].itertuples(index=False))

    def trip(self, src: int, dst: int) -> float:
        """Seconds of a round trip without anything that comes on top."""
        network = self.world.network
        ends = sum(float(network.nodes.latency[end]) for end in (src, dst) if end >= 0)
        return 2 * (ends + network.layout.route(src, dst).latency)


def see(plain: dict[str, Any], folder: Path, looks: Callable[[World], Any] | None = None, summed: bool = False) -> Seen:
    """Run a scenario in a folder that holds `FILES`; `looks(world)` is started as a process beside it."""
    (point,) = Scenario.model_validate(paths.made_absolute(plain, folder)).points()
    seen, numbers = Seen(point.scenario), Counter[tuple[int, int]]()
    build, send, shaped = running.build, SimulatedNetwork.send, networks.shaped

    def see_build(*args: Any, **options: Any) -> Any:
        built: Built = build(*args, **options)
        seen.builts.append(built)
        world = built.world
        world.server.write_cohort = None  # waves send no messages to look at; test_cohorts compares them with these
        seen.given += [world.network.nodes.uplink / 8, world.network.nodes.downlink / 8]
        if looks:
            world.env.process(looks(world))
        return built

    def see_send(self: SimulatedNetwork, message: Any, *answers: Any) -> simpy.Event:
        seen.sent[self.env.now, message.src, message.dst, message.kind, message.version, message.nbytes] += 1
        return send(self, message, *answers)

    def see_shaped(message: Any, *args: Any) -> Any:
        transfer, pair = shaped(message, *args), (message.src, message.dst)
        seen.draws[*pair, numbers[pair]] = transfer.handshake_draw, transfer.loss_draw
        numbers[pair] += 1
        return transfer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "build", see_build)
        patch.setattr(SimulatedNetwork, "send", see_send)
        patch.setattr(networks, "shaped", see_shaped)
        if not summed:
            patch.setattr(running, "summarise", lambda *args, **options: {"asked": None, "metric": None})
        seen.row = running.run(point, folder, folder, lambda progress: None)
    seen.files = small_points.files(folder)
    seen.tables = {name: pd.read_parquet(folder / f"{name}.parquet") for name in ("transfers", "updates", "spans")}
    return seen


def level(node: int) -> int:
    """How far up a node stands: clients, edge aggregators, the server."""
    return 0 if node >= 0 else 2 if node == SERVER else 1
