import pandas as pd

from analysis.axes import MOST_CONDITIONS, condition_of, conditions


def test_conditions_by_their_short_names():
    assert condition_of({"network.latency": "10 ms", "protocol.participation": "0.3"}) == (
        "latency 10 ms, participation 0.3"
    )


def test_the_hardest_condition_is_first_and_has_least_participation_and_most_latency():
    rows = pd.DataFrame(
        [(latency, part, "x") for latency in ("1 s", "10 ms") for part in ("0.1", "1.0")],
        columns=["network.latency", "protocol.participation", "same"],
    )
    shown, named = conditions(rows, [*rows.columns])
    assert named == [
        "latency 1 s, participation 0.1", "latency 1 s, participation 1.0",
        "latency 10 ms, participation 0.1", "latency 10 ms, participation 1.0",
    ]  # fmt: skip
    assert shown["condition"].tolist() == named
    assert conditions(rows[:1], [*rows.columns])[1] == [""]


def test_of_very_many_conditions_the_hardest_stay():
    rows = pd.DataFrame({"network.latency": [f"{i} ms" for i in range(3 * MOST_CONDITIONS)]})
    shown, named = conditions(rows, ["network.latency"])
    assert len(named) == len(shown) == MOST_CONDITIONS
    assert named[0] == f"latency {3 * MOST_CONDITIONS - 1} ms"
