"""What a method scores along a numeric axis, participation above all, for the same cost at every value of it.

Runs that differ along an axis differ in what they cost too, so that a score at their ends says little.  It
is read off at equal *rounds* (updates of the server), equal *bytes* (on the wire) and equal simulated
*time*.  Each budget is the least that any run had spent when it was last scored, of all methods, values and
replicates of the condition, so that all have got that far; runs that spend nothing are left out of it.
Bytes and time are the same for all that the user chooses (see `budgets`), such as protocols, whose rounds
are not alike.  The score is that of the model in force by then: the last one known, never a later one.  It
is on one test, as in `budgets`: the fixed one, or that of the periods met once all have arrived.

A method's area is its mean score over the axis: trapezoids over the logarithm where the axis is drawn so,
else over the axis, divided by its range.  A method fails at a value where its mean gain over what guessing
reaches (`chance`) is less than half of its best gain along the axis.  Two methods change order where one is
ahead at the easiest value and behind at another, and neither interval of their paired differences contains
zero.

Not modelled: anything outside the values that were run; one exchange, which has nothing to read off before
its end and is compared at equal rounds only; correction for the many pairs and values compared.
"""

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from analysis.axes import best_end, hardest_first, joined, logarithmic, number, ordered, replicates
from analysis.measures.budgets import is_chosen, on_one_test
from analysis.statistics.intervals import counted, interval
from analysis.statistics.ranking import ends
from analysis.statistics.significance import differences

COSTS = {"rounds": "version", "bytes": "moved", "time": "time"}  # columns of a curve
FIGURES = ["mean", "low", "high", "lowest", "highest", "n", "replicates", "units"]


def readings(curves: pd.DataFrame, axis: str, others: list[str]) -> pd.DataFrame:
    """Return the score of every run at each budget of its condition: columns budget, algorithm, `others`,
    axis, replicates, x (SI units), spent (updates, bytes or seconds), score (NaN: none by then), chance.

    `curves` are those of a digest, with a column `chance`; `others` are the sweep's further axes; the axis is
    a numeric one.  Methods that were run at one value of it are left out.
    """
    rows = rows_along(curves, axis, others)
    rows = rows.assign(x=rows[axis].astype(str).map(number))
    found = [rows.iloc[:0].assign(budget="", spent=0.0)]
    given = [other for other in others if not is_chosen(other)]
    costs = rows.groupby([*others, "run"], sort=False, dropna=False)[[*COSTS.values()]].max()
    for _, group in rows.groupby(others, sort=False, dropna=False) if others else [((), rows)]:
        tested, own = on_one_test(group)[0], costs[costs.index.get_level_values("run").isin(group["run"])]
        alike = costs.reset_index().merge(group[given].drop_duplicates()) if given else costs
        for budget, cost in COSTS.items() if own["version"].max() > 1 else [("rounds", "version")]:
            compared = own if budget == "rounds" else alike
            spent = compared.loc[compared[cost] > 0, cost].min()
            held = tested[tested[cost] <= spent].groupby("run", sort=False).tail(1)
            none = group[~group["run"].isin(held["run"])].drop_duplicates("run").assign(score=float("nan"))
            found.append(pd.concat([held, none]).assign(budget=budget, spent=float(spent)))
    names = ["budget", "algorithm", *others, axis, *replicates(curves.columns), "x", "spent", "score", "chance"]
    return pd.concat(found, ignore_index=True)[names]


def areas(rows: pd.DataFrame, axis: str, others: list[str]) -> pd.DataFrame:
    """Return mean and interval of each method's area, a row a budget and condition: columns budget,
    algorithm, `others`, spent, FIGURES (see levels), lost (the score at the easiest value less that at the
    hardest), fails (values of the axis, as a text).

    A replicate that lacks a value of the axis that others of its condition have does not count.
    """
    by = ["budget", "algorithm", *others]
    found = []
    for key, group in rows.groupby(by, sort=False, dropna=False):
        table = group.set_index([*replicates(rows.columns), "x"])["score"].unstack("x").dropna()
        x = table.columns.to_numpy(float)
        x = np.log10(x) if logarithmic(x) else x
        own = table.index.to_frame(index=False).assign(area=np.trapezoid(table.to_numpy(), x, axis=1) / np.ptp(x))
        if len(own) and len(x) > 1:
            means = group.groupby(axis)["score"].mean()
            gains = means - np.nan_to_num(group["chance"].max())
            fails = joined(ordered(gains.index[gains < gains.max() / 2]))
            line = hardest_first(axis, means.index)
            found.append({**dict(zip(by, key, strict=True)), **_figures(own, "area")})
            found[-1] |= {"spent": group["spent"].iloc[0], "lost": means[line[-1]] - means[line[0]], "fails": fails}
    return pd.DataFrame(found, columns=[*by, "spent", *FIGURES, "lost", "fails"])


