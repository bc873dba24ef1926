"""The answer to a scenario's question: who is first under each condition, as a grid of two axes or a list.

In each cell stands the method that is first at the target, or those that are tied, with their time and bytes to it;
without a target who ends highest, and without scores who is fastest.  If only one algorithm was run, the protocols (or
models, or codecs) are compared if they vary; otherwise its own figures are shown.

Not modelled: metrics that are better when lower.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.axes import condition_of, joined, ordered, short
from analysis.quantity import BYTES, PERCENT, SECONDS, Units, many
from analysis.report.cells import ranged
from analysis.report.page import note
from analysis.statistics.intervals import FEWEST
from analysis.statistics.significance import Comparison, comparisons

COMPARED = ("algorithm", "protocol", "model", "network.codec.up", "network.codec.down", "data.partition", "data.stream")
MOST_COLUMNS = 5  # of a grid; a longer pair of axes is a list
MOST_ROWS = 40
NOBODY = "nobody"


@dataclass(frozen=True)
class Races:
    """The comparisons of every condition: in time and bytes to the target, and by the score at the end."""

    times: list[Comparison]
    moved: list[Comparison]
    best: list[Comparison]


@dataclass(frozen=True)
class Entry:
    """One condition's answer: who is first, and the amounts that this took."""

    who: str
    amounts: tuple[str, ...] = ()

    @property
    def parts(self) -> list[str]:
        """Who, if several are compared, and each amount."""
        return [*filter(None, (self.who, *self.amounts))]


@dataclass(frozen=True)
class Grid:
    """Who is first where: `title` says at what, `heads` are of the rows' labels and of each column, `rows` a label and
    its entries.

    `note` says how a cell is read, `left_out` counts conditions beyond MOST_ROWS.
    """

    title: str
    heads: list[str]
    rows: list[tuple[str, list[Entry]]]
    note: str
    left_out: int = 0


def compared(points: pd.DataFrame, axes: Sequence[str]) -> str:
    """Return the column whose values are compared: the algorithm, or another choice if there is only one algorithm."""
    varied = [name for name in COMPARED if name in points and points[name].nunique() > 1]
    return varied[0] if varied and (varied[0] == "algorithm" or varied[0] in axes) else "algorithm"


def conditions(points: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Return the axes that vary, except the one that is compared."""
    who = compared(points, axes)
    return [axis for axis in axes if axis != who and points[axis].nunique() > 1]


def races(points: pd.DataFrame, axes: Sequence[str]) -> Races:
    """Return the comparisons of every condition, in the order of the points, which are finished ones."""
    who, others = compared(points, axes), conditions(points, axes)
    times, moved = (
        comparisons(points, others, who, f"{cost}_to_target", lower_is_better=True) for cost in ("seconds", "bytes")
    )
    return Races(times, moved, comparisons(points, others, who, "score", lower_is_better=False))


def grid(points: pd.DataFrame, axes: Sequence[str], metric: str, known: Races | None = None) -> Grid:
    """Return the answer, for finished points with bytes_moved: by two axes a grid, otherwise a list of conditions.

    `known` are the points' races, if they have been compared already.
    """
    who, others = compared(points, axes), conditions(points, axes)
    several, known = points[who].nunique() > 1, known or races(points, axes)
    if points["score"].isna().all():
        took, moved = (
            comparisons(points, others, who, cost, lower_is_better=True) for cost in ("sim_seconds", "bytes_moved")
        )
        title = "Fastest" if several else "Time and bytes"
        entries = [_first(fast, cheap, several) for fast, cheap in zip(took, moved, strict=True)]
    elif points["target"].notna().any():
        title = f"{'First at' if several else 'Time and bytes to'} {goal(points, metric)}"
        entries = [_first(fast, cheap, several) for fast, cheap in zip(known.times, known.moved, strict=True)]
    else:
        title = f"Highest {metric} at the end" if several else f"{metric.capitalize()} at the end"
        entries = [_highest(best, several) for best in known.best]
    words = _read(points, [*others, who], several)
    places = [one.condition for one in known.times]
    if len(others) == 2 and min(points[axis].nunique() for axis in others) <= MOST_COLUMNS:
        across = min(others, key=lambda axis: points[axis].nunique())
        (down,) = [axis for axis in others if axis != across]
        columns, rows = (ordered(place[axis] for place in places) for axis in (across, down))
        at = {(place[down], place[across]): entry for place, entry in zip(places, entries, strict=True)}
        heads = [short(down), *(f"{short(across)} {value}" for value in columns)]
        body = [(row, [at.get((row, column), Entry("–")) for column in columns]) for row in rows]
    else:
        heads = [short(others[0]) if len(others) == 1 else "condition" if others else "", ""]
        names = [str(place[others[0]]) if len(others) == 1 else condition_of(place) for place in places]
        body = [(name, [entry]) for name, entry in zip(names, entries, strict=True)]
    return Grid(title, heads, body[:MOST_ROWS], words, max(0, len(body) - MOST_ROWS))


def goal(points: pd.DataFrame, metric: str) -> str:
    """Return the target in words, "70 % accuracy", without its value if points differ."""
    targets = points["target"].dropna().unique()
    return f"{targets[0] * 100:g} % {metric}" if len(targets) == 1 else "the target"


def replicates_of(points: pd.DataFrame, by: Sequence[str]) -> str:
    """Return how many runs a mean is over: "2 seeds", "3 to 5 runs"."""
    groups = points.groupby(list(by), sort=False)
    sizes, seeds = groups.size(), groups["seed"].nunique()
    least, most = int(sizes.min()), int(sizes.max())
    if least != most:
        return f"{least} to {most} runs"
    return many(most, "seed" if (seeds == sizes).all() else "run")


def incomplete(one: Comparison) -> str:
    """Return who has the value in some runs only: "POWER in 4 of 5 runs"."""
    some = sorted(one.incomplete.items(), key=lambda item: -item[1][0])
    return joined([f"{name} in {got} of {runs} runs" for name, (got, runs) in some if got])


def _first(fast: Comparison, cheap: Comparison, several: bool) -> Entry:
    """Return who is first, with the leaders' means of time and bytes."""
    if fast.at_once:
        return Entry("not ranked", (f"{fast.at_first} of {fast.known} runs at the first score that counts",))
    if not fast.leaders:
        return Entry(NOBODY, tuple(filter(None, [incomplete(fast)])))
    amounts = (_range_of(fast, fast.leaders, SECONDS), _range_of(cheap, fast.leaders, BYTES))
    return Entry(" / ".join(fast.leaders) if several else "", amounts)


def _highest(best: Comparison, several: bool) -> Entry:
    if not best.leaders:
        return Entry("nothing scored")
    return Entry(" / ".join(best.leaders) if several else "", (_range_of(best, best.leaders, PERCENT),))


def _range_of(comparison: Comparison, names: Sequence[str], units: Units) -> str:
    means = [comparison.means[name] for name in names]
    return ranged(min(means), max(means), units)


def _read(points: pd.DataFrame, by: list[str], several: bool) -> str:
    """Return how a cell is read: over how many runs a mean is, and who shares a cell."""
    sizes = points.groupby(by, sort=False).size()
    targeted = bool(points["target"].notna().any() and points["score"].notna().any())
    return note(
        "answer", several=several, tested=bool(sizes.min() >= FEWEST), fewest=FEWEST, targeted=targeted, nobody=NOBODY,
        several_runs=bool(sizes.max() > 1), replicates=replicates_of(points, by),
    )  # fmt: skip
