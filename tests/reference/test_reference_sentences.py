"""The ten sentences for a small made-up study: what they must say was worked out by hand."""

import pytest
from made_up_tables import seeds, tables

from fedsim.reference.findings import findings
from fedsim.reference.plan import Budget
from fedsim.reference.results import Results
from fedsim.reference.sentences import SENTENCES, sentences

HIGH, LOW = (0.80, 0.81, 0.82, 0.81, 0.80), (0.70, 0.72, 0.71, 0.70, 0.72)  # means 0.808 and 0.71
MIXED = (0.84, 0.78, 0.85, 0.79, 0.80)  # mean 0.812, level with HIGH
LOWEST = (0.60, 0.61, 0.60, 0.61, 0.60)  # mean 0.604
CAMPUS, CLASSES = "campus/digits/static", "campus/digits/class_incremental"
HOSPITALS, PHONES = "hospitals/digits/class_incremental", "phones/synthetic/static"
BUDGETS = {tuple(place.split("/")): Budget(1000.0, 50.0) for place in (CAMPUS, CLASSES, HOSPITALS, PHONES)}


def study():
    """Four settings. Of 1000 B and 50 s, 1 % are 10 B and 0.5 s, 10 % are 100 B and 5 s."""
    return (
        seeds(f"{CAMPUS}/fedavg/sync/given", HIGH, 400, 20)
        | seeds(f"{CAMPUS}/fedprox/sync/given", MIXED, 800, 40)
        | seeds(f"{CAMPUS}/fens/one_shot/given", LOW, 50, 2)
        | seeds(f"{CAMPUS}/local/isolated/given", LOWEST, 0, 4)
        | seeds(f"{CAMPUS}/fedavg/sync/halved", HIGH, 400, 20)
        | seeds(f"{CAMPUS}/fedprox/sync/halved", LOW, 800, 40)
        | seeds(f"{CLASSES}/fedavg/sync/given", LOW, 5, 0.4)
        | seeds(f"{CLASSES}/power/sync/given", HIGH, 5, 0.4)
        | seeds(f"{CLASSES}/glfc/sync/given", LOWEST, 5, 0.4)
        | seeds(f"{HOSPITALS}/fedavg/sync/given", LOW, 5, 0.4)
        | seeds(f"{HOSPITALS}/power/sync/given", HIGH, 5, 0.4)
        | seeds(f"{PHONES}/fedavg/sync/given", LOW, 400, 20)
        | seeds(f"{PHONES}/fedavg/buffered/given", HIGH, 600, 10)
        | seeds(f"{PHONES}/fedavg/deadline/given", LOW, 400, 15)
    )


# At the end: fedprox leads on campus, fedavg level; power leads both tasks with classes; buffered leads phones.
# By bytes, local leads at 1 % on campus (it sends nothing) and fens at 10 %; by time nobody there, then fens.
SAID = [
    "At the end of the runs, fedavg/sync is level with the leader in 1 of 4 settings and is significantly behind the"
    " leader in 3.",
    "At 1 %, 10 % and 100 % of the bytes, the most frequent leader in the 4 settings is power/sync (2 times),"
    " power/sync (2 times) and power/sync (2 times).",
    "At 1 %, 10 % and 100 % of the time, the most frequent leader in the 4 settings is power/sync (2 times),"
    " power/sync (2 times) and power/sync (2 times); the leaders by time and by bytes differ in 0, 0 and 0 of them.",
    "A one-shot contender leads in 1 of 4 settings, at up to 10 % of the bytes and at up to 10 % of the time.",
    "To reach 90 % of the best final score, the contender that sends most moves 2.0 times the bytes of the leanest; on"
    " campus/digits/static it is 800 B for fedprox/sync and 400 B for fedavg/sync.",
    "Without sending a byte, local/isolated ends at 60.4 %, on average 20.8 points below the leader; it leads or is"
    " level with the leader in no setting.",
    "On phones, with the same method, buffered is significantly ahead of sync at 1 of 1 time budget and behind at 0,"
    " deadline at 0 of 1 and behind at 0.",
    "Where classes arrive over time, methods of continual learning end significantly above fedavg under the same"
    " protocol in 2 of 3 comparisons, by up to 9.8 points (power/sync on campus/digits/class_incremental), and"
    " significantly below it in 1.",
    "At the end of the runs, 2 of 13 pairs of contenders of one setting (15 %) cannot be told apart with 5 seeds, or"
    " 2 (15 %) with Holm's correction for many comparisons.",
    "With all clients' rates halved, another contender leads in both comparisons (1 setting at up to six budgets), and"
    " the first one is then significantly behind in 2 of them.",
]


