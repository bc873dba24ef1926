import pandas as pd

from analysis.verdict import condition_of, easiest


def test_conditions_by_their_short_names():
    assert condition_of({"network.latency": "10 ms", "protocol.participation": "0.3"}) == (
        "latency 10 ms, participation 0.3"
    )


def test_the_easiest_condition_has_most_participation_and_least_latency():
    rows = pd.DataFrame(
        [(latency, part) for latency in ("1 s", "10 ms") for part in ("0.1", "1.0")],
        columns=["network.latency", "protocol.participation"],
    )
    shown, where = easiest(rows, [*rows.columns])
    assert shown.to_numpy().tolist() == [["10 ms", "1.0"]]
    assert where == "At latency 10 ms, participation 1.0. "
    assert easiest(shown, [*rows.columns])[1] == ""
