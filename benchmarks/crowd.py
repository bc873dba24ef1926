"""A hundred thousand clients of which a thousand are asked: processor seconds, memory and SimPy events a transfer.

    python benchmarks/crowd.py

Runs the first point of scenarios/hundred_thousand.yaml (20 rounds, timing only, with churn) in this process, and once
more without churn, so that the events of clients coming and going can be told from those of transfers.  The named
alternative is a process and an object a client that waits to be asked: what it costs to have that many, before any
message is sent.
"""

import resource
import sys
import time
from pathlib import Path

import simpy

from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.scenario.text import yaml_file

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "hundred_thousand.yaml"


def rounds(*flags):
    """Run the first point; return processor seconds, simulated seconds, transfers and scheduled events."""
    scenario, _ = yaml_file.load(SCENARIO, flags)
    point = next(iter(scenario.points()))
    recorder = Recorder()
    began = time.process_time()
    world, _, _, _, done, _ = build(point.scenario, Path(), recorder)
    world.env.run(until=done)
    world.end()
    assert world.ledger is not None
    world.ledger.close()
    events = next(world.env._eid)  # SimPy numbers every event that it schedules
    took = time.process_time() - began
    return took, world.env.now, recorder.tables()["transfers"].num_rows, events


def waiting_processes(count):
    """Return the processor seconds that as many waiting processes take to set up: an idle client as a process."""

    def idle(env):
        yield env.event()

    began, env = time.process_time(), simpy.Environment()
    for _ in range(count):
        env.process(idle(env))
    env.run()
    return time.process_time() - began


def main():
    seconds, simulated, transfers, events = rounds()
    _, _, calm_transfers, calm_events = rounds("network.effects=[]")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    print(
        f"20 rounds of 1,000 out of 100,000 clients, churn: {seconds:.1f} s of processor, {simulated:,.0f} s simulated"
    )
    print(f"  {transfers:,} transfers, {events:,} events in all")
    each = (calm_events - calm_transfers / 2) / calm_transfers  # an ask takes one event for its work
    print(f"  without churn: {calm_transfers:,} transfers, {each:.2f} events each, and one more for the work of an ask")
    print(f"  memory at most {memory:,.0f} MB")
    print(f"  100,000 waiting processes alone: {waiting_processes(100_000):.1f} s before the first message")


if __name__ == "__main__":
    main()
