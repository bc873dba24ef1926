"""Whole rounds of many small clients on a GPU, against the same rounds on the host's processor.

    python benchmarks/gpu.py [--clients 1000] [--nodes 20] [--participation 1.0] [--threads 1] [--rounds 20]

The points are those of `rounds.py`, one with `device: cuda` and one with `device: cpu`, in one process and in turn; the
first rounds are not timed.  Printed are the medians, the GPU's name and the most memory that torch has taken there, and
how far both models are apart at the end: sums are grouped otherwise, so not to the last bit.  Without a GPU it says so
and measures nothing.
"""

import argparse
import math
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from loop import apart, timed, to_state_dict
from rounds import next_round, scenario

from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build


def settled_round(device: str, world: Any) -> Any:
    """Run a round, and wait until the device has done all that it was asked."""
    took_part = next_round(world)
    if device == "cuda":
        torch.cuda.synchronize()
    return took_part


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000, help="clients that there are")
    parser.add_argument("--nodes", type=int, default=20, help="nodes of each client")
    parser.add_argument("--participation", type=float, default=1.0, help="share of them that a round asks")
    parser.add_argument("--threads", type=int, default=1, help="torch threads on the host")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that are timed; the median counts")
    options = parser.parse_args()
    options.ragged = False
    if not torch.cuda.is_available():
        print("torch sees no GPU here: nothing is measured", file=sys.stderr)
        return 1
    warm = math.ceil(3 / options.participation)
    asked = scenario(options, warm + options.rounds + 1)
    builts = {
        device: build(asked.model_copy(update={"device": device}), Path(), Recorder()) for device in ("cuda", "cpu")
    }
    seconds: dict[str, list[float]] = {device: [] for device in builts}
    for number in range(warm + options.rounds):
        for device, built in builts.items():
            took, _ = timed(partial(settled_round, device, built.world))
            if number >= warm:
                seconds[device].append(took)
    ours, theirs = (statistics.median(seconds[device]) for device in ("cuda", "cpu"))
    weights = [
        {name: one.cpu() for name, one in to_state_dict(built.world.server.state.value["model"]).items()}
        for built in builts.values()
    ]
    name, most = torch.cuda.get_device_name(), torch.cuda.max_memory_allocated() / 2**20
    print(f"{name}: {1000 * ours:.1f} ms a round; host: {1000 * theirs:.1f} ms, {theirs / ours:.2f} times as long")
    print(f"{most:.0f} MiB at most on the GPU; models {apart(*weights):.1e} apart")
    return 0


if __name__ == "__main__":
    sys.exit(main())
