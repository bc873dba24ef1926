"""Sweeps that are ended by SIGKILL at random moments and called again, in children of a process that has torch loaded.

    python killed_sweeps.py FOLDER

Prints one JSON object: for each kill, where it hit; whether all tables were those of the sweep that nobody disturbed;
which other files were not, leaving out what the host decides.
"""

import json
import os
import random
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path

import left_behind
import small_points

from fedsim.__main__ import main as command
from fedsim.point.build import prepared
from fedsim.point.results import folders
from fedsim.point.results.folders import place_of
from fedsim.point.resume import checkpoint
from fedsim.point.run import run
from fedsim.sweep import runner
from fedsim.sweep.engines.local import Local
from fedsim.sweep.runner import Sweep

SKEWED = {"data__partition": "label_skew"}  # which logs what it has done
POINTS = [
    small_points.point(protocol={**small_points.SYNC, "rounds": 3}, **SKEWED),
    small_points.point(
        **SKEWED,
        protocol={"name": "buffered", "rounds": 4, "clients": 3, "buffer": 2},
        network__effects=[{"name": "byzantine", "attack": "noise", "share": 0.4}],
        measure__views=True,
    ),
    small_points.point(protocol={**small_points.SYNC, "rounds": 3}, **SKEWED, network__latency="400 ms"),  # follows it
]
# What is about to get its place, and how; under its id the first point's record, and then its results.
WRITING = [
    ("replace", "checkpoint"), ("replace", "transfers.parquet"), ("replace", "scores.parquet"),
    ("replace", POINTS[0].id), ("rename", folders.name_of(POINTS[0])), ("replace", "summary.csv"),
]  # fmt: skip


class Nobody:
    """Watches a sweep and says nothing."""

    def begin(self, points, finished):
        pass

    progressed = ended = note = lambda self, *_: None


def swept(out, following=True):
    with Local(1) as engine:
        rows = Sweep(POINTS, "given: here\n", out, out, following).run(partial(run, every=0.0), engine, Nobody())
    followed = folders.name_of(POINTS[0]) if following else None
    if rows[2]["followed"] != followed:
        raise SystemExit(f"followed {rows[2]['followed']} instead of {followed}")


def child(out, kill_at=None):
    """Begin the sweep in a child, which ends itself before it gives a file of that name its place in that way."""
    pid = os.fork()
    if pid:
        return pid
    try:
        checkpoint.SHARE = 4  # more of them than would be worth their time
        runner.SUMMARY_EVERY = 0.0  # after each run, whatever its time
        prepared.periods_of.cache_clear()  # as in a process of its own
        if kill_at:
            dies_before(*kill_at)
        swept(out)
    finally:
        os._exit(1 if sys.exc_info()[0] else 0)


def dies_before(how, name):
    act = getattr(os, how)

    def watched(source, target):
        # The summary is written at the start too.
        late = name != "summary.csv" or [*Path(target).parent.glob("points/*/row.json")]
        if Path(target).name == name and late:
            os.kill(os.getpid(), signal.SIGKILL)
        act(source, target)

    setattr(os, how, watched)


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def tables(out):
    """Each table of each point, and what its clients have received."""
    paths = [
        path for point in POINTS for path in (place_of(out, point)).rglob("*") if path.suffix in (".parquet", ".npz")
    ]
    assert len(paths) > len(POINTS) * len(folders.TABLES)
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def left(out):
    """Where a kill has hit, by what it has left."""
    finished = sum(folders.finished(place_of(out, point)) is not None for point in POINTS)
    return {"finished": finished, "checkpoints": len([*out.glob(".partial-*/state/checkpoint")])}


def at_random(root, wanted, count, rng):
    """Kill so many sweeps in all, each new one once the last has come to its end; return what each kill has left."""
    began = time.monotonic()
    assert ended(child(root / "timed" / "runs")) == 0
    lasts, kills, same, number = time.monotonic() - began, [], True, 0
    while len(kills) < count:
        out, number = root / f"random{number}" / "runs", number + 1
        while True:
            pid = child(out)
            time.sleep(rng.uniform(0.0, 0.9) * lasts)
            os.kill(pid, signal.SIGKILL) if len(kills) < count else None
            if ended(pid) == 0:
                break
            kills.append(left(out))
        same = same and tables(out) == wanted
    return kills, same


def while_writing(root, wanted):
    kills, same = [], True
    for moment in WRITING:
        out = root / "-".join(moment) / "runs"
        assert ended(child(out, kill_at=moment)) == -signal.SIGKILL
        kills.append(left(out))
        assert ended(child(out)) == 0
        same = same and tables(out) == wanted
    return kills, same


def on_a_full_disk(root):
    """Run the command where no file may be larger than 2 kB, and return its exit code and what it tells."""
    pid = os.fork()
    if not pid:
        os.dup2(os.open(root / "told", os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
        (root / "small.yaml").write_text(json.dumps(small_points.PLAIN))
        os._exit(
            command([str(root / "small.yaml"), "--out", str(root / "full"), "--jobs", "1", "--checkpoint", "1e-6"])
        )
    code = ended(pid)
    return {"code": code, "told": (root / "told").read_text(), "left": [str(path) for path in root.glob("full/*")]}


def main(root):
    swept(root / "whole", following=False)  # here, so that the children find all that it loads
    wanted = tables(root / "whole")
    shown = {"random": at_random(root, wanted, 16, random.Random(7)), "writing": while_writing(root, wanted)}
    others = [root / "random0", root / "replace-summary.csv", *root.glob("rename-*")]
    wanted = left_behind.of(root / "timed" / "runs")
    differing = {out.name: left_behind.differing(left_behind.of(out / "runs"), wanted) for out in others}
    print(json.dumps({"kills": shown, "full": on_a_full_disk(root), "files": len(wanted), "differing": differing}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
