import pandas as pd
import pytest

from analysis.measures.partition_figures import divided, partitions, partitions_section

COLUMNS = [
    "run",
    "time",
    "snapshot",
    "owners",
    "nodes",
    "edges",
    "cut",
    "largest",
    "moved",
    "scanned",
    "unowned",
    "majority",
]


def figures(*rows):
    """The frame of two replicates, p0 and p1, of one algorithm."""
    return partitions(pd.DataFrame(rows, columns=COLUMNS).assign(algorithm="a"), ["algorithm"])


def test_shares_of_edges_and_nodes_by_snapshot():
    frame = figures(
        ("p0", 0.0, 0, 4, 50, 200, 20, 80, 5, 0, 10, 0.9),
        ("p1", 0.0, 0, 4, 50, 200, 60, 80, 5, 0, 10, 0.7),
        ("p0", 9.0, 1, 5, 100, 0, 0, 0, 0, 0, 0, -1.0),  # no edges, no labels: no share of them
    ).set_index("snapshot")
    first, second = frame.loc[0], frame.loc[1]
    shares = ["cut_share", "largest_share", "moved_share", "unowned_share", "majority"]
    assert first[shares].tolist() == pytest.approx([0.2, 0.4, 0.1, 0.2, 0.8])
    assert (first["n"], first["owners"], second["n"]) == (2, 4.0, 1)
    assert first["cut_share_sd"] == pytest.approx(0.2 / 2**0.5)
    assert second[["cut_share", "largest_share", "majority"]].isna().all()
    assert second[["moved_share", "unowned_share"]].tolist() == [0.0, 0.0]


def test_what_is_known_is_drawn_and_told():
    frame = figures(
        ("p0", 0.0, 0, 4, 50, 200, 20, 80, 5, 0, 10, -1.0), ("p0", 9.0, 1, 4, 50, 200, 40, 80, 5, 0, 10, -1.0)
    )
    drawn = divided(frame, [])["datasets"]["rows"]
    assert {row["column"] for row in drawn} == {
        "edges cut", "edges within the largest part", "nodes moved", "nodes without an owner"
    }  # fmt: skip
    assert [row["y"] for row in drawn if row["column"] == "edges cut"] == [0.1, 0.2]
    assert "15.0 %" in partitions_section(frame, [], "")


def test_runs_without_snapshots_have_none():
    assert figures().empty
