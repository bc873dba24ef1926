"""Sentences on costs, protocols, continual methods, pairs, and halved links."""

from statistics import median

from analysis.groups import joined
from analysis.intervals import Interval
from analysis.quantity import BYTES, show
from fedsim.reference.findings import Findings, Outcome
from fedsim.reference.leaders_said import FEDAVG
from fedsim.reference.paired import by_seed, difference
from fedsim.reference.scores import FINAL
from fedsim.reference.terms import SHARES, Contender
from fedsim.reference.to_target import Cost
from fedsim.reference.wording import of, points, share, times

CONTINUAL = ("fed_dslr", "fed_ergnn", "fed_twp", "glfc", "lander", "power", "target")  # made for what arrives in parts
INCREMENTAL = "class_incremental"
PHONES = "phones"
SYNC, OTHERS = "sync", ("buffered", "deadline")


def spread_of_bytes(found: Findings) -> str:
    """Say how much more the byte-hungriest contender sends to 90 % of the best final score than the leanest."""
    ends = [(one, *pair) for one in found.outcomes if (pair := _leanest_and_hungriest(one))]
    if not ends:
        return "In no setting do two contenders that send anything reach 90 % of the best final score in every seed."
    ratios = [most.bytes / least.bytes for _, least, most in ends]
    widest, least, most = max(ends, key=lambda end: end[2].bytes / end[1].bytes)
    many = f"{times(min(ratios))} to {times(max(ratios))} times (median {times(median(ratios))})"
    return (
        f"To reach 90 % of the best final score, the contender that sends most moves"
        f" {many if len(ends) > 1 else f'{times(ratios[0])} times'} the bytes of the leanest; on {widest.setting} it is"
        f" {show(most.bytes, BYTES)} for {most.contender} and {show(least.bytes, BYTES)} for {least.contender}."
    )


def _leanest_and_hungriest(one: Outcome) -> tuple[Cost, Cost] | None:
    there = [cost for cost in one.costs.values() if cost.reached == one.final.seeds and cost.bytes > 0]
    there.sort(key=lambda cost: cost.bytes)
    return (there[0], there[-1]) if len(there) > 1 else None


def protocols_on_phones(found: Findings) -> str:
    """Say how often a method under `buffered` or `deadline` is ahead of itself in rounds, by time, on phones."""
    said: list[str] = []
    for protocol in OTHERS:
        signs = [sign for one in found.outcomes if one.setting.deployment == PHONES for sign in _signs(one, protocol)]
        if signs:
            ahead, behind, whole = signs.count(1), signs.count(-1), len(signs)
            words = f"is significantly ahead of {SYNC} at" if not said else "at"
            budgets = f" time budget{'s' if whole > 1 else ''}" if not said else ""
            said.append(f"{protocol} {words} {ahead} of {whole}{budgets} and behind at {behind}")
    if not said:
        return f"On {PHONES}, no method could be compared under {SYNC} and under {joined(OTHERS, 'or')}."
    return f"On {PHONES}, with the same method, {', '.join(said)}."


def _signs(one: Outcome, protocol: str) -> list[int]:
    """Return 1, 0 or -1 for ahead, level or behind of every method run under the protocol and in rounds."""
    signs = []
    for row in one.final.rows:
        rival = Contender(row.contender.method, SYNC)
        if row.contender.protocol != protocol or one.final.of(rival) is None:
            continue
        for budget in SHARES:
            if budget.cost == "seconds":
                apart = _gap(one, row.contender, rival, str(budget))
                if apart.excludes_zero is not None:
                    signs.append(0 if not apart.excludes_zero else 1 if apart.mean > 0 else -1)
    return signs


def continual_methods(found: Findings) -> str:
    """Say how methods of continual learning end beside FedAvg under the same protocol, where classes arrive."""
    apart = [
        (gap, row.contender, one.setting)
        for one in found.outcomes
        if one.setting.task == INCREMENTAL
        for row in one.final.rows
        if row.contender.method in CONTINUAL
        and (gap := _gap(one, row.contender, _averaging(row.contender), FINAL)).excludes_zero is not None
    ]
    if not apart:
        return f"No method of continual learning could be compared with {FEDAVG.method} where classes arrive over time."
    above = [case for case in apart if case[0].low > 0]
    below = sum(gap.high < 0 for gap, _, _ in apart)
    many = of(len(above), len(apart), "comparison")
    best = ""
    if above:
        gap, contender, setting = max(above, key=lambda case: case[0].mean)
        best = f", by up to {points(gap.mean)} ({contender} on {setting}),"
    return (
        f"Where classes arrive over time, methods of continual learning end significantly above {FEDAVG.method} under"
        f" the same protocol in {many}{best} and significantly below it in {below or 'none'}."
    )


def _averaging(name: Contender) -> Contender:
    """Return FedAvg under a contender's protocol."""
    return Contender(FEDAVG.method, name.protocol)


def _gap(one: Outcome, name: Contender, rival: Contender, column: str) -> Interval:
    """Return the paired difference of two contenders in a setting, with no interval where seeds are too few."""
    own = by_seed(one.runs, column)
    return difference(own.get(name, {}), own.get(rival, {}))


def pairs_not_apart(found: Findings) -> str:
    """Say which share of the pairs of contenders cannot be told apart at the end."""
    tested = [pair for one in found.outcomes for pair in one.pairs if pair.tested]
    if not tested:
        return "No pair of contenders has enough common seeds to be told apart."
    level = sum(not pair.apart for pair in tested)
    corrected = sum(not pair.holm for pair in tested)
    seeds = sorted({len(pair.difference.units) for pair in tested})
    return (
        f"At the end of the runs, {level} of {len(tested)} pairs of contenders of one setting"
        f" ({share(level, len(tested))}) cannot be told apart with {joined(list(map(str, seeds)), 'or')} seeds, or"
        f" {corrected} ({share(corrected, len(tested))}) with Holm's correction for many comparisons."
    )


def halved_links(found: Findings) -> str:
    """Say how many conclusions change when all clients' rates are halved."""
    if not found.halved:
        return "No setting could be compared with halved links."
    sure = sum(one.significant for one in found.flips)
    settings = len({one.setting for one in found.halved})
    where = f"{settings} setting{'s' if settings > 1 else ''}"
    many = of(len(found.flips), len(found.halved), "comparison")
    rest = f", and the first one is then significantly behind in {sure or 'none'} of them" if found.flips else ""
    return f"With all clients' rates halved, another contender leads in {many} ({where} at up to six budgets){rest}."
