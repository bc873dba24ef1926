"""From a thousand to ten million clients of which a thousand are asked: start-up, seconds an ask, and memory.

    python benchmarks/million.py
    python benchmarks/million.py --largest 1000000      # where there are less than 8 GB of memory

Each size is a point of scenarios/million.yaml (timing only, with churn) in a process of its own, because peak memory is
a process's.  Start-up is from the start of Python until the first cohort has been asked, the check of the scenario
included; the seconds an ask are the processor's in the rounds; closing is books, tables and summary, once a run.  Of a
thousand clients only those online can be asked.  Two sizes tell how many bytes each client more takes, at the start and
at most.  Then 100,000 clients of which 10 % are asked, with and without a limit at the server.  The named alternative
is a waiting process for each client, before any message is sent.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "million.yaml"
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
WAITING = (100_000, 1_000_000)  # ten million waiting processes would take 7 GB
UNLIMITED = "network.server={}"
ASKED = "protocol={name: sync, rounds: 10, clients: 1000}"


def measured(begun, *flags):
    """Run the scenario's point in this process, which began at that time; return what it took."""
    import fedsim  # noqa: F401 -- by which analysis is found from any folder
    from analysis.measures.summarise import summarise
    from fedsim.core.record import Recorder
    from fedsim.point.build.assemble import build
    from fedsim.point.checks import check
    from fedsim.scenario.text import yaml_file

    scenario, _ = yaml_file.load(SCENARIO, flags)
    (point,) = scenario.points()
    assert check.points([point]) == []
    recorder = Recorder()
    world, _, _, _, done, _ = build(point.scenario, Path(), recorder)
    while not world.server.rounds:
        world.env.step()
    started, busy, least = time.time(), time.process_time(), peak()
    world.env.run(until=done)
    through, busy = time.time(), time.process_time() - busy
    world.end()
    assert world.ledger is not None
    world.ledger.close()
    tables = recorder.tables()
    row = summarise(tables, "global", "accuracy", None)
    return {
        "start": started - begun, "rounds": busy, "closing": time.time() - through,
        "asked": row["asked"], "memory": peak(), "at start": least, "spans": len(tables["spans"]),
    }  # fmt: skip


def waiting(begun, count):
    """Set up as many waiting processes; return what it took."""
    import simpy

    def idle(env):
        yield env.event()

    env = simpy.Environment()
    processes = [env.process(idle(env)) for _ in range(int(count))]
    env.run()
    return {"start": time.time() - begun, "processes": len(processes), "memory": peak()}


def peak():
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def alone(what, *given):
    """Return what `what` measures in a process of its own."""
    command = [sys.executable, __file__, what.__name__, str(time.time()), *given]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def tell(name, found):
    """Print a run's line."""
    each = found["rounds"] / found["asked"] * 1e6
    print(
        f"{name}: start {found['start']:5.1f} s, {found['asked']:,} asked at {each:6.0f} us each, "
        f"closing {found['closing']:.1f} s, at most {found['memory']:,.0f} MB ({found['at start']:,.0f} at the start)"
    )


def growth(smaller, larger):
    """Print how many bytes each further client takes, of two runs with their sizes."""
    (few, before), (many, after) = smaller, larger
    start, end = ((after[key] - before[key]) * 2**20 / (many - few) for key in ("at start", "memory"))
    print(f"           each client more takes {start:.0f} bytes at the start, {end:.0f} at most")


def main(largest):
    last = None
    for size in (size for size in SIZES if size <= largest):
        found = alone(measured, f"clients.count={size}", ASKED)
        tell(f"{size:>10,} clients", found)
        if last is not None:
            growth(last, (size, found))
        last = size, found
    for server, flags in (("10 Gbit/s", ()), ("unlimited", (UNLIMITED,))):
        many = ("clients.count=100000", "protocol={name: sync, rounds: 3, participation: 10 %}", *flags)
        tell(f"100,000 clients at 10 %, server {server}", alone(measured, *many))
    for size in WAITING:
        found = alone(waiting, str(size))
        print(f"{size:,} waiting processes alone: {found['start']:.1f} s, at most {found['memory']:,.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--largest":
        main(int(sys.argv[2]))
    elif len(sys.argv) == 2:
        print(__doc__)
    elif len(sys.argv) > 2:
        what, begun, *given = sys.argv[1:]
        print(json.dumps({"measured": measured, "waiting": waiting}[what](float(begun), *given)))
    else:
        main(SIZES[-1])
