"""A made-up sweep on disk, with the tables and files of a real one and scores that follow a simple law."""

import hashlib
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from analysis.measures.summarise import summarise
from fedsim.core.record import ArrivalRow, Recorder, ScoreRow, SpanRow, TransferRow, UpdateRow

RESULTS = [  # the columns of a real summary.csv after point, status, axes and seed
    "metric", "score", "periods", "am", "la", "fm", "prequential", "sim_seconds", "bytes_up", "bytes_down",
    "bytes_peer", "bytes_wasted", "updates", "updates_per_period", "staleness", "asked", "folded", "lost", "late",
    "refused", "worst_decile", "score_jain", "took_part", "upload_jain", "classes_covered", "client_seconds",
    "server_seconds", "epsilon", "bytes_masking", "target", "target_on",
    "seconds_to_target", "bytes_to_target", "periods_at_target", "target_at_first", "arrivals", "recovery_seconds",
    "recovery_at_first", "never_recovered", "wanted", "chance", "method", "followed", "real_seconds",
]  # fmt: skip
LATENCY = {"10 ms": 0.01, "100 ms": 0.1, "1 s": 1.0}
LEARNS = {"fedavg": (0.78, 0.30), "fedprox": (0.74, 0.22), "power": (0.84, 0.06)}  # final score, lost a period
CLIENTS, PERIODS, ROUNDS = 8, 4, 24


def write_sweep(
    folder: Path,
    algorithms=("fedavg", "fedprox", "power"),
    latencies=tuple(LATENCY),
    participations=("0.1", "0.5", "1.0"),
    seeds=(0, 1),
    target=0.6,
    name=None,
    orders=("2025",),
    within=lambda latency, participation, algorithm: True,
) -> Path:
    """Write one run folder; an axis with a single value is not in the grid. Returns the folder.

    `orders` are those of the tasks; `within` says which combinations are run, for a union of grids.
    """
    folder.mkdir(parents=True)
    axes = {"network.latency": latencies, "protocol.participation": participations, "algorithm": algorithms}
    axes["data.split.numpy_seed"] = orders
    given = {"name": name or folder.name, "seed": 0, "grid": {**{k: list(v) for k, v in axes.items()}, "seed": seeds}}
    (folder / "scenario.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
    rows = []
    for latency, participation, algorithm, order, seed in product(*axes.values(), seeds):
        if not within(latency, participation, algorithm):
            continue
        values = dict(zip(axes, (latency, participation, algorithm, order), strict=True))
        grid = {key: value for key, value in values.items() if len(axes[key]) > 1}
        resolved = {
            "name": folder.name,
            "seed": seed,
            "data": {"split": {"numpy_seed": int(order)}},
            "network": {"latency": latency},
            "protocol": {"name": "sync", "participation": float(participation)},
            "algorithm": {"name": algorithm},
            "measure": {"metrics": ["accuracy"], "models": ["global"], "splits": ["test"], "target": target},
        }
        text = yaml.safe_dump(resolved)
        point = hashlib.sha256(text.encode()).hexdigest()[:12]
        place = folder / "points" / point
        place.mkdir(parents=True)
        (place / "scenario.yaml").write_text(f"# run {point}\n# fedsim: 0.1.0\n# torch: 2.9.0\n{text}")
        recorder, ended = simulate(algorithm, LATENCY[latency], float(participation), 1000 * (int(order) % 2025) + seed)
        recorder.close(place)
        tables = recorder.tables()
        row = summarise(tables, "global", "accuracy", target)
        rows.append(
            {
                "run": point,
                "status": "done",
                **grid,
                "seed": seed,
                **row,
                "sim_seconds": ended,
                "real_seconds": 1,
            }
        )
    columns = ["run", "status", *(key for key in axes if len(axes[key]) > 1), "seed", *RESULTS]
    pd.DataFrame(rows).reindex(columns=columns).to_csv(folder / "summary.csv", index=False)
    return folder


def simulate(algorithm: str, latency: float, participation: float, seed: int) -> tuple[Recorder, float]:
    """Return the record of one made-up point and its last second."""
    rng = np.random.default_rng([seed, int(latency * 1000), int(participation * 100)])
    recorder, now = Recorder(), 0.0
    final, drop = LEARNS[algorithm]
    final = final - 0.25 * (1 - participation) ** 2 * (2 if algorithm == "fedprox" else 1)
    model = 250_000 if algorithm != "power" else 400_000
    for version in range(1, ROUNDS + 1):
        seen = 1 + (version - 1) * PERIODS // ROUNDS
        if (version - 1) % (ROUNDS // PERIODS) == 0:
            for client in range(CLIENTS):
                recorder.add(ArrivalRow(now, client, seen - 1, version - 1))
                met = (now, version - 1, client, seen - 1, seen - 1, "global", "test", "accuracy")
                recorder.add(ScoreRow(*met, 0.1 * seen, 20 + client))
        cohort = rng.choice(CLIENTS, max(1, round(participation * CLIENTS)), replace=False)
        ends, lost, late = [], 0, 0
        for client in map(int, cohort):
            arrived = now + 2 * latency + 0.4 * rng.lognormal(0, 0.3)
            recorder.add(
                TransferRow(now, arrived, -1, client, "train", version - 1, model, int(model * 1.04), "delivered")
            )
            trained = arrived + 1.5 * rng.lognormal(0, 0.2)
            recorder.add(SpanRow(client, arrived, trained, "train"))
            ended = trained + 2 * latency + 1.2 * rng.lognormal(0, 0.3)
            fate = rng.choice(["delivered", "late", "cut", "discarded"], p=[0.9, 0.04, 0.05, 0.01])
            wire = int(model * (1.05 if fate != "cut" else 0.4))
            recorder.add(TransferRow(trained, ended, client, -1, "train", version - 1, model, wire, str(fate)))
            lost, late = lost + (fate == "cut"), late + (fate == "late")
            ends.append(ended)
            if algorithm == "power":
                recorder.add(TransferRow(arrived, ended, client, -1, "embed", version - 1, 60_000, 62_000, "delivered"))
        now = max(ends)
        recorder.add(UpdateRow(now, version, "train", len(cohort), len(cohort) - lost - late, lost, late, 0.5))
        for client, period in product(range(CLIENTS), range(seen)):
            rounds = version - period * ROUNDS // PERIODS
            learned = final * (1 - np.exp(-rounds * (0.5 + participation) / 2))
            value = learned - drop * (seen - 1 - period) * 0.7 + rng.normal(0, 0.03)
            recorder.add(
                ScoreRow(
                    now,
                    version,
                    client,
                    period,
                    seen,
                    "global",
                    "test",
                    "accuracy",
                    float(np.clip(value, 0, 1)),
                    20 + client,
                )
            )
    return recorder, now
