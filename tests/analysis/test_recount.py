"""Runs from before targets counted on complete scores only."""

import pandas as pd
from synthetic_sweep import write_sweep

from analysis.load import load

NEW = ["periods", "target_on", "periods_at_target"]


def test_an_older_run_is_counted_again_from_its_tables(tmp_path):
    folder = write_sweep(tmp_path / "old", algorithms=("fedavg", "power"), latencies=("10 ms",))
    today = load([folder]).points
    assert today["seconds_to_target"].notna().any()
    assert today["seconds_to_target"].isna().any()
    summary = pd.read_csv(folder / "summary.csv")
    summary.drop(columns=NEW).assign(seconds_to_target=0.125, bytes_to_target=1).to_csv(
        folder / "summary.csv", index=False
    )
    pd.testing.assert_frame_equal(load([folder]).points[today.columns], today)
    without = summary.drop(columns=NEW).assign(target=None, seconds_to_target=None, bytes_to_target=None)
    without.to_csv(folder / "summary.csv", index=False)
    assert load([folder]).points[["target", "seconds_to_target", "periods"]].isna().all(axis=None)
