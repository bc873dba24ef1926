"""Sentences on who leads at the six budgets and at the end of the runs."""

from analysis.groups import joined
from analysis.quantity import PERCENT, show
from fedsim.reference.findings import Findings, Outcome
from fedsim.reference.standings import Kind, Standing
from fedsim.reference.terms import PARTS, Contender, Share
from fedsim.reference.wording import most_frequent, of, points

FEDAVG = Contender("fedavg", "sync")
ONE_SHOT = "one_shot"
WAYS: dict[Kind, str] = {
    "leader": "leads in",
    "level": "is level with the leader in",
    "behind": "is significantly behind the leader in",
    "untested": "has too few seeds to be compared in",
    "none": "has trained nothing within the budgets in",
}


def plain_averaging(found: Findings) -> str:
    """Say how FedAvg in rounds stands at the end of the runs."""
    places = [place.kind for one in found.outcomes if (place := one.final.of(FEDAVG))]
    if not places:
        return f"{FEDAVG} was not run in any setting."
    counts = [(places.count(kind), words) for kind, words in WAYS.items() if kind in places]
    (first, way), *more = counts
    clauses = [f"{way} {of(first, len(places))}", *(f"{words} {count}" for count, words in more)]
    return f"At the end of the runs, {FEDAVG} {joined(clauses)}."


def leaders_by_bytes(found: Findings) -> str:
    """Say who leads most often at each share of the bytes."""
    return f"{_most_often(found, 'bytes')}."


def leaders_by_time(found: Findings) -> str:
    """Say who leads most often at each share of the time, and how often that is not who leads by bytes."""
    apart = []
    for part in PARTS:
        both = [(one.at[Share("bytes", part)].leader, one.at[Share("seconds", part)].leader) for one in found.outcomes]
        apart.append(sum(a != b for a, b in both if a and b))
    counts = joined(list(map(str, apart)))
    return f"{_most_often(found, 'seconds')}; the leaders by time and by bytes differ in {counts} of them."


def one_shot(found: Findings) -> str:
    """Say whether a one-shot contender leads anywhere, and up to which share of the budgets."""
    if not any(row.contender.protocol == ONE_SHOT and row.kind != "none" for row in _final(found)):
        return "No one-shot contender has trained anything within the budgets."
    led = [
        (one.setting, share, standing.leader)
        for one in found.outcomes
        for share, standing in one.at.items()
        if standing.leader and standing.leader.protocol == ONE_SHOT
    ]
    if not led:
        return "No one-shot contender leads in any setting at any of the six budgets."
    settings = of(len({setting for setting, _, _ in led}), len(found.outcomes))
    ends = {
        cost: max((share.part for _, share, _ in led if share.cost == cost), default=None)
        for cost in ("bytes", "seconds")
    }
    upto = [f"at up to {Share(cost, part)}" for cost, part in ends.items() if part]
    never = [f"never by {Share(cost, 1.0).resource}" for cost, part in ends.items() if not part]
    return f"A one-shot contender leads in {settings}, {joined([*upto, *never])}."


def without_bytes(found: Findings) -> str:
    """Say what is reached by the best contender of each setting that sends nothing."""
    best = [(one, name) for one in found.outcomes if (name := _silent(one))]
    if not best:
        return "No contender that sends nothing has finished in every seed."
    places = [(one, place) for one, name in best if (place := one.final.of(name))]
    near = sum(place.kind in ("leader", "level") for _, place in places)
    behind = [one.final.best - place.score.mean for one, place in places]
    scores = [place.score.mean for _, place in places]
    names = joined(sorted({str(name) for _, name in best}))
    least, most = show(min(scores), PERCENT).removesuffix(" %"), show(max(scores), PERCENT)
    reached = f"at {most}" if len(scores) == 1 else f"between {least} and {most}"
    return (
        f"Without sending a byte, {names} ends {reached}, on average {points(sum(behind) / len(behind))} below the"
        f" leader; it leads or is level with the leader in {of(near, len(places))}."
    )


def _silent(one: Outcome) -> Contender | None:
    """Return the best contender that sends nothing and finished in all seeds."""
    return next(
        (
            row.contender
            for row in one.final.rows
            if row.kind in ("leader", "level", "behind") and one.spent[row.contender] == 0
        ),
        None,
    )


def _final(found: Findings) -> list[Standing]:
    return [row for one in found.outcomes for row in one.final.rows]


def _most_often(found: Findings, cost: str) -> str:
    """Return who leads in most settings at each share: "At 1 %, ... of the bytes, the most frequent leader ..."."""
    shares = [Share(cost, part) for part in PARTS]
    first = [most_frequent(found.leaders(share)) for share in shares]
    places = joined([share.percent for share in shares])
    settings = "the one setting" if len(found.outcomes) == 1 else f"the {len(found.outcomes)} settings"
    return f"At {places} of the {shares[0].resource}, the most frequent leader in {settings} is {joined(first)}"
