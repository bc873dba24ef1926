"""The answer to a scenario's question, in words computed from its runs.

Who comes first to the target, in time and in bytes, and whose final score is best: each is stated once for all
conditions that share it, with whether the lead is significant. If only one algorithm was run, the protocols (or models,
or codecs) are compared if they vary; otherwise its figures are reported.

Not modelled: metrics that are better when lower; details of many conditions, which are in the tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.contest import Outcome, contest
from analysis.intervals import FEWEST
from analysis.ranking import headline
from analysis.whole_stream import from_the_start
from analysis.wording import BYTE, MOVED, SAME_LEADERS, SCORE, TIME, TOOK, amounts_of, same_leaders, sentence

MOST = 6  # groups of conditions in one sentence
COMPARED = ("algorithm", "protocol", "model", "network.codec.up", "network.codec.down", "data.partition", "data.stream")
Units = list[tuple[float, str]]


@dataclass(frozen=True)
class Finding:
    """One sentence of the answer: its subject, and what was found."""

    about: str
    found: str


def compared(points: pd.DataFrame, axes: Sequence[str]) -> str:
    """Return the column whose values are compared: the algorithm, or another choice if there is only one algorithm."""
    varied = [name for name in COMPARED if name in points and points[name].nunique() > 1]
    return varied[0] if varied and (varied[0] == "algorithm" or varied[0] in axes) else "algorithm"


def conditions(points: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Return the axes that vary, except the one that is compared."""
    who = compared(points, axes)
    return [axis for axis in axes if axis != who and points[axis].nunique() > 1]


@dataclass(frozen=True)
class Races:
    """Who is first in each condition: in time and bytes to the target, and by the final score."""

    times: list[Outcome]
    moved: list[Outcome]
    best: list[Outcome]


def races(points: pd.DataFrame, axes: Sequence[str]) -> Races:
    """Return the outcomes of every condition, in the order of the points, which are finished ones."""
    who, others = compared(points, axes), conditions(points, axes)
    times, moved = (contest(points, others, who, f"{cost}_to_target", least=True) for cost in ("seconds", "bytes"))
    return Races(times, moved, contest(points, others, who, headline(points), least=False))


def findings(
    points: pd.DataFrame, axes: Sequence[str], metric: str, curves: pd.DataFrame | None = None
) -> list[Finding]:
    """Return the findings, the target first; for points without scores, how long they took and how many bytes moved.

    `points` are finished ones, with bytes_moved; `curves` are those of digest.Digest.
    """
    who, others = compared(points, axes), conditions(points, axes)
    runs = replicates_of(points, [*others, who])
    if points["score"].isna().all():
        took, moved = (contest(points, others, who, cost, least=True) for cost in ("sim_seconds", "bytes_moved"))
        found = [Finding(f"Simulated time ({runs})", sentence(took, TOOK))]
        return [*found, Finding("Bytes moved on the wire", sentence(moved, MOVED))]
    found, known = [], races(points, axes)
    goals = points["target"].dropna().unique()
    if len(goals):
        goal = f"{goals[0] * 100:g} % {metric}" if len(goals) == 1 else "the target"
        found.append(Finding(f"Time to {goal}{on_periods(points)} ({runs})", sentence(known.times, TIME)))
        if whole := from_the_start(points, curves, who, others) if curves is not None else "":
            found.append(Finding("Tested on all periods from the start", whole))
        if any(one.kind not in ("some", "none") for one in known.times):
            found.append(Finding("Bytes to it", _bytes(known)))
    final = f"Final {metric}{_final_on(points)}" + ("" if len(goals) else f" ({runs})")
    return [*found, Finding(final, sentence(known.best, SCORE))]


def _bytes(known: Races) -> str:
    """Return who needs the fewest bytes to the target, briefly if the same methods are first in time."""
    if known.moved[0].compared > 1 and same_leaders(known.times, known.moved):
        return f"{SAME_LEADERS} as in time: {amounts_of(known.moved, BYTE)}."
    return sentence(known.moved, BYTE)


def caution(points: pd.DataFrame, axes: Sequence[str]) -> str:
    """Return how leads are established: by a test, or with too few replicates for one; "" if nothing is compared."""
    who = compared(points, axes)
    if points[who].nunique() < 2:
        return ""
    by = [*conditions(points, axes), who]
    sizes = points.groupby(by, sort=False).size()
    if sizes.min() < FEWEST <= sizes.max():
        return (
            f"A method is named first where paired differences from each of the others exclude zero (95 %), or, with "
            f"fewer than {FEWEST} runs of a condition, where it was ahead in every run."
        )
    if sizes.max() < FEWEST:
        return (
            f"With {replicates_of(points, by)} no lead can be tested for significance, which takes {FEWEST}: a method "
            "is named first where it was ahead in every run, unless said otherwise."
        )
    return (
        "A method is named first where paired differences from each of the others exclude zero (95 %); nothing is "
        "corrected for the number of comparisons."
    )


def replicates_of(points: pd.DataFrame, by: Sequence[str]) -> str:
    """Return how many runs a mean is over: "2 seeds", "3 to 5 runs"."""
    groups = points.groupby(list(by), sort=False)
    sizes, seeds = groups.size(), groups["seed"].nunique()
    least, most = int(sizes.min()), int(sizes.max())
    if least != most:
        return f"{least} to {most} runs"
    what = "seed" if (seeds == sizes).all() else "run"
    return f"{most} {what}{'' if most == 1 else 's'}"


def on_periods(points: pd.DataFrame) -> str:
    """Return what a target counts on: " on all 5 periods", " on each period", or nothing for a single one."""
    rules = set(points.loc[points["target"].notna(), "target_on"])
    if rules == {"each_period"}:
        return " on each period, from its arrival on"
    return _all_periods(points)


def _final_on(points: pd.DataFrame) -> str:
    return _all_periods(points) if headline(points) == "am" or points["periods"].max() > 1 else ""


def _all_periods(points: pd.DataFrame) -> str:
    known = points["periods"].dropna().round(6).unique()
    if len(known) == 1 and known[0] > 1:
        return f" on all {known[0]:g} periods"
    return " on all periods" if len(known) > 1 or points["fm"].notna().any() else ""
