"""Describe the outcomes of all conditions in one sentence, grouping conditions that share an answer.

Details of many conditions are left to the tables.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from analysis.axes import ordered
from analysis.cells import ranged, ranged_pair, shown_in_points
from analysis.contest import Outcome
from analysis.groups import Group, everywhere, grouped, joined, where
from analysis.quantity import BYTES, PERCENT, SECONDS, show
from analysis.verdict import condition_of

SAME_LEADERS = "The leaders are the same"
MOST = 6  # groups of conditions in one sentence
Units = list[tuple[float, str]]


@dataclass(frozen=True)
class Words:
    """How the outcomes of one measure are worded: units, the verb for the first, the phrase for a value."""

    units: Units
    leads: str
    reaches: str = ""  # "" if every run has the value
    apart: bool = False  # whether a tested lead is given in percentage points


TIME = Words(SECONDS, "leads", "gets there")
BYTE = Words(BYTES, "needs the fewest", "gets there")
SCORE = Words(PERCENT, "is best", apart=True)
TOOK = Words(SECONDS, "is fastest")
MOVED = Words(BYTES, "moves the fewest bytes")


def sentence(outcomes: Sequence[Outcome], words: Words) -> str:
    """Return the outcomes of all conditions in one sentence, those of one answer together, those of none at the end.

    If there are too many parts, significance is left out; if there still are, the outcomes are counted.
    """
    groups = _groups(outcomes, words)
    if groups is None:
        return _counted(outcomes, words)
    whole = _clauses(outcomes, groups, words)
    names = {name for one in outcomes for name in one.names}
    return f"{whole if whole.startswith(tuple(names)) else whole[0].upper() + whole[1:]}."


def except_where(outcomes: Sequence[Outcome], others: Sequence[Outcome], words: Words) -> str:
    """Return the conditions in which the leaders differ from those of `others`, which are in the same order."""
    if same_leaders(outcomes, others):
        return f"{SAME_LEADERS}."
    differing = [one for one, other in zip(outcomes, others, strict=True) if _leader(one) != _leader(other)]
    groups = grouped(outcomes, _place, lambda one: (one in differing, one in differing and _answer(words, one)))
    kept = [group for group in groups if group.members[0] in differing]
    if len(differing) == len(outcomes) or len(kept) > MOST:
        return sentence(outcomes, words)
    return f"{SAME_LEADERS}, except that {_clauses(outcomes, kept, words)}."


def _clauses(outcomes: Sequence[Outcome], groups: Sequence[Group[Outcome]], words: Words) -> str:
    """Return what happens in each group of the conditions of all outcomes."""
    values = {axis: ordered(one.place[axis] for one in outcomes) for axis in outcomes[0].place}
    everys = [everywhere(group, _place) for group in groups]
    common = everys[0] if len(groups) > 1 and len({*everys}) == 1 else ""
    parts = []
    for group, every in sorted(zip(groups, everys, strict=True), key=lambda one: one[0].members[0].kind == "none"):
        said = _sentence(group.members, words, "" if common else every)
        place = where(group.way, values)
        order = [said, place] if group.members[0].kind == "alone" else [place, said]
        parts.append(" ".join(filter(None, order)))
    return ": ".join(filter(None, [common, "; ".join(parts)]))


def same_leaders(some: Sequence[Outcome], others: Sequence[Outcome]) -> bool:
    """Return whether the same names lead in every condition, in the same order of conditions."""
    return [_leader(one) for one in some] == [_leader(one) for one in others]


def amounts_of(outcomes: Sequence[Outcome], words: Words) -> str:
    """Return what the leaders needed, in the conditions where there is one: "8.09 MB at participation 0.3"."""
    known = [one for one in outcomes if one.kind not in ("some", "none")]
    groups = _groups(known, words)
    if groups is None:
        return _figures(known, words.units)
    values = {axis: ordered(one.place[axis] for one in outcomes) for axis in outcomes[0].place}
    parts = [f"{_figures(group.members, words.units)} {where(group.way, values)}".strip() for group in groups]
    return joined(parts)


def _groups(outcomes: Sequence[Outcome], words: Words) -> list[Group[Outcome]] | None:
    """Return the conditions in groups of one answer; None if that makes too many parts."""
    for answer in (partial(_answer, words), _leader):
        groups = grouped(outcomes, _place, answer)
        if len(groups) <= MOST:
            return groups
    return None


def _place(one: Outcome) -> dict[str, str]:
    return one.place


def _answer(words: Words, one: Outcome) -> Hashable:
    """Return what makes two conditions' answers the same."""
    if one.kind == "alone":
        return show(one.value, words.units)
    sure = one.only, one.tested, one.always or one.tested
    return (*_leader(one), *sure) if one.kind == "lead" else (*_leader(one), one.tested)


