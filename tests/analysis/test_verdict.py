import numpy as np
import pandas as pd

from analysis.verdict import answers, overall


def means(rows):
    """Rows of (latency, algorithm, seeds, reached, seconds, bytes); every score is 0.5 and the target 0.6."""
    names = ["latency", "algorithm", "n", "reached", "seconds_to_target", "bytes_to_target"]
    spread = {"seconds_to_target_sd": np.nan, "bytes_to_target_sd": np.nan, "score_sd": np.nan}
    return pd.DataFrame(rows, columns=names).assign(target=0.6, score=0.5, **spread)


def test_first_cheapest_partly_and_never():
    frame = means(
        [
            ("10 ms", "fedavg", 2, 2, 30.0, 1e6),
            ("10 ms", "power", 2, 2, 20.0, 2e6),
            ("10 ms", "fedprox", 2, 1, 5.0, 1e5),
            ("10 ms", "ghost", 2, 0, np.nan, np.nan),
            ("1 s", "fedavg", 2, 0, np.nan, np.nan),
            ("1 s", "power", 2, 0, np.nan, np.nan),
        ]
    )
    near, far = answers(frame, ["latency"])
    assert near.condition == "latency 10 ms"
    assert near.sentence == (
        "power reaches 60.0 % first: power after 20.0 s and 2.00 MB, then fedavg after 30.0 s and 1.00 MB. "
        "fedprox reaches it with 1 of 2 runs only, then after 5.00 s and 100 kB. ghost never reaches it. "
        "Cheapest in bytes: fedavg."
    )
    assert (near.first, near.cheapest) == ("power", "fedavg")
    assert far.sentence == "No algorithm reaches 60.0 %. Final scores, best first: fedavg 50.0 %, power 50.0 %."
    assert (far.first, far.cheapest) == (None, None)
    assert overall([near, far]) == (
        "Of 2 conditions, first to the target: power in 1. Of 2 conditions, cheapest in bytes to the target: "
        "fedavg in 1. In 1 of them no algorithm reached it with every run."
    )


def test_where_nobody_reaches_the_target_the_best_final_scores_are_counted():
    rows = [(latency, name, 2, 0, np.nan, np.nan) for latency in ("10 ms", "1 s") for name in ("fedavg", "power")]
    frame = means(rows).assign(score=[0.5, 0.4, 0.3, 0.3])
    told = "Of 2 conditions, best final score: fedavg in 1, fedavg and power in 1."
    assert overall(answers(frame, ["latency"])) == (
        f"No algorithm reaches 60.0 % with every run in any condition. {told}"
    )
    assert overall(answers(frame.assign(target=np.nan), ["latency"])) == f"No target was set. {told}"


def test_equal_times_are_told_as_equal():
    frame = means([("10 ms", "fedavg", 1, 1, 20.0, 1e6), ("10 ms", "power", 1, 1, 20.0, 2e6)])
    (answer,) = answers(frame, ["latency"])
    assert answer.first == "fedavg and power"
    assert answer.sentence.startswith("fedavg and power reach 60.0 % first, together: ")


def test_a_single_algorithm_is_not_called_first():
    (answer,) = answers(means([("10 ms", "power", 1, 1, 20.0, 2e6)]), ["latency"])
    assert answer.sentence == "power reaches 60.0 %: power after 20.0 s and 2.00 MB."
    assert overall([answer]) == ""


def test_without_target_the_scores_speak():
    frame = means([("10 ms", "power", 1, 0, np.nan, np.nan)]).assign(target=np.nan)
    assert answers(frame, ["latency"])[0].sentence == "No target was set. Final scores, best first: power 50.0 %."
    assert answers(frame.assign(score=np.nan), [])[0].sentence == "No target was set. Nothing was scored."
