"""The answer to a scenario's question, in words that are computed from its runs.

Who comes first to the target, in time and in bytes, and whose final score is best: each is said once for all conditions
in which it is the same, with whether the lead is more than chance. Where one algorithm was run, the protocols (or
models, or codecs) are compared instead if they vary, and else its figures are told.

Not modelled: rules for metrics of which less is better; what is left to the tables when there are many conditions.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from analysis.axes import ordered
from analysis.cells import ranged
from analysis.contest import Outcome, contest
from analysis.groups import everywhere, grouped, joined, where
from analysis.intervals import FEWEST
from analysis.quantity import BYTES, PERCENT, SECONDS, show
from analysis.ranking import headline
from analysis.verdict import condition_of

MOST = 6  # groups of conditions that a sentence can tell
COMPARED = ("algorithm", "protocol", "model", "network.codec.up", "network.codec.down", "data.partition", "data.stream")
Units = list[tuple[float, str]]


@dataclass(frozen=True)
class Finding:
    """One sentence of the answer: what it is about, and what was found."""

    about: str
    found: str


@dataclass(frozen=True)
class Words:
    """How the outcomes of one measure are told: its units, what the first does, and what it means to have a value."""

    units: Units
    leads: str
    reaches: str = ""  # "" where every run has the value


TIME = Words(SECONDS, "leads", "gets there")
BYTE = Words(BYTES, "needs the fewest", "gets there")
SCORE = Words(PERCENT, "is best")
TOOK = Words(SECONDS, "is fastest")
MOVED = Words(BYTES, "moves the fewest bytes")


def compared(points: pd.DataFrame, axes: Sequence[str]) -> str:
    """Return the column whose values are compared: the algorithm, or what else was chosen where there is but one."""
    varied = [name for name in COMPARED if name in points and points[name].nunique() > 1]
    return varied[0] if varied and (varied[0] == "algorithm" or varied[0] in axes) else "algorithm"


def conditions(points: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Return the axes that vary, but for the one that is compared."""
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


def findings(points: pd.DataFrame, axes: Sequence[str], metric: str) -> list[Finding]:
    """Return what was found, the target first; of points without scores how long they took, and how much moved.

    `points` are finished ones, with bytes_moved.
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
        if any(one.kind not in ("some", "none") for one in known.times):
            found.append(Finding("Bytes to it", sentence(known.moved, BYTE)))
    final = f"Final {metric}{_final_on(points)}" + ("" if len(goals) else f" ({runs})")
    return [*found, Finding(final, sentence(known.best, SCORE))]


def sentence(outcomes: Sequence[Outcome], words: Words) -> str:
    """Return the outcomes of all conditions in one sentence, those of one answer together.

    Where that makes too many parts, how sure a lead is is not told; where it still does, they are counted.
    """
    for answer in (partial(_answer, words), _leader):
        groups = grouped(outcomes, _place, answer)
        if len(groups) <= MOST:
            break
    else:
        return _counted(outcomes, words)
    values = {axis: ordered(one.place[axis] for one in outcomes) for axis in outcomes[0].place}
    parts = []
    for group in groups:
        every = everywhere(group, _place)
        parts.append(" ".join(filter(None, [where(group.way, values), _told(group.members, words, every)])))
    told = "; ".join(parts)
    names = {name for one in outcomes for name in one.names}
    return f"{told if told.startswith(tuple(names)) else told[0].upper() + told[1:]}."


def caution(points: pd.DataFrame, axes: Sequence[str]) -> str:
    """Return what a lead stands on: a test, or too few replicates for one; "" where nothing is compared."""
    who = compared(points, axes)
    if points[who].nunique() < 2:
        return ""
    by = [*conditions(points, axes), who]
    if int(points.groupby(by, sort=False).size().min()) < FEWEST:
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


def _place(one: Outcome) -> dict[str, str]:
    return one.place


def _answer(words: Words, one: Outcome) -> Hashable:
    """Return what makes two conditions' answers the same."""
    if one.kind == "alone":
        return show(one.value, words.units)
    sure = one.only, one.tested, one.always or one.tested
    return (*_leader(one), *sure) if one.kind == "lead" else (*_leader(one), one.tested)


def _leader(one: Outcome) -> tuple[Hashable, ...]:
    """Return who is first, or that nobody is."""
    return one.kind, frozenset(one.names) if one.kind in ("lead", "level") else None


def _told(members: Sequence[Outcome], words: Words, every: str) -> str:
    """Return what happens in conditions of one answer; `every` says where these are."""
    first = members[0]
    if first.kind in ("some", "none"):
        return _not_there(members, words, every.replace("at every", "at any"))
    figures = _figures(members, words.units)
    if first.kind == "alone":
        return f"{figures} {every}".strip()
    following = f"; next {first.rival}, {show(first.behind, words.units)}" if first.rival and len(members) == 1 else ""
    lead, doubt = _leading(members, words)
    told = " ".join(filter(None, [lead, every]))
    return f"{told}{f', {doubt}' if doubt else ''} ({figures}{following})"


def _leading(members: Sequence[Outcome], words: Words) -> tuple[str, str]:
    """Return who is first, and what makes that doubtful, "" if nothing does."""
    first = members[0]
    best = first.names[0]
    if first.kind == "level":
        if not all(one.tested for one in members):
            return f"{joined(first.names)} are level", ""
        if not first.missing and len(first.names) == first.compared:
            return "no difference is significant", f"{best} ahead on average"
        return f"{joined(first.names)} are ahead", "without a significant difference between them"
    if words.reaches and all(one.only for one in members):
        return f"only {best} {words.reaches} in every run", ""
    sure = all(one.tested or one.always for one in members)
    return f"{best} {words.leads}", "" if sure else "on average but not in every run"


def _not_there(members: Sequence[Outcome], words: Words, every: str) -> str:
    """Return that nobody has the value in every run, and who has it in some."""
    if not words.reaches:
        return f"nothing was scored {every}".strip()
    nobody = "it is not reached" if members[0].compared == 1 else f"nobody {words.reaches}"
    if members[0].kind == "none":
        return f"{nobody} {every}".strip()
    some = [f"{name} in {share}" for name, share in zip(members[0].names, members[0].share, strict=True)]
    return f"{nobody} in every run {every if len(members) > 1 else f'({joined(some)})'}".strip()


def _figures(members: Sequence[Outcome], units: Units) -> str:
    values = [one.value for one in members]
    return ranged(min(values), max(values), units)


def _counted(outcomes: Sequence[Outcome], words: Words) -> str:
    """Return how often each is first, for too many conditions to tell one by one."""
    known = [one for one in outcomes if one.kind not in ("some", "none")]
    if known and all(one.kind == "alone" for one in known):
        least, most = (end(known, key=lambda one: one.value) for end in (min, max))
        parts = [f"{show(one.value, words.units)} at {condition_of(one.place)}" for one in (least, most)]
        told = [f"from {parts[0]} to {parts[1]}"]
    else:
        wins = Counter(one.names[0] for one in known if one.kind == "lead")
        told = [
            f"of {len(outcomes)} conditions, {joined([f'{name} {words.leads} in {n}' for name, n in wins.items()])}"
        ]
    if level := sum(one.kind == "level" for one in known):
        told.append(f"in {level} no lead is significant")
    if rest := len(outcomes) - len(known):
        told.append(f"in {rest} of {len(outcomes)} nobody {words.reaches or 'was scored'} in every run")
    whole = "; ".join(told)
    return f"{whole[0].upper()}{whole[1:]}. All conditions are listed below."
