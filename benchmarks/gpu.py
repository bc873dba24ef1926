"""What a GPU gains over the host's processor, and what each round asks of it.

    FEDSIM_DATA=... python benchmarks/gpu.py [--only CASE ...] [--rounds 10] [--seconds 45]

A case is a scenario (below: `cases`), run once with `device: cuda` and once with `device: cpu` and one thread, round by
round in turn in one process; the first rounds are not timed.  A row has

- the medians of both, in ms of wall-clock time a round, after the device has done all that it was asked;
- kernels, copies to the device and from it, and waits of the host for the device in a round, as torch's profiler counts
  them (two of the waits are the profiler's own);
- the most memory that torch has taken on the device, in MiB;
- how far both models are apart at the end, as a share of the way that they have gone: sums are grouped otherwise, so
  not to the last bit, and where a gradient is nothing but rounding Adam makes a whole step of it.

A case takes no further rounds after `--seconds`.  The last row is a sweep of four runs, one and four at a time on one
card, and four at a time on the host.  Without a GPU it says so and measures nothing; without FEDSIM_DATA it leaves
PubMed out.  What the counts should be is held by tests/whole/test_rounds_on_gpu.py, on any machine.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from loop import timed
from rounds import RATE, SPLIT, next_round, plain
from torch.profiler import ProfilerActivity, profile

from fedsim.core.record import Recorder
from fedsim.learn.engine import tree
from fedsim.point.build.assemble import Built, build
from fedsim.scenario.schema import Scenario

WARM, ROUNDS_PROFILED = 3, 2
SNAPSHOTS = {"name": "snapshots", "steps": 4, "every": "1000 updates"}
COUNTS = {"kernels": 9, "in": 5, "out": 5, "waits": 7}  # columns and their widths
HEADER = f"{'':28}{'GPU ms':>9}{'host ms':>9}{'ratio':>7}"
HEADER += f"{''.join(f'{name:>{width}}' for name, width in COUNTS.items())}{'MiB':>7}{'apart':>9}"


def islands(folder: Path, clients: int, nodes: int = 20, features: int = 32, classes: int = 5) -> dict[str, Any]:
    """Write a graph in parts without an edge between them, two random edges a node; return a scenario's data."""
    rng = np.random.default_rng(0)
    count = clients * nodes
    ends = rng.integers(nodes, size=(2, 2 * count)) + np.repeat(np.arange(clients) * nodes, 2 * nodes)
    x, y = rng.standard_normal((count, features), np.float32), rng.integers(classes, size=count)
    np.savez(folder / f"{clients}.npz", x=x, edge_index=ends, y=y)
    owners = "".join(f"{node},{node // nodes}\n" for node in range(count))
    (folder / f"{clients}.csv").write_text(f"node,client\n{owners}", encoding="utf-8")
    return {
        "dataset": {"name": "file", "file": str(folder / f"{clients}.npz")},
        "partition": {"name": "table", "file": str(folder / f"{clients}.csv")},
        "split": SPLIT,
    }


