"""Tables on the page and in LaTeX: what is said once, what is cut, and what every sign means."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.quantity import BYTES, PERCENT, SECONDS
from analysis.report.cells import figure, ranged, spread_in_words
from analysis.report.latex import LONG, escaped, tabular
from analysis.report.page import MOST_ROWS, Cell, text
from analysis.report.sheet import sheet
from analysis.statistics.constant_axes import settled


def test_what_is_the_same_in_every_row_is_said_once():
    rows = [[text(name), Cell("5", 5), Cell(str(place), place), Cell("–", "")] for place, name in enumerate("ab")]
    html = sheet(["algorithm", "updates", "score", "epsilon"], rows, "summary", 1, "Means.")
    assert "updates" not in html.split("</table>")[0]
    assert "epsilon" not in html
    assert "Means. In every row: updates 5." in html
    assert '<a href="tables/summary.csv">tables/summary.csv</a>' in html
    assert "tables/summary.tex" in html


def test_a_single_row_keeps_its_columns():
    html = sheet(["algorithm", "updates"], [[text("a"), Cell("5", 5)]], "summary", 1)
    assert '<button type="button">updates</button></th>' in html
    assert "In every row" not in html


def test_a_table_that_is_cut_says_how_much_is_shown_and_where_the_rest_is():
    rows = [[text(f"a{place}"), Cell(str(place), place)] for place in range(1234)]
    html = sheet(["algorithm", "score"], rows, "a b", 1)
    assert html.count("<tr>") == MOST_ROWS + 1
    assert f"{MOST_ROWS} of 1,234 rows; full table" in html
    assert 'href="tables/a%20b.csv"' in html


def frame(n, low, high):
    return pd.Series({"n": n, "x": (low + high) / 2, "x_sd": 1.0, "x_min": low, "x_max": high})


@pytest.mark.parametrize(
    ("row", "units", "shown"),
    [
        (frame(2, 5.3, 10.1), SECONDS, "7.70 s (5.30 to 10.1 s)"),
        (frame(2, 0.5, 90.0), SECONDS, "45.2 s (500 ms to 1.50 min)"),
        (frame(5, 5.3, 10.1), SECONDS, "7.70 ± 1.00 s"), (frame(1, 4.0, 4.0), BYTES, "4.00 B"),
        (frame(3, 0.2, 0.2), PERCENT, "20.0 %"),
    ],
)  # fmt: skip
def test_few_runs_show_their_range_and_many_their_deviation(row, units, shown):
    assert figure("x", units)(row).shown == shown


def test_ranges_and_the_words_beside_a_table():
    assert ranged(0.2, 0.4, PERCENT) == "20.0 to 40.0 %"
    assert ranged(math.nan, math.nan, BYTES) == "–"
    words = [spread_in_words(pd.DataFrame({"n": n})) for n in ([1], [2, 2], [5], [2, 5])]
    assert words[0] == ""
    assert "brackets" in words[1]
    assert "±" in words[2]
    assert "±" in words[3]
    assert "brackets" in words[3]


def test_an_axis_that_changes_nothing_is_left_out():
    rows = [(latency, part, name, score) for latency in ("10 ms", "1 s") for part, name, score in
            (("0.1", "a", 0.2), ("0.1", "b", 0.3), ("1.0", "a", 0.4), ("1.0", "b", 0.5))]  # fmt: skip
    whole = pd.DataFrame(rows, columns=["latency", "part", "algorithm", "score"])
    shown, axes, words = settled(whole, ["latency", "part"], ["score"])
    assert (len(shown), axes) == (4, ["part"])
    assert words == "The same at every latency (10 ms and 1 s), so shown once."
    moved = whole.assign(score=whole["score"] + np.linspace(0, 0.1, len(whole)))
    assert settled(moved, ["latency", "part"], ["score"])[1:] == (["latency", "part"], "")
    assert settled(whole.iloc[:-1], ["latency", "part"], ["score"])[1] == ["latency", "part"]


@given(st.text())
def test_no_sign_of_a_text_means_anything_to_latex(words):
    told = escaped(words)
    for sign in "&%$#_{}~^\\":
        rest = told.replace("\\textbackslash{}", "").replace("\\textasciitilde{}", "").replace(
            "\\textasciicircum{}", "").replace("\\textless{}", "").replace("\\textgreater{}", "")  # fmt: skip
        for escape in "&%$#_{}":
            rest = rest.replace(f"\\{escape}", "")
        assert sign not in rest
    assert "\n" not in told


def test_a_frame_in_latex():
    table = pd.DataFrame({
        "a_b": ["x & y", "50 %"], "n": [3, 12345678], "share": [0.123456, math.nan], "wide": [1.5e-7, math.inf],
        "yes": [True, False], "nothing": [None, None],
    })  # fmt: skip
    lines = tabular(table).splitlines()
    assert lines[0] == r"% \usepackage{booktabs}"
    assert lines[1] == r"\begin{tabular}{lrrrr}"
    assert lines[3] == r"a\_b & n & share & wide & yes \\"
    assert lines[5] == r"x \& y & 3 & 0.1235 & $1.5\times10^{-7}$ & yes \\"
    assert lines[6] == r"50 \% & 12345678 & -- & $\infty$ & no \\"
    assert lines[-1] == r"\end{tabular}"


def test_a_long_frame_is_broken_over_pages():
    told = tabular(pd.DataFrame({"a": range(LONG + 1)}))
    assert r"\begin{longtable}{r}" in told
    assert r"\endhead" in told
    assert told.count(r"\\") == LONG + 2
