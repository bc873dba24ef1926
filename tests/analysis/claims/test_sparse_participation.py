"""The finding of docs/sparse_participation.md, from the runs' tables, without any code of the product's own analysis.

`docs/sparse_participation.parquet` holds the curve of every run: after how many rounds, bytes and seconds it scored
what. `python tests/analysis/claims/test_sparse_participation.py RESULTS` writes it anew from the tables of a run of
`scenarios/sparse_participation.yaml`, and prints the tables of the page for `analysis/claims.yaml`.
"""

import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from analysis.report.write import write
from fedsim import simulate

ROOT = Path(__file__).resolve().parents[3]
RECORD, PAGE = ROOT / "docs/sparse_participation.parquet", ROOT / "docs/sparse_participation.md"
SCENARIO = ROOT / "scenarios/sparse_participation.yaml"
AXES = {
    "data.dataset": "data", "clients.sampler": "sampler", "network.effects.0.offline": "offline",
    "protocol.name": "protocol", "protocol.participation": "participation",
}  # fmt: skip
FEWER = "fewer clients a round"
CAUSES = {
    ("uniform", "0 s", "sync"): FEWER,
    ("fixed", "0 s", "sync"): "the same few always",
    ("uniform", "7 s", "sync"): "same label absent together",
    ("uniform", "0 s", "deadline"): "late ones cut",
}
BUDGETS = ["rounds", "bytes", "seconds"]
METHODS = ["FedAvg", "FedProx", "FedOpt", "SCAFFOLD", "FedDyn"]
CELL = ["data", "cause", "method", "participation"]


def curves(folder):
    """The curve of every run, from its scores and its transfers."""
    frames = []
    for _, row in pd.read_csv(folder / "summary.csv", dtype=str).iterrows():
        scores, moved = (
            pd.read_parquet(folder / "points" / row["run"] / f"{name}.parquet") for name in ("scores", "transfers")
        )
        scores = scores.query("version > 0 and model == 'global' and split == 'test' and metric == 'accuracy'")
        scores = scores.assign(right=scores["value"] * scores["weight"]).groupby(["time", "version"])
        scores = scores[["right", "weight"]].sum().reset_index()
        sizes = [int(moved.loc[moved["arrived"] <= time, "wire_bytes"].sum()) for time in scores["time"]]
        frame = pd.DataFrame({
            "rounds": scores["version"], "bytes": sizes, "seconds": scores["time"],
            "score": (scores["right"] / scores["weight"]).astype("float32"),
        })  # fmt: skip
        given = {AXES[axis]: row[axis] for axis in AXES if axis in row}
        frames.append(frame.assign(method=row["method"], seed=int(row["seed"]), chance=float(row["chance"]), **given))
    return pd.concat(frames, ignore_index=True).astype({"participation": float})


def with_causes(rows):
    """The recorded curves, with the cause of each run's participation in place of its three axes."""
    axes = ["sampler", "offline", "protocol"]
    return rows.assign(cause=[CAUSES[key] for key in rows[axes].itertuples(index=False, name=None)]).drop(columns=axes)


def read_off(rows):
    """The last score of each run within the budget that all runs compared have spent: a row a run and budget."""
    runs, found = [*CELL, "seed"], []
    # what comes late is asked for in the same rounds, so that it shares bytes and seconds, which no other cause does
    group = rows["cause"].replace("late ones cut", FEWER)
    for budget, of in (("rounds", rows["cause"]), ("bytes", group), ("seconds", group)):
        ends = rows.assign(of=of).groupby(["data", "of", *runs[1:]])[budget].max()
        spent = ends.groupby(["data", "of"]).min().rename("spent")
        placed = rows.assign(of=of).merge(spent.reset_index(), on=["data", "of"])
        last = placed[placed[budget] <= placed["spent"]].sort_values(budget).groupby(runs).last()
        found.append(last[["score", "chance", "spent"]].reset_index().assign(budget=budget))
    return pd.concat(found, ignore_index=True)


def mean_over_log(scores, shares):
    """The mean over the logarithm of participation of a line through the scores."""
    x = [np.log(share) for share in shares]
    pieces = [(b - a) * (s + t) / 2 for a, b, s, t in zip(x, x[1:], scores, scores[1:], strict=False)]
    return sum(pieces) / (x[-1] - x[0])


def interval(values):
    """Mean and ends of the t interval."""
    mean, error = np.mean(values), stats.sem(values)
    return mean, *stats.t.interval(0.95, len(values) - 1, mean, error)


def areas(rows):
    """Of each method and cause: mean, low and high of the area over the seeds, where it fails, and the budget."""
    found = {}
    for key, cell in rows.groupby(["data", "cause", "method", "budget"]):
        wide = cell.pivot(index="seed", columns="participation", values="score").sort_index(axis=1)
        mean = wide.mean() - cell["chance"].iloc[0]
        fails = [f"{100 * share:g}" for share in wide.columns if mean[share] < mean.max() / 2]
        each = [mean_over_log(line, [*wide.columns]) for line in wide.to_numpy()]
        found[key] = (*interval(each), fails, cell["spent"].iloc[0], wide.mean())
    return found


