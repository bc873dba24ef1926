"""Keep what the runs of scenarios/sparse_participation.yaml scored on the way, in one file for their page.

python -m fedsim scenarios/sparse_participation.yaml --data DIR     # 480 runs, half an hour on two quiet cores
python benchmarks/sparse_participation.py runs/sparse_participation docs/sparse_participation.parquet

A row is a score of a run on the fixed test: what was learned on, by which method, at which participation and for which
cause it is low; the seed; server updates, simulated seconds and bytes on the wire until then; and what
guessing reaches, the share of the most frequent label.
"""

import argparse
from pathlib import Path

import pandas as pd

from analysis.measures.digest import digest
from analysis.measures.tables import finished
from analysis.read.load import load

CAUSES = {  # sampler, time offline, protocol
    ("uniform", "0 s", "sync"): "a draw",
    ("fixed", "0 s", "sync"): "the same few",
    ("uniform", "7 s", "sync"): "absent by label",
    ("uniform", "0 s", "deadline"): "late ones cut",
}
AXES = ["clients.sampler", "network.effects.0.offline", "protocol.name"]


def main() -> None:
    """Read a folder of results and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the folder of the runs")
    parser.add_argument("file", type=Path, help="the parquet file to write")
    given = parser.parse_args()
    runs = load([given.results])
    points = finished(runs)
    curves = digest(runs, points, [*runs.axes, "algorithm"]).curves
    curves["chance"] = curves["run"].map(points.set_index("run")["chance"])
    chosen = [curves[axis].astype(str) for axis in AXES]
    curves["cause"] = [CAUSES.get(row) for row in zip(*chosen, strict=True)]
    kept = curves[curves["cause"].notna()]
    columns = {
        "data": kept["data.dataset"], "method": kept["algorithm"], "cause": kept["cause"],
        "participation": kept["protocol.participation"].astype(float), "seed": kept["seed"].astype(int),
        "updates": kept["version"].astype(int), "seconds": kept["time"], "bytes": kept["moved"].astype(int),
        "accuracy": kept["score"], "chance": kept["chance"],
    }  # fmt: skip
    pd.DataFrame(columns).sort_values([*columns][:6], kind="stable").to_parquet(given.file, index=False)


if __name__ == "__main__":
    main()
