import pandas as pd
import pytest

from analysis.measures.waiting import COLUMNS, mean_wait, replies, waited, waiting, waiting_section


def uploads(*arrived, fate="delivered", to=-1):
    return pd.DataFrame([(time, to, fate) for time in arrived], columns=["arrived", "dst", "fate"])


def updates(*times):
    return pd.DataFrame({"time": times, "version": range(1, len(times) + 1)})


def test_replies_belong_to_the_first_update_at_or_after_them():
    came = pd.concat([
        uploads(1.0, 2.0, 6.0),  # the first update, through at 6: the last reply came at that very moment
        uploads(7.0),  # one reply: nobody waited
        uploads(21.0, 24.0),
        uploads(99.0),  # no update followed
        uploads(3.0, fate="late"), uploads(4.0, to=5),
    ])  # fmt: skip
    found = replies(came, updates(6.0, 20.0, 25.0))
    assert [found[name].tolist() for name in COLUMNS] == [[6.0, 5.0], [5.0, 3.0], [4.0, 1.5]]  # the first and the third


def test_means_over_updates_then_over_replicates():
    tables = {
        "transfers": {"p0": uploads(1.0, 3.0, 11.0, 17.0), "p1": uploads(2.0, 8.0), "p2": uploads(1.0)},
        "updates": {"p0": updates(10.0, 20.0), "p1": updates(10.0), "p2": updates(10.0)},
    }
    points = pd.DataFrame({"run": ["p0", "p1", "p2"], "algorithm": ["a", "a", "b"]})
    found = [mean_wait(tables["transfers"][point], tables["updates"][point]) for point in points["run"]]
    frame = waiting(points, pd.DataFrame(found), ["algorithm"])
    assert frame["algorithm"].tolist() == ["a"]  # b never had two replies
    row = frame.iloc[0]
    assert (row["n"], row["round_seconds"], row["spread"], row["held"]) == (2, 10.0, 5.0, 2.5)
    assert row["spread_sd"] == pytest.approx(2**0.5)
    assert "2.50 s (2.00 to 3.00 s)" in waiting_section(frame, [], "")
    assert waited(frame, [])["datasets"]["rows"][0]["amount"] == 2.5