def changes(rows):
    """(data, budget, ahead at full participation, rival, share) where the rival is significantly ahead instead."""
    found = []
    for (data, budget), cell in rows[rows["cause"] == FEWER].groupby(["data", "budget"]):
        wide = cell.pivot(index="seed", columns=["method", "participation"], values="score")
        for (one, rival), share in itertools.product(itertools.permutations(METHODS, 2), [0.01, 0.02, 0.05, 0.1, 0.3]):
            _, low, _ = interval(wide[one, 1.0] - wide[rival, 1.0])
            _, _, high = interval(wide[one, share] - wide[rival, share])
            if low > 0 > high:
                found.append((data, budget, one, rival, share))
    return found


def percent(found):
    """Mean and interval as the page shows them."""
    return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in found[:3]))


def page_tables(rows):
    """The cells of the page's tables, by the table's name."""
    of, methods, causes = areas(rows), [], []
    for data in ("digits", "cora"):
        for method in METHODS:
            cells = [of[data, FEWER, method, budget] for budget in BUDGETS]
            fails = " / ".join(", ".join(cell[3]) or "–" for cell in cells)
            methods.append([f"{data}, {method}", *map(percent, cells), fails])
        for cause in CAUSES.values():
            cells = [of[data, cause, "FedAvg", budget] for budget in BUDGETS]
            levels = [f"{100 * score:.0f}" for score in cells[1][5]]
            causes.append([f"{data}, {cause}", *(f"{100 * cell[0]:.1f}" for cell in cells), *levels])
    return {"sparse_methods": methods, "sparse_causes": causes}


@pytest.fixture(scope="module")
def rows():
    return read_off(with_causes(pd.read_parquet(RECORD)))


def test_the_record_has_every_run_of_the_scenario():
    record, raw = with_causes(pd.read_parquet(RECORD)), yaml.safe_load(SCENARIO.read_text("utf-8"))
    shares, seeds, data = (raw["grid"][key] for key in ("protocol.participation", "seed", "data.dataset"))
    own = {(FEWER, method) for method in METHODS} | {(cause, "FedAvg") for cause in CAUSES.values()}
    assert len(METHODS) == len(raw["vary"]["algorithm"])
    wanted = {(*place, *pair) for place in itertools.product(data, shares, seeds) for pair in own}
    kept = record[["data", "participation", "seed", "cause", "method"]].drop_duplicates()
    assert {*kept.itertuples(index=False, name=None)} == wanted


def test_the_tables_of_the_page_are_those_of_the_runs(rows):
    text = PAGE.read_text("utf-8")
    for name, cells in page_tables(rows).items():
        marked = re.search(rf"<!-- claims: {name} -->\n(.*?)<!-- end of claims -->", text, re.DOTALL)
        shown = [[*map(str.strip, line.strip("|\n").split("|"))] for line in marked[1].splitlines()[2:]]
        assert [[*map(str.strip, line)] for line in shown] == cells


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_a_report_of_fewer_runs_says_the_same(tmp_path):
    given = {"data.dataset": ["digits"], "protocol.participation": [0.05, 1.0], "seed": [0, 1]}
    axes = {f"grid__{key}": values for key, values in given.items()} | {"vary__algorithm": ["fedavg", "scaffold"]}
    simulate(SCENARIO, out=tmp_path / "run", progress=False, **axes)
    write([tmp_path / "run"])
    path = tmp_path / "run/tables/robustness_protocol.participation.csv"
    table = pd.read_csv(path, keep_default_na=False, dtype=str)
    own = areas(read_off(with_causes(curves(tmp_path / "run"))))
    assert len(table) == len(own) == 3 * (len(CAUSES) + 1)
    axes = ["clients.sampler", "network.effects.0.offline", "protocol.name"]
    for _, row in table.iterrows():
        budget = row["budget"].replace("time", "seconds")
        mean, *_, fails, spent, levels = own["digits", CAUSES[tuple(row[axes])], row["algorithm"], budget]
        assert float(row["mean"]) == pytest.approx(mean)
        assert float(row["lost"]) == pytest.approx(levels[1.0] - levels[0.05])
        assert float(row["spent"]) == pytest.approx(spent)
        assert re.findall(r"[\d.]+", row["fails"]) == [f"{float(share) / 100!r}" for share in fails]


if __name__ == "__main__":
    record = curves(Path(sys.argv[1]))
    texts = ["data", "method", "sampler", "offline", "protocol"]
    record.astype(dict.fromkeys(texts, "category")).to_parquet(RECORD, compression="zstd", index=False)
    read = read_off(with_causes(pd.read_parquet(RECORD)))
    print(yaml.safe_dump(page_tables(read), allow_unicode=True, width=1000, default_flow_style=None))
    print(*changes(read), sep="\n")
    print(read.groupby(["data", "cause", "budget"])["spent"].first().to_string())
