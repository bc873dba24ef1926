"""The report on energy, carbon and money: the table and its ranges, who pays, and scores against what was spent."""

import pandas as pd
import pytest
from test_privacy_section import Kept

from analysis.read.load import COSTS
from analysis.report.costs_section import costs_section

SPENT = {"fedavg": 1000.0, "power": 4000.0}


def points():
    rows = []
    for algorithm, joules in SPENT.items():
        for seed in (0, 1):
            row = {"run": f"run/{algorithm}{seed}", "algorithm": algorithm, "seed": str(seed)}
            for name in COSTS:
                share = {"_low": 0.25, "_high": 3.0, "_clients": 0.5, "_network": 0.3, "_server": 0.2}
                of = next((part for end, part in share.items() if name.endswith(end)), 1.0)
                row[name] = joules * of * (1.0 + seed / 10)
            rows.append(row)
    return pd.DataFrame(rows)


def written(folder, frame):
    """The costs of each point at seconds 1 and 2: a quarter, then all, in two parts."""
    folders, curves = {}, []
    for point, algorithm, joules in frame[["run", "algorithm", "joules"]].itertuples(index=False):
        own = folders[point] = folder / point
        own.mkdir(parents=True)
        rows = [
            {"time": time, "payer": payer, "part": "computing", "joules": joules * of / 2, "grams": joules * of / 20}
            for time, of in ((1.0, 0.25), (2.0, 1.0))
            for payer in ("clients", "server")
        ]
        pd.DataFrame(rows).to_parquet(own / "costs.parquet")
        for time, score in ((1.0, 0.5), (2.0, 0.75)):
            curves.append({"run": point, "algorithm": algorithm, "time": time, "score": score})
    return folders, pd.DataFrame(curves)


def test_costs_have_their_range_their_payers_and_the_scores_they_bought(tmp_path):
    frame, files = points(), Kept()
    folders, curves = written(tmp_path, frame)
    html = costs_section(frame, curves, folders, [], "accuracy", None, files)
    for shown in ("1.05 kJ", "262 J to 3.15 kJ", "525 J", "315 J", "210 J", "Estimates, not measurements"):
        assert shown in html
    assert files.tables["costs"]["joules"].tolist() == pytest.approx([1050, 4200])
    bars = files.drawings["costs_joules"]["datasets"]["rows"]
    assert sum(bar["amount"] for bar in bars if bar["algorithm"] == "fedavg") == pytest.approx(1.05)
    for x, most in (("joules", 4.0), ("grams", 400.0)):
        drawn = [row for row in files.drawings[f"score_{x}"]["datasets"]["rows"] if row["algorithm"] == "power"]
        assert drawn[-1]["x"] == pytest.approx(most * 1.1)
        assert drawn[-1]["score"] == 0.75
        assert drawn[0]["score"] == 0.5


def test_runs_without_prices_have_no_part(tmp_path):
    files = Kept()
    bare = points().drop(columns=COSTS)
    assert costs_section(bare, pd.DataFrame(), {}, [], "accuracy", None, files) == ""
    assert files.tables == {}
