"""The counts of the page's summary, which `analysis/claims.yaml` holds, are those of the recorded results."""

from pathlib import Path
from statistics import fmean, median

import pytest

from analysis.claims import page
from analysis.claims.file import read
from analysis.statistics.significance import differences
from fedsim.reference import plan as plans
from fedsim.reference import results
from fedsim.reference.cell import PARTS, SHARES, BudgetShare, Contender
from fedsim.reference.comparisons import scored
from fedsim.reference.curves import FEDAVG
from fedsim.reference.findings import findings
from fedsim.reference.scores import FINAL

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = "docs/reference/summary.md"
CONTINUAL = ("fed_dslr", "fed_ergnn", "fed_twp", "glfc", "lander", "power", "target")  # made for what arrives in parts
LOCAL = Contender("local", "isolated")


@pytest.fixture(scope="module")
def computed():
    return findings(results.read(ROOT / "docs/reference"), plans.read(ROOT / plans.FILE).budgets)


def test_the_summary_holds_what_the_results_say(computed):
    (name,) = page.marks((ROOT / SUMMARY).read_text("utf-8"))
    (table,) = [table for table in read() if table.table == name]
    rows = [*fedavg(computed), *leaders(computed), *local(computed), *spread_of_bytes(computed)]
    rows += [*protocols_on_phones(computed), *continual(computed), *pairs(computed), *halved(computed)]
    assert [[cell.replace("`", "") for cell in row.cells] for row in table.rows] == [[*row] for row in rows]


def test_the_summary_is_written_from_the_claims():
    text = (ROOT / SUMMARY).read_text("utf-8")
    assert page.generated(text, read()) == text


def fedavg(computed):
    statuses = [row.status for one in computed.outcomes if (row := one.final.of(FEDAVG))]
    for status, words in (
        ("leader", "leads"),
        ("tied", "is tied with the leader"),
        ("below", "is significantly below the leader"),
    ):
        yield f"{FEDAVG} {words} at the end", f"{statuses.count(status)}", f"{len(statuses)} settings"


def leaders(computed):
    for part in PARTS:
        both = [[one.at[BudgetShare(cost, part)].leader for cost in ("bytes", "seconds")] for one in computed.outcomes]
        both = [pair for pair in both if all(pair)]
        words = f"another contender leads by time than by bytes at {BudgetShare('bytes', part).percent}"
        yield words, f"{sum(a != b for a, b in both)}", f"{len(both)} settings"
    once = [one for one in computed.outcomes if any(leads_in_one_exchange(one, share) for share in SHARES)]
    yield "one exchange alone leads at one of the six budgets", f"{len(once)}", f"{len(computed.outcomes)} settings"


def leads_in_one_exchange(outcome, share):
    leader = outcome.at[share].leader
    return leader is not None and leader.protocol == "one_shot"


def local(computed):
    run = [one for one in computed.outcomes if (row := one.final.of(LOCAL)) and row.status != "unscored"]
    for share in (BudgetShare("bytes", 0.01), BudgetShare("seconds", 0.01)):
        yield (
            f"{LOCAL} leads at {share}",
            f"{sum(one.at[share].leader == LOCAL for one in run)}",
            f"{len(run)} settings",
        )
    near = sum(one.final.of(LOCAL).status in ("leader", "tied") for one in run)
    yield f"{LOCAL} leads or is tied with the leader at the end", f"{near}", f"{len(run)} settings"
    gap = fmean(one.final.best - one.final.of(LOCAL).score.mean for one in run)
    yield f"points that {LOCAL} is below the leader at the end, mean", f"{100 * gap:.1f}", f"{len(run)} settings"


def spread_of_bytes(computed):
    ratios = []
    for one in computed.outcomes:
        moved = [cost.bytes for cost in one.costs.values() if cost.reached == one.final.seeds and cost.bytes > 0]
        ratios += [max(moved) / min(moved)] if len(moved) > 1 else []
    yield "most bytes to 90 % of the best over the fewest, median", f"{median(ratios):.1f}", f"{len(ratios)} settings"


def protocols_on_phones(computed):
    phones = [one for one in computed.outcomes if one.setting.deployment == "phones"]
    for protocol in ("buffered", "deadline"):
        gaps = [
            gap(one, row.contender, Contender(row.contender.method, "sync"), str(share))
            for one in phones
            for row in one.final.rows
            if row.contender.protocol == protocol
            for share in SHARES
            if share.cost == "seconds"
        ]
        yield from counted(
            gaps, f"on phones, {protocol} is significantly {{}} sync of the same method by time", "pairs"
        )


def continual(computed):
    gaps = [
        gap(one, row.contender, Contender("fedavg", row.contender.protocol), FINAL)
        for one in computed.outcomes
        if one.setting.task == "class_incremental"
        for row in one.final.rows
        if row.contender.method in CONTINUAL
    ]
    words = "where classes arrive, a method of continual learning ends significantly {} fedavg of the same protocol"
    yield from counted(gaps, words, "pairs")


def counted(gaps, words, unit):
    tested = [gap for gap in gaps if gap.excludes_zero is not None]
    for place, sign in (("above", 1), ("below", -1)):
        count = sum(bool(gap.excludes_zero) and sign * gap.mean > 0 for gap in tested)
        yield words.format(place), f"{count}", f"{len(tested)} {unit}"


def gap(outcome, contender, rival, column):
    known, nothing = scored(outcome.runs, column), outcome.runs.iloc[:0]
    return differences(known.get(contender, nothing), known.get(rival, nothing), column)[1]


def pairs(computed):
    tested = [pair for one in computed.outcomes for pair in one.tested]
    yield (
        "pairs of contenders are tied at the end",
        f"{sum(not pair.significant for pair in tested)}",
        f"{len(tested)} pairs",
    )
    yield "so with Holm's correction", f"{sum(not pair.holm for pair in tested)}", f"{len(tested)} pairs"


def halved(computed):
    changes, whole = computed.changes, f"{len(computed.halved)} comparisons"
    yield "another contender leads with halved links", f"{len(changes)}", whole
    yield "significantly so", f"{sum(change.significant for change in changes)}", whole