def changes(rows: pd.DataFrame, axis: str, others: list[str]) -> pd.DataFrame:
    """Return the pairs of methods that change order, a row for each value at which they have: columns budget,
    `others`, algorithm (ahead at the easiest value), rival, lead, lead_low, lead_high (there), axis, lag,
    lag_low, lag_high (at that value).
    """
    found = []
    for key, group in rows.groupby(by := ["budget", *others], sort=False, dropna=False):
        runs = dict([*group.groupby([axis, "algorithm"], sort=False)])
        means = {place: cell["score"].mean() for place, cell in runs.items()}
        first = best_end(axis, list(group[axis]))
        pairs = permutations(group["algorithm"].unique(), 2)
        for one, rival in ((a, b) for a, b in pairs if {(first, a), (first, b)} <= {*runs}):
            for value in ordered(group[axis]):
                if (value, one) in means and means[value, one] < means.get((value, rival), 0.0):
                    lead, lag = (differences(runs[at, one], runs[at, rival], "score")[1] for at in (first, value))
                    if lead.low > 0 > lag.high:
                        apart = [one, rival, lead.mean, lead.low, lead.high, value, -lag.mean, -lag.high, -lag.low]
                        found.append([*key, *apart])
    names = ["algorithm", "rival", "lead", "lead_low", "lead_high", axis, "lag", "lag_low", "lag_high"]
    return pd.DataFrame(found, columns=[*by, *names])


def levels(rows: pd.DataFrame, axis: str, others: list[str]) -> pd.DataFrame:
    """Return the mean score and its 95 % interval along an axis, nesting respected (see intervals).

    One row for each algorithm and place: columns budget, algorithm, `others`, axis, x (SI units), mean, low,
    high, lowest, highest, n, replicates (what they are), units (the values that the mean is of, where they
    are too few for an interval). Places without a score are left out.
    """
    by = ["budget", "algorithm", *others, axis, "x"]
    groups = rows.dropna(subset="score").groupby(by, sort=False)
    means = [{**dict(zip(by, key, strict=True)), **_figures(runs, "score")} for key, runs in groups]
    return pd.DataFrame(means, columns=[*by, *FIGURES])


def _figures(runs: pd.DataFrame, value: str) -> dict[str, Any]:
    """Return the FIGURES of a column over the runs of one method and condition."""
    found = interval(runs, value)
    return {**ends("", found), "n": len(runs), "replicates": counted(runs), "units": found.few}


def rows_along(frame: pd.DataFrame, axis: str, others: list[str]) -> pd.DataFrame:
    """Return the rows of those conditions in which the axis has at least two values: columns algorithm, `others`."""
    values = frame.groupby(["algorithm", *others], sort=False, dropna=False)[axis].transform("nunique")
    return frame[values > 1]


def crossed(frame: pd.DataFrame, axes: tuple[str, str], others: list[str]) -> pd.DataFrame:
    """Return the rows of those conditions in which each axis has two values at least, and all pairs were run."""
    groups = frame.groupby(["algorithm", *others], sort=False, dropna=False)
    across, down = (groups[axis].transform("nunique") for axis in axes)
    pair = pd.Series(list(zip(*(frame[axis] for axis in axes), strict=True)), index=frame.index, dtype="object")
    pairs = pair.groupby([frame[name] for name in ("algorithm", *others)], sort=False, dropna=False)
    return frame[(across > 1) & (down > 1) & (pairs.transform("nunique") == across * down)]
