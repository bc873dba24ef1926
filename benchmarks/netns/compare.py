"""Compare: how far simulated whole runs are from real ones, and whether they come in the same order."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

SAME = 0.02  # relative difference below which two runs cannot be told apart


def rows(cases: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each case, from one for each real run (`case`, `control`, `half`, `real`, `simulated`).

    `simulated` is the tuple of a case's simulated seconds, `spread` a range as a share of the median, and `covered` the
    share of real runs within the range of the simulated ones, widened by 2 %.
    """
    found = []
    for name, group in cases.groupby("case", sort=False):
        real, simulated = group["real"].to_numpy(), np.array(group["simulated"].iloc[0])
        low, high = simulated.min() * (1 - SAME), simulated.max() * (1 + SAME)
        found.append({
            "case": name, "scenario": group["scenario"].iloc[0], "control": group["control"].iloc[0],
            "half": group["half"].iloc[0], "real": np.median(real), "simulated": np.median(simulated),
            "error": np.median(simulated) / np.median(real) - 1, "runs": len(real),
            "real_spread": np.ptp(real) / np.median(real), "simulated_spread": np.ptp(simulated) / np.median(simulated),
            "covered": np.mean((real >= low) & (real <= high)),
        })  # fmt: skip
    return pd.DataFrame(found)


def groups(cases: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of each scenario, congestion control and half, in percent."""
    found = []
    for key, group in cases.groupby(["scenario", "control", "half"], sort=False):
        error = 100 * group["error"]
        found.append([
            *key, len(group), error.median(), error.min(), error.max(), error.abs().median(),
            100 * group["real_spread"].median(), 100 * group["simulated_spread"].median(),
            100 * group["covered"].mean(),
        ])  # fmt: skip
    heads = "scenario control half cases median least most absolute real_spread simulated_spread covered"
    return pd.DataFrame(found, columns=heads.split())


def agreement(real: Sequence[float], simulated: Sequence[float]) -> float:
    """Return Kendall's tau over the pairs whose real seconds differ by more than 2 %; NaN if there is none."""
    signs = [
        np.sign(one[0] - other[0]) * np.sign(one[1] - other[1])
        for one, other in itertools.combinations(zip(real, simulated, strict=True), 2)
        if abs(one[0] - other[0]) > SAME * min(one[0], other[0])
    ]
    return float(np.mean(signs)) if signs else float("nan")


def order(cases: pd.DataFrame, groups: Iterable[Sequence[str]]) -> float:
    """Return the mean agreement within groups of cases, by their names."""
    found = [
        agreement(own["real"].tolist(), own["simulated"].tolist())
        for names in groups
        if len(own := cases[cases["case"].isin(names)]) > 1
    ]
    return float(np.nanmean(found)) if found else float("nan")
