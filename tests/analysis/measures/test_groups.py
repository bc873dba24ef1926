"""Groups of rows and sums over them, against pandas' own."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.groups import groups

ROW = st.tuples(
    st.sampled_from([0.0, 0.5, 2.0, 1e9]), st.integers(-2, 3), st.sampled_from([7, 10**12, -(10**12)]),
    st.sampled_from(["b", "a", None]), st.integers(-50, 50),
)  # fmt: skip
NAMES = ["time", "client", "large", "word", "value"]


@given(
    st.lists(ROW, max_size=40), st.lists(st.sampled_from(NAMES[:4]), min_size=1, max_size=4, unique=True), st.booleans()
)
def test_keys_sums_means_and_largest_are_those_of_pandas(rows, by, in_order):
    frame = pd.DataFrame(rows, columns=NAMES).astype({"time": float, "client": int, "large": int, "value": int})
    frame = frame.sort_values("time", kind="stable") if in_order else frame
    found, theirs = groups(frame, by), frame.groupby(by, as_index=False)
    expected = theirs["value"].agg(["sum", "mean", "max"])
    assert len(found.keys) == len(expected)
    for name in by:
        assert found.keys[name].tolist() == expected[name].tolist()
    value = found.rows["value"]
    assert found.sum(value).tolist() == expected["sum"].tolist()
    np.testing.assert_allclose(found.mean(value), expected["mean"].to_numpy(float))
    assert found.max(value).tolist() == expected["max"].tolist()
    kept = frame.dropna(subset=by).drop_duplicates(by, keep="last")
    pd.testing.assert_frame_equal(found.rows.iloc[found.last()], kept)


def test_many_columns_of_large_numbers_are_told_apart():
    """Five columns of a thousand values each have more combinations than an integer holds."""
    drawn = np.random.default_rng(0)
    frame = pd.DataFrame(drawn.integers(0, 2**62, (3000, 7)), columns=[*"abcdefg"])
    frame = pd.concat([frame, frame.iloc[:100]], ignore_index=True)
    found = groups(frame, [*"abcdefg"])
    assert len(found.keys) == 3000
    assert found.sum(np.ones(len(frame))).sum() == 3100
    assert sorted(found.sum(np.ones(len(frame)))) == pytest.approx([1] * 2900 + [2] * 100)
