"""Run a claim's command again, and hold the recorded value against the result.

The recorded value holds if it lies within the 95 % interval of the rerun, which there is from five units on
(see intervals).  With fewer the rerun's mean must lie within the recorded interval, and without one of either, equal
the recorded value as rounded: a run is repeatable, and only another processor or version of torch may differ.
Scores are compared in percent, bytes in MB, as recorded.
"""

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.axes import replicates
from analysis.claims.file import Claim, ClaimsError
from analysis.measures.forgetting import average_accuracy, forgetting, just_learned, matrix
from analysis.read.stored import POINTS
from analysis.statistics.intervals import Interval, interval

ROOT = Path(__file__).resolve().parents[2]
OF = {"am": average_accuracy, "la": just_learned, "fm": forgetting}


@dataclass(frozen=True)
class Outcome:
    """What a rerun has found, and whether the recorded value holds."""

    found: Interval
    held: bool
    why: str  # what was compared with what


def rerun(claim: Claim, out: Path) -> Outcome:
    """Run the claim's command into `out`, and compare.

    Raise ClaimsError where no command or no metric is recorded, or a run failed.
    """
    if claim.table.scenario is None:
        raise ClaimsError(f"{claim.name}: no command is known; {claim.table.note}")
    if claim.metric is None:
        where = f"{claim.command}; how its number is read off is not recorded"
        raise ClaimsError(f"{claim.name} cannot be rerun by name: the command of its table is {where}")
    own = measured(claim, claim.metric, claim.options, out / "own")
    if claim.baseline is not None and claim.baseline_metric is not None:
        own = differences(own, measured(claim, claim.baseline_metric, claim.baseline, out / "baseline"))
    return judged(claim, interval(own, "value"))


def measured(claim: Claim, metric: str, options: Sequence[str], out: Path) -> pd.DataFrame:
    """Run the scenario with these options; return a row a point, with its replicates and `value`."""
    assert claim.table.scenario is not None
    given = [part for option in options for part in ("--set", option)]
    command = [sys.executable, "-m", "fedsim", str(ROOT / claim.table.scenario), *given, "--out", str(out)]
    if subprocess.run(command, check=False).returncode:
        raise ClaimsError(f"{claim.name}: the command failed, see above: {' '.join(command)}")
    frame = pd.read_csv(out / "summary.csv")
    return frame[replicates(frame.columns)].assign(value=[value_of(row, metric, out) for _, row in frame.iterrows()])


def value_of(row: "pd.Series[Any]", metric: str, out: Path) -> float:
    """Return a point's value, in percent, MB, or the unit of its column in summary.csv."""
    name, *where = metric.split()
    found: float | None
    if where == ["partitions"]:
        divided = pd.read_parquet(out / POINTS / str(row["run"]) / "partitions.parquet")
        found = float((divided[name] / divided["edges"]).mean())
    elif where:
        model, split, *named = where
        scores = pd.read_parquet(out / POINTS / str(row["run"]) / "scores.parquet")
        of, _, by = name.partition("@")  # am@21: after the update of that number
        scores = scores[scores["version"] <= int(by)] if by else scores
        found = OF[of](matrix(scores, model, named[0] if named else str(row["metric"]), split))
    else:
        found = float(row[name])
    if found is None or math.isnan(found):
        raise ClaimsError(f"{out / POINTS / str(row['run'])} has no {metric!r}: the scenario does not measure it")
    factor = 1e-6 if name.startswith("bytes") else 1.0 if "seconds" in name.split("_") else 100.0
    return factor * found


def differences(own: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the values less those of the same replicates.  Raise ClaimsError where these are not the same."""
    keys = replicates(own.columns)
    both = own.merge(other, on=keys, suffixes=("", "_other"), validate="one_to_one")
    if len(both) != len(own) or len(both) != len(other):
        raise ClaimsError(f"{len(own)} runs cannot be paired with {len(other)} by {', '.join(keys)}")
    return both[keys].assign(value=both["value"] - both["value_other"])


def judged(claim: Claim, found: Interval) -> Outcome:
    """Return whether the recorded value holds."""
    slack = 0.5 * 10.0**-claim.decimals + 1e-9  # of rounding
    mean = f"{found.mean:.{claim.decimals}f}"
    if not math.isnan(found.low):
        held, said = found.low - slack <= claim.value <= found.high + slack, shown(found, claim.decimals)
    elif claim.low is not None and claim.high is not None:
        held, said = claim.low - slack <= found.mean <= claim.high + slack, f"{mean}, of few units"
    else:
        held, said = abs(found.mean - claim.value) <= slack, f"{mean}, no interval of either"
    return Outcome(found, held, f"recorded {claim.text}, rerun {said}")


def shown(found: Interval, decimals: int) -> str:
    """Return mean and interval as cells show them."""
    return f"{found.mean:.{decimals}f} ({found.low:.{decimals}f} to {found.high:.{decimals}f})"
