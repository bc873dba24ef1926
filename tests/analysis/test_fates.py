from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.fates import by_fate, fate_bytes


def transfers(*rows):
    return pd.DataFrame(rows, columns=["kind", "fate", "nbytes", "wire_bytes"])


def test_payload_and_what_moved_beside_it_add_up_to_the_wire():
    sent = transfers(
        ("train", "delivered", 100, 104), ("train", "delivered", 100, 110), ("train", "cut", 100, 30),
        ("embed", "late", 50, 52), ("embed", "delivered", 50, 50), ("embed", "lost", 50, 0),
    )  # fmt: skip
    found = fate_bytes(sent).set_index(["kind", "fate"])["bytes"].to_dict()
    assert found == {
        ("train", "delivered"): 200, ("train", "repeated"): 14, ("train", "cut"): 30,
        ("embed", "delivered"): 50, ("embed", "late"): 52,
    }  # fmt: skip
    assert sum(found.values()) == sent["wire_bytes"].sum()


def test_a_replicate_without_a_part_counts_as_zero():
    tables = {"p0": transfers(("train", "delivered", 100, 100)), "p1": transfers(("train", "late", 100, 60))}
    points = pd.DataFrame({"point": ["p0", "p1"], "algorithm": "a"})
    frame = by_fate(SimpleNamespace(split=lambda _: tables), points, ["algorithm"]).set_index("fate")
    assert frame["bytes"].to_dict() == {"delivered": 50.0, "late": 30.0}
    assert frame["total"].tolist() == [80.0, 80.0]
    assert frame["total_sd"].tolist() == pytest.approx([40 / 2**0.5] * 2)
    assert frame["n"].tolist() == [2, 2]
