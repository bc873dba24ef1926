"""A deployed run over shaped links: Flower's processes in network namespaces of this machine, against the simulation.

    sudo python benchmarks/netns/deployed.py --out runs/netns              # needs root, Linux and the extra flower

Five clients, three settings of their links.  SuperLink and SuperNodes are the ordinary ones, each in a namespace
whose packets cross the line in user space (`line.py`).  The scenario is `scenarios/pilot.yaml` with the setting's
links, so that the same file is simulated.  It is bounded (`--rounds`), sends nothing outside of the namespaces, and
leaves nothing behind.  What it cannot do is give each client a processor of its own: all share this machine's, which
makes Flower's processes start later than on hosts of their own.
"""

import argparse
import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import line
import pandas as pd
import spaces

from fedsim.core.errors import UserError
from fedsim.deploy import federation, package
from fedsim.deploy.federation import submit
from fedsim.deploy.run import packages
from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios" / "pilot.yaml"
CLIENTS = 5
START = 1.6  # seconds, the default of flower_supernodes
LINKS = {  # name: uplink, downlink in Mbit/s, latency in ms one way
    "fast": (100.0, 100.0, 5.0),
    "home": (5.0, 20.0, 25.0),
    "slow": (0.5, 1.0, 100.0),
}


def changes(setting: str, rounds: int) -> list[str]:
    """Return the keys to set in the scenario."""
    up, down, latency = LINKS[setting]
    return [
        f"clients.count={CLIENTS}", f"protocol.rounds={rounds}", "algorithm=fedavg", "model={name: gcn, hidden: 1024}",
        f"network.uplink={up} Mbit/s", f"network.downlink={down} Mbit/s", f"network.latency={latency} ms",
    ]  # fmt: skip


@contextmanager
def shaped(setting: str) -> Iterator[list[spaces.Host]]:
    """Make the hosts of a server and of the clients, and carry their packets meanwhile."""
    up, down, latency = LINKS[setting]
    hosts = [spaces.host(f"10.9.0.{number + 1}", spaces.settings(True)) for number in range(1 + CLIENTS)]

    def link(rate: float) -> line.Queue:
        return line.Queue(rate * 1e6 / 8, max(64_000.0, rate * 1e6 / 8 * 0.25))

    accesses = [line.Access(link(up), link(down), latency / 1000, 0.0, 0.0) for _ in range(CLIENTS)]
    free = partial(line.Queue, math.inf, math.inf)
    star = line.Star([host.device for host in hosts], accesses, free(), free(), line.chance(0))
    stop, end = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=line.serve, args=(star, stop))
    process.start()
    try:
        yield hosts
    finally:
        os.write(end, b"x")
        process.join(10)
        process.kill()
        for host in hosts:
            os.close(host.device)
            os.close(host.space)


def moved(host: spaces.Host) -> tuple[int, int]:
    """Return the bytes that a host has received and sent over its line, IP headers included."""
    with spaces.inside(host):
        text = Path("/proc/thread-self/net/dev").read_text(encoding="utf-8")
    numbers = next(row for row in text.splitlines() if row.strip().startswith("line:")).split(":")[1].split()
    return int(numbers[0]), int(numbers[8])


def deploy(setting: str, rounds: int, folder: Path, simulated: Sequence[str]) -> None:
    """Run the scenario over the shaped links, and print what its clients have received and sent."""
    scenario, document = yaml_file.load(SCENARIO, [*simulated])
    (point,) = check.planned(scenario, document)
    folder.mkdir(parents=True, exist_ok=True)
    places = [folder / f"client-{number}" for number in range(CLIENTS)]
    for own, place in zip(packages(point.scenario, folder), places, strict=True):
        package.write(place, point.scenario, own)
    with shaped(setting) as (server, *clients):
        insides = [partial(spaces.inside, host) for host in (server, *clients)]
        where = federation.Places(server.address, insides)
        with federation.local(places, folder, folder, where) as name, spaces.inside(server):
            submit(
                point, folder, folder, CLIENTS, lambda progress: None,
                connection=name, work=folder, logs=folder, beside=[],
                variables=federation.environment(folder / "home"),
            )  # fmt: skip
        down, up = (sum(each) / CLIENTS for each in zip(*map(moved, clients), strict=True))
        print(
            f"{setting}: with all that Flower sends, a client received {down:,.0f} bytes and sent {up:,.0f} "
            f"in {rounds} rounds"
        )


def seconds(updates: Path) -> pd.Series:
    """Return the seconds of each round but the first, which starts everything."""
    return pd.read_parquet(updates)["time"].diff().dropna()


def main() -> int:
    """Run all settings, and print seconds a round, measured and simulated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/netns"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--start", type=float, help="seconds in which Flower's process starts (fitted to the first)")
    parser.add_argument("--links", nargs="+", choices=[*LINKS], default=[*LINKS])
    given = parser.parse_args()
    if reason := spaces.refusal():
        print(f"deployed: {reason}", file=sys.stderr)
        return 2
    start = given.start
    for setting in given.links:
        folder, keys = (given.out / setting).resolve(), changes(setting, given.rounds)
        try:
            deploy(setting, given.rounds, folder / "deployed", keys)
        except UserError as error:
            print(f"deployed: {error}", file=sys.stderr)
            return 2
        real = seconds(folder / "deployed" / "updates.parquet")
        if start is None:
            start = START + real.median() - simulated(keys, START, folder / "default").median()
            print(f"Flower's processes start in {start:.2f} s, fitted to the median round of {setting!r}")
        model = simulated(keys, start, folder / "simulated")
        print(
            f"{setting}: measured {real.median():.2f} s a round ({real.min():.2f} to {real.max():.2f}), "
            f"simulated {model.median():.2f} ({model.min():.2f} to {model.max():.2f}), "
            f"{model.median() / real.median() - 1:+.1%}; mean {model.mean() / real.mean() - 1:+.1%}",
            flush=True,
        )
    return 0


def simulated(keys: Sequence[str], start: float, out: Path) -> pd.Series:
    """Simulate the scenario, with Flower's processes starting in so many seconds, and return the seconds of rounds."""
    transport = f"network.transport={{name: flower_supernodes, start: {start} s}}"
    words = [word for key in (*keys, transport, "grid.seed=[0, 1, 2, 3, 4]") for word in ("--set", key)]
    command = [sys.executable, "-m", "fedsim", str(SCENARIO), *words, "--out", str(out), "--no-report", "--fresh"]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return pd.concat([seconds(path) for path in sorted(out.glob("points/*/updates.parquet"))])


if __name__ == "__main__":
    sys.exit(main())
