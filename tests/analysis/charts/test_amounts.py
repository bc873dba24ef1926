"""Axes of seconds and bytes in units that suit their numbers, from one microsecond to weeks."""

import re

import altair as alt
import pandas as pd
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from analysis.charts import amounts
from analysis.quantity import BYTES, SECONDS, show

SIZES = st.floats(1e-6, 1e7)


def drawn(amount, values):
    """The labels along an axis of these values (SI), as Vega writes them."""
    rows = pd.DataFrame({"x": amount.of(pd.Series(values, dtype=float)), "y": 1.0})
    scale = alt.Scale(type="log", nice=False) if amount.wide else alt.Scale()
    x = alt.X("x:Q", title=amount.title("time"), axis=amount.axis(), scale=scale)
    svg = vl_convert.vegalite_to_svg(alt.Chart(rows).mark_point().encode(x=x).to_dict())
    return re.findall(r">([^<>]+)</text>", svg)


@given(st.lists(SIZES, min_size=1, max_size=9))
def test_an_axis_has_a_unit_that_its_panels_can_be_read_in(ends):
    amount = amounts.linear(ends, SECONDS)
    assert (amount.scale, amount.unit) in SECONDS
    assert not amount.wide
    # every panel is at least one unit long, unless the longest would then be thousands of them
    assert min(ends) >= amount.scale or max(ends) >= amounts.MOST * amounts.linear([min(ends)], SECONDS).scale
    assert max(ends) >= amount.scale


@pytest.mark.parametrize(
    ("ends", "title"),
    [([0.54], "time (ms)"), ([7.2, 400], "time (s)"), ([100, 3000], "time (min)"), ([9000], "time (h)"),
     ([3e5], "time (d)"), ([2e-4], "time (µs)")],
)  # fmt: skip
def test_the_unit_follows_from_the_data(ends, title):
    assert amounts.linear(ends, SECONDS).title("time") == title
    assert drawn(amounts.linear(ends, SECONDS), [0, *ends])[-1] == title


def test_no_label_has_a_number_that_cannot_be_read():
    # panels of half a second and of four days share the unit of neither: small ticks tell their own
    labels = drawn(amounts.linear([0.54, 345600], SECONDS), [0, 0.54])
    assert labels[-1] == "time (min)"
    assert labels[:3] == ["0", "120 ms", "240 ms"]
    assert all(label == "0" or label.endswith(" ms") for label in labels[:-1])


def test_a_wide_axis_tells_each_label_its_unit():
    amount = amounts.along(pd.Series([4.2, 54000.0, float("nan")]), SECONDS)
    assert amount.wide
    assert drawn(amount, [4.2, 54000.0]) == ["10 s", "1 min", "10 min", "1 h", "10 h", "time"]
    amount = amounts.along(pd.Series([3e4, 5e9]), BYTES)
    assert drawn(amount, [3e4, 5e9]) == ["100 kB", "1 MB", "10 MB", "100 MB", "1 GB", "time"]


@given(st.floats(1e-6, 1e7), st.floats(31, 1e6))
def test_a_wide_axis_has_ticks_inside_of_it(least, ratio):
    amount = amounts.along(pd.Series([least, least * ratio]), SECONDS)
    inside = [tick for tick in amount.ticks if least <= tick <= least * ratio]
    assert amount.wide
    assert len(inside) >= 2
    assert list(amount.ticks) == sorted(amount.ticks)


@pytest.mark.parametrize(
    ("value", "units", "told"),
    [(0.00015 * 3600, SECONDS, "540 ms"), (90.0, SECONDS, "1.5 min"), (172800.0, SECONDS, "2 d"),
     (0.0, BYTES, "0 B"), (12_345_678.0, BYTES, "12.3 MB"), (float("nan"), BYTES, "–"), (999.9, BYTES, "1 kB")],
)  # fmt: skip
def test_a_tooltip_writes_a_value_as_tables_do(value, units, told):
    amount = amounts.linear([5e5], units)
    rows = pd.DataFrame({"x": amount.of(pd.Series([value]))})
    chart = alt.Chart(rows.astype(object).where(rows.notna(), None)).transform_calculate(told=amount.expression("x"))
    svg = vl_convert.vegalite_to_svg(chart.mark_text().encode(text="told:N").to_dict())
    assert re.findall(r">([^<>]+)</text>", svg) == [told]
    if told[0] in "59":
        assert show(value, units).split()[-1] == told.split()[-1]
