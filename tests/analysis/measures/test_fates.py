import pandas as pd
import pytest

from analysis.measures.communication import booked
from analysis.measures.tables import by_fate, fate_bytes


def sums(*rows):
    """What is booked of a message each: step, fate, payload that was sent and what moved."""
    sent = pd.DataFrame(rows, columns=["kind", "fate", "nbytes", "wire_bytes"])
    return booked(sent.assign(src=0, dst=-1))


def test_payload_and_what_moved_beside_it_add_up_to_the_wire():
    sent = sums(
        ("train", "delivered", 100, 104), ("train", "delivered", 100, 110), ("train", "cut", 100, 30),
        ("embed", "late", 50, 52), ("embed", "delivered", 50, 50), ("embed", "lost", 50, 0),
    )  # fmt: skip
    found = fate_bytes(sent).groupby(["kind", "fate"])["bytes"].sum().to_dict()
    assert found == {
        ("train", "delivered"): 200, ("train", "overhead"): 14, ("train", "cut"): 30,
        ("embed", "delivered"): 50, ("embed", "late"): 52,
    }  # fmt: skip
    assert sum(found.values()) == sent["wire"].sum()


def test_a_replicate_without_a_part_counts_as_zero():
    rows = pd.concat([
        sums(("train", "delivered", 100, 100)).assign(run="p0"), sums(("train", "late", 100, 60)).assign(run="p1")
    ])  # fmt: skip
    points = pd.DataFrame({"run": ["p0", "p1"], "algorithm": "a"})
    frame = by_fate(rows.assign(algorithm="a"), points, ["algorithm"]).set_index("fate")
    assert frame["bytes"].to_dict() == {"delivered": 50.0, "late": 30.0}
    assert frame["total"].tolist() == [80.0, 80.0]
    assert frame["total_sd"].tolist() == pytest.approx([40 / 2**0.5] * 2)
    assert frame["n"].tolist() == [2, 2]