def cases(folder: Path, root: str | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what is measured, by its name on the command line."""
    tenth = {"name": "sync", "rounds": 1000, "participation": 0.1}
    links = {
        "dataset": {"name": "drifting", "nodes": 20_000, "edges": 80_000, "classes": 5, "features": 32, "snapshots": 4},
        "partition": "random",
        "stream": {**SNAPSHOTS, "scored": "links"},
    }
    meetings = {"name": "meetings", "communities": 8, "members": 16, "group": 4, "seconds": 24}
    events = {
        "dataset": meetings,
        "partition": "louvain",
        "stream": {"name": "snapshots", "patch": 256, "scored": "events", "every": "1000 updates"},
    }
    images = {"dataset": "digit_images", "partition": "random", "split": SPLIT}
    found: dict[str, Callable[[], dict[str, Any]]] = {
        **{f"{count} clients": partial(small, folder, count) for count in (100, 1000, 10_000)},
        "100 of 1000 clients": lambda: plain(1000, islands(folder, 1000), protocol=tenth),
        "links, ROLAND": lambda: plain(
            20, links, model={"name": "roland", "hidden": 64}, task={"name": "link_prediction", "negatives": 100}
        ),
        "events, DyGFormer": lambda: plain(
            8, events, model={"name": "dygformer", "dropout": 0}, task={"name": "event_prediction", "batch": 32}
        ),
        "a module, convolutions": lambda: plain(20, images, model="nets.Convolutions"),
        "POWER": lambda: plain(20, islands(folder, 20, 200), algorithm="power"),
    }
    if root:
        pubmed = {"dataset": "pubmed", "partition": "louvain", "split": SPLIT}
        training = {"optimiser": "adam", "lr": RATE, "local_steps": 3}
        found["PubMed, GCN 64"] = lambda: plain(20, pubmed, training=training)
        found["PubMed, GCN 512"] = lambda: plain(
            20, pubmed, training=training, model={"name": "gcn", "hidden": 512, "dropout": 0}
        )
    return found


def small(folder: Path, clients: int) -> dict[str, Any]:
    """Return as many clients of 20 nodes, all of whom a round asks."""
    return plain(clients, islands(folder, clients))


def settled_round(device: str, world: Any) -> Any:
    """Run a round, and wait until the device has done all that it was asked."""
    took_part = next_round(world)
    if device == "cuda":
        torch.cuda.synchronize()
    return took_part


def made(device: str, asked: dict[str, Any]) -> Built:
    """Build the run on this device."""
    whole = Scenario.model_validate({**asked, "device": device, "threads": 1})
    return build(whole, Path(os.environ.get("FEDSIM_DATA", "")), Recorder())


def model(built: Built) -> list[torch.Tensor]:
    """Return the server's model as tensors of the host."""
    return [leaf.detach().cpu().clone() for _, leaf in tree.named(built.world.server.state.value["model"])]


def distance(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    """Return the Euclidean distance of two models."""
    return math.sqrt(sum(float((a - b).double().square().sum()) for a, b in zip(one, other, strict=True)))


def counted(built: Built) -> Counter[str]:
    """Return how many kernels, copies and waits a round takes, by torch's profiler."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(ROUNDS_PROFILED):
            settled_round("cuda", built.world)
    found: Counter[str] = Counter()
    for event in seen.events():
        if event.device_type.name == "CUDA":
            kind = {"Memcpy HtoD": "in", "Memcpy DtoH": "out"}.get(event.name[:11])
            found[kind or ("other" if event.name.startswith("Mem") else "kernels")] += 1
        elif event.name in ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"):
            found["waits"] += 1
    found["waits"] -= ROUNDS_PROFILED  # those of `settled_round`
    return Counter({kind: round(count / ROUNDS_PROFILED) for kind, count in found.items()})


def measure(name: str, asked: dict[str, Any], rounds: int, limit: float) -> str:
    """Return the row of a case."""
    torch.cuda.reset_peak_memory_stats()
    builts = {device: made(device, asked) for device in ("cuda", "cpu")}
    first = model(builts["cpu"])
    if (apart := distance(first, model(builts["cuda"]))) > 0:
        raise SystemExit(f"{name}: the first models are {apart:.1e} apart")
    seconds: dict[str, list[float]] = {device: [] for device in builts}
    began = time.perf_counter()
    for number in range(WARM + rounds):
        for device, built in builts.items():
            took, _ = timed(partial(settled_round, device, built.world))
            if number >= WARM:
                seconds[device].append(took)
        if number > WARM and time.perf_counter() - began > limit:
            break
    ends = {device: model(built) for device, built in builts.items()}
    apart = distance(ends["cuda"], ends["cpu"]) / distance(first, ends["cpu"])
    most, count = torch.cuda.max_memory_allocated() / 2**20, counted(builts["cuda"])
    ours, theirs = (statistics.median(seconds[device]) for device in ("cuda", "cpu"))
    return (
        f"{name:28}{1000 * ours:9.1f}{1000 * theirs:9.1f}{theirs / ours:7.2f}"
        f"{''.join(f'{count[c]:{w}}' for c, w in COUNTS.items())}{most:7.0f}{apart:9.1e}"
    )


def sweep(folder: Path) -> str:
    """Return the seconds of a sweep of four runs: at once and one by one on the card, and at once on the host."""
    asked = {**small(folder, 1000), "protocol": {"name": "sync", "rounds": 20, "participation": 1.0}}
    asked |= {"measure": {"every": "10 updates"}, "grid": {"seed": [0, 1, 2, 3]}, "threads": 1}
    took = []
    for device, jobs in (("cuda", 4), ("cuda", 1), ("cpu", 4)):
        path = folder / f"sweep-{device}-{jobs}.yaml"
        path.write_text(yaml.safe_dump({**asked, "device": device}), encoding="utf-8")
        command = [sys.executable, "-m", "fedsim", str(path), "--jobs", str(jobs), "--no-report", "--no-following"]
        out = ["--out", str(folder / path.stem)]
        took.append(timed(partial(subprocess.run, [*command, *out], check=True, stdout=subprocess.DEVNULL))[0])
    said = "four runs of 1,000 clients, 20 rounds: {:.1f} s at once, {:.1f} s one by one, {:.1f} s at once on the host"
    return said.format(*took)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="CASE", help="cases whose names begin so, or `sweep`")
    parser.add_argument("--rounds", type=int, default=10, help="rounds that are timed; the median counts")
    parser.add_argument("--seconds", type=float, default=45, help="after which a case takes no further round")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch sees no GPU here: nothing is measured", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(__file__).parent))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; one thread of the host\n\n{HEADER}")
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = {**cases(folder, os.environ.get("FEDSIM_DATA")), "sweep": None}
        for case, ask in chosen.items():
            if options.only and not any(case.startswith(one) for one in options.only):
                continue
            try:
                row = sweep(folder) if ask is None else measure(case, ask(), options.rounds, options.seconds)
                print(row, flush=True)
            except Exception:  # the others are measured, and it is said
                failed = True
                print(f"{case}: failed\n{traceback.format_exc()}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
