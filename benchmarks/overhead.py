"""What a client update costs that trains nothing, against bare SimPy: a process a client with as many events.

    python benchmarks/overhead.py [--clients 1000] [--rounds 20] [--limited]

fedsim's side are whole rounds of scenarios without learning: clock, network, ledger and record are on, everybody takes
part, every message has 1 kB.  The other side is one SimPy process an ask, which waits for ten timeouts (the events of
two transfers and the work between) and then has its round told; nothing is computed, shared or recorded.  `--limited`
gives the server links that are full at times, so that every exchange goes event by event.  Rounds of both are timed in
turn in one process and on one core.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import simpy

from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.scenario.text import yaml_file

EVENTS = 12  # of an ask in the general network: five a transfer, and the work's two
TEXT = """
name: overhead
clients: {{count: {clients}, speed: 2 GFLOP/s}}
network:
  latency: lognormal(20 ms, 0.5)
  uplink: lognormal(10 Mbit/s, 0.5)
  downlink: lognormal(50 Mbit/s, 0.5)
  server: {server}
protocol: {{name: sync, rounds: {rounds}, participation: 1.0}}
algorithm: {{name: traffic, down: 1 kB, up: 1 kB, operations: 1e8}}
"""


def fedsim_rounds(clients: int, rounds: int, limited: bool) -> tuple[float, int]:
    """Return the processor seconds of the rounds, without set-up, and the SimPy events that they took."""
    server = "{ingress: 20 Mbit/s, egress: 20 Mbit/s}" if limited else "{}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "overhead.yaml"
        path.write_text(TEXT.format(clients=clients, rounds=rounds, server=server))
        scenario, _ = yaml_file.load(path, [])
        recorder = Recorder()
        world, _, _, _, done, _ = build(next(iter(scenario.points())).scenario, Path(folder), recorder)
        began = time.process_time()
        world.env.run(until=done)
        world.end()
        assert world.ledger is not None
        world.ledger.close()
        moved = recorder.tables()["transfers"].num_rows
        took = time.process_time() - began
    if moved != 2 * clients * rounds:
        raise SystemExit(f"{moved} transfers were recorded instead of {2 * clients * rounds}")
    return took, next(world.env._eid)


def bare_rounds(clients: int, rounds: int, events: int) -> float:
    """Return the processor seconds of as many processes that each wait for so many timeouts."""
    env = simpy.Environment()

    def ask(each):
        for _ in range(events - 2):  # that a process begins and that it ends are events too
            yield env.timeout(each)

    def server():
        for _ in range(rounds):
            yield env.all_of([env.process(ask(1 + client / clients)) for client in range(clients)])

    began = time.process_time()
    env.run(until=env.process(server()))
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000, help="clients that are asked in a round")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of a run")
    parser.add_argument("--repeats", type=int, default=5, help="runs that are timed; the median counts")
    parser.add_argument("--limited", action="store_true", help="let the server's links be full at times")
    options = parser.parse_args()
    ours, bare, events = [], [], 0
    for _ in range(options.repeats):
        took, events = fedsim_rounds(options.clients, options.rounds, options.limited)
        ours.append(took)
        bare.append(bare_rounds(options.clients, options.rounds, EVENTS))
    asks = options.clients * options.rounds
    mine, theirs = statistics.median(ours) / asks, statistics.median(bare) / asks
    print(f"{options.rounds} rounds of {options.clients} clients, median of {options.repeats} runs")
    print(f"fedsim     {mine * 1e6:8.1f} us a client update, {events / asks:.2f} SimPy events")
    print(f"bare SimPy {theirs * 1e6:8.1f} us a client update, {EVENTS} events; ratio {mine / theirs:.2f}")


if __name__ == "__main__":
    main()