@pytest.mark.parametrize("place", range(len(SENTENCES)), ids=[sentence.__name__ for sentence in SENTENCES])
def test_a_sentence_says_what_was_worked_out_by_hand(place):
    assert SENTENCES[place](findings(tables(study()), BUDGETS)) == SAID[place]


def said(runs, name):
    (sentence,) = [one for one in SENTENCES if one.__name__ == name]
    return sentence(findings(tables(runs), BUDGETS))


def test_who_leads_by_time_is_compared_with_who_leads_by_bytes():
    runs = seeds(f"{CAMPUS}/a/sync/given", HIGH, 90, 20) | seeds(f"{CAMPUS}/b/sync/given", LOW, 5, 5)
    assert said(runs, "leaders_by_time") == (
        "At 1 %, 10 % and 100 % of the time, the most frequent leader in the one setting is nobody, b/sync (once) and"
        " a/sync (once); the leaders by time and by bytes differ in 0, 1 and 0 of them."
    )


def test_leaders_that_are_as_frequent_are_all_named_or_counted():
    runs = {}
    for place, name in ((CAMPUS, "a"), (CLASSES, "a"), (HOSPITALS, "b"), (PHONES, "b")):
        runs |= seeds(f"{place}/{name}/sync/given", HIGH, 5, 5)
    assert "is a/sync or b/sync (2 times each), a/sync or" in said(runs, "leaders_by_bytes")
    for place, name in ((HOSPITALS, "b"), (PHONES, "c")):
        runs |= seeds(f"{place}/{name}/sync/given", MIXED, 5, 5)
    runs |= seeds(f"{CLASSES}/d/sync/given", MIXED, 5, 5)
    assert "is another one each time, another one each time and" in said(runs, "leaders_by_bytes")


def test_one_shot_that_leads_nowhere_or_by_one_budget_alone():
    rounds = seeds(f"{CAMPUS}/fedavg/sync/given", HIGH, 5, 0.1)
    once = seeds(f"{CAMPUS}/fens/one_shot/given", LOW, 5, 0.1)
    assert said(rounds, "one_shot") == "No one-shot contender has trained anything within the budgets."
    assert said(rounds | once, "one_shot") == ("No one-shot contender leads in any setting at any of the six budgets.")
    rounds = seeds(f"{CAMPUS}/fedavg/sync/given", HIGH, 500, 0.1)
    assert said(rounds | once, "one_shot") == (
        "A one-shot contender leads in the only setting, at up to 10 % of the bytes and never by time."
    )


def test_without_bytes_it_may_lead():
    runs = seeds(f"{CAMPUS}/local/isolated/given", HIGH, 0, 5) | seeds(f"{PHONES}/local/isolated/given", LOW, 0, 5)
    runs |= seeds(f"{PHONES}/fedavg/sync/given", HIGH, 5, 5)
    assert said(runs, "without_bytes") == (
        "Without sending a byte, local/isolated ends between 71.0 and 80.8 %, on average 4.9 points below the leader;"
        " it leads or is level with the leader in 1 of 2 settings."
    )


def test_flips_within_the_noise_are_said_to_be():
    runs = seeds(f"{CAMPUS}/a/sync/given", HIGH, 50, 20) | seeds(f"{CAMPUS}/b/sync/given", LOW, 50, 20)
    runs |= seeds(f"{CAMPUS}/a/sync/halved", HIGH, 50, 20) | seeds(f"{CAMPUS}/b/sync/halved", MIXED, 50, 20)
    assert said(runs, "halved_links") == (
        "With all clients' rates halved, another contender leads in all 3 comparisons (1 setting at up to six budgets),"
        " and the first one is then significantly behind in none of them."
    )


def test_tables_without_any_run_have_ten_sentences_too():
    made = tables({f"{CAMPUS}/power/sync/given/0": [(1.0, 1.0, 0.5)]})
    empty = findings(Results(made.cells.iloc[:0], made.courses.iloc[:0]), {})
    assert len({*sentences(empty)}) == len(SENTENCES) == 10
    assert all(one.endswith(".") and "nan" not in one for one in sentences(empty))
    few = sentences(findings(made, BUDGETS))
    assert all(one.endswith(".") and "nan" not in one for one in few)
    alone = sentences(findings(tables({}, [f"{CAMPUS}/power/sync/given/0"]), BUDGETS))
    assert len(alone) == 10


def test_a_change_of_the_tables_changes_what_is_said():
    runs = study() | seeds(f"{CAMPUS}/fedavg/sync/given", LOW, 400, 20)
    changed = sentences(findings(tables(runs), BUDGETS))
    assert changed[0] != SAID[0]