def _leader(one: Outcome) -> tuple[Hashable, ...]:
    """Return the leader, or that there is none."""
    return one.kind, frozenset(one.names) if one.kind in ("lead", "level") else None


def _sentence(members: Sequence[Outcome], words: Words, every: str) -> str:
    """Return what happens in conditions of one answer; `every` says where these are."""
    first = members[0]
    if first.kind in ("some", "none"):
        return _not_there(members, words, every.replace("at every", "at any"))
    figures = _figures(members, words.units)
    if first.kind == "alone":
        return f"{figures} {every}".strip()
    if words.apart and first.kind == "lead" and all(one.margin for one in members):
        return _above(members, every)
    alike = {(show(one.value, words.units), one.rival, show(one.behind, words.units)) for one in members}
    if len(alike) > 1 or not first.rival:
        following = ""
    elif first.rival in first.names:
        figures, following = ranged_pair(first.value, first.behind, words.units), ""
    else:
        following = f"; next {first.rival}, {show(first.behind, words.units)}"
    lead, doubt = _leading(members, words)
    sentence = " ".join(filter(None, [lead, every]))
    return f"{sentence}{f', {doubt}' if doubt else ''} ({figures}{following})"


def _above(members: Sequence[Outcome], every: str) -> str:
    """Return by how many percentage points the leader ends above the next, where that was tested."""
    rivals = {one.rival for one in members}
    shown = {tuple(shown_in_points(value) for value in one.margin or ()) for one in members}
    ends = f"{members[0].names[0]} ends at {_figures(members, PERCENT)}"
    if len(shown) == 1 and len(rivals) == 1:
        apart, low, high = shown.pop()
        return f"{ends} {every}, {apart} points above {rivals.pop()} (95 % interval {low} to {high})".replace(" ,", ",")
    means = [one.margin[0] for one in members if one.margin]
    apart = ranged(min(means), max(means), PERCENT).removesuffix(" %")
    said = f"{ends} {every}, {apart} points above {rivals.pop() if len(rivals) == 1 else 'the next'}, significantly"
    return said.replace(" ,", ",")


def _leading(members: Sequence[Outcome], words: Words) -> tuple[str, str]:
    """Return who is first, and the doubt about it, "" if there is none."""
    first = members[0]
    best = first.names[0]
    if first.kind == "level":
        if not all(one.tested for one in members):
            return f"{joined(first.names)} are level", ""
        if not first.missing and len(first.names) == first.compared:
            return "no difference is significant", f"{best} ahead on average"
        return f"{joined(first.names)} lead", "with no significant difference between them"
    if words.reaches and all(one.only for one in members):
        return f"only {best} {words.reaches} in every run", ""
    sure = all(one.tested or one.always for one in members)
    return f"{best} {words.leads}", "" if sure else "on average but not in every run"


def _not_there(members: Sequence[Outcome], words: Words, every: str) -> str:
    """Say that none has the value in every run, and which have it in some."""
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
    """Return how often each is first, for too many conditions to list."""
    known = [one for one in outcomes if one.kind not in ("some", "none")]
    if known and all(one.kind == "alone" for one in known):
        least, most = (end(known, key=lambda one: one.value) for end in (min, max))
        parts = [f"{show(one.value, words.units)} at {condition_of(one.place)}" for one in (least, most)]
        clauses = [f"from {parts[0]} to {parts[1]}"]
    else:
        wins = Counter(one.names[0] for one in known if one.kind == "lead")
        leads = joined([f"{name} {words.leads} in {n}" for name, n in wins.items()])
        clauses = [f"of {len(outcomes)} conditions, {leads or f'nobody {words.leads} in any'}"]
    if level := sum(one.kind == "level" for one in known):
        clauses.append(f"in {level} no lead is significant")
    if rest := len(outcomes) - len(known):
        clauses.append(f"in {rest} of {len(outcomes)} nobody {words.reaches or 'was scored'} in every run")
    whole = "; ".join(clauses)
    return f"{whole[0].upper()}{whole[1:]}. All conditions are listed below."
