"""One algorithm, one look in all charts of a report; what is no algorithm looks otherwise, also in the dark."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.charts import totals
from analysis.charts.forest import forest
from analysis.charts.palette import CATEGORIES, DARK, PALETTE, Palette, dark_rules, with_palette

# How the colour-blind see: Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
NAMES = st.lists(st.text("abcde", min_size=1, max_size=3), min_size=1, max_size=60, unique=True)


def linear(colour):
    shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours, sight):
    seen = [lab(np.array(SIGHTS[sight]) @ linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))


def contrast(colour, other):
    light = sorted(float(linear(one) @ [0.2126, 0.7152, 0.0722]) + 0.05 for one in (colour, other))
    return light[1] / light[0]


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("colours", [PALETTE[:7], [DARK.get(one, one) for one in PALETTE[:7]], CATEGORIES[:6]])
def test_colours_are_told_apart_by_everybody(colours, sight):
    assert nearest(colours, sight) > 12  # a difference of 2.3 is just noticed


def test_no_category_has_the_colour_of_an_algorithm():
    apart = [np.linalg.norm(lab(linear(a)) - lab(linear(b))) for a in PALETTE[:7] for b in CATEGORIES]
    assert min(apart) > 12
    assert not {*PALETTE} & {*CATEGORIES}


def test_algorithms_are_seen_on_a_dark_page():
    assert min(contrast(DARK.get(one, one), "#15191e") for one in [*PALETTE, *CATEGORIES]) > 3


@given(NAMES, st.data())
def test_an_algorithm_looks_the_same_in_every_chart(names, data):
    looks = Palette(tuple(names))
    some = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    for channel in ("color", "strokeDash", "shape"):
        whole = dict(zip(names, looks.range(channel, names), strict=True))
        assert looks.range(channel, some) == [whole[name] for name in some]


def test_fifty_algorithms_are_told_apart():
    names = [str(number) for number in range(50)]
    looks = Palette(tuple(names))
    lines = zip(looks.range("color", names), map(str, looks.range("strokeDash", names)), strict=True)
    marks = zip(looks.range("color", names), looks.range("shape", names), strict=True)
    assert len({*lines}) == len({*marks}) == 50


def looks_in(spec):
    """Yield (algorithm, colour) of every colour channel in a description."""
    if isinstance(spec, dict):
        tint = spec.get("color")
        if isinstance(tint, dict) and tint.get("field") == "algorithm":
            yield from zip(tint["scale"]["domain"], tint["scale"]["range"], strict=True)
        for one in spec.values():
            yield from looks_in(one)
    if isinstance(spec, list):
        for one in spec:
            yield from looks_in(one)


def test_charts_of_some_algorithms_take_their_looks_from_all():
    ranked = pd.DataFrame(
        {"algorithm": ["power", "fedavg"], "rank": [1, 2], "mean": [0.9, 0.8], "low": [0.8, 0.7], "high": 1.0, "n": 5,
         "lowest": 0.7, "highest": 1.0, "units": [[], []], "replicates": "5 seeds"}
    )  # fmt: skip
    costs = pd.DataFrame({"algorithm": ["power"], "choice": "", "score": 0.9, "n": 1, "sim_seconds": [3.0]})
    specs = [forest(ranked, [], ["power", "fedavg"], "AM"), totals.trade_off(costs.assign(frontier=True), *TRADE)]
    looks = Palette(("fedavg", "fed_ergnn", "power"))
    found = {pair for spec in specs for pair in looks_in(with_palette(spec, looks))}
    assert found == {("fedavg", PALETTE[0]), ("power", PALETTE[2])}
    assert set(looks_in(specs[1])) == {("power", PALETTE[0])}  # the description itself stays as it was


TRADE = ("sim_seconds", "accuracy")


def test_dark_rules_replace_every_colour_that_has_a_twin():
    rules = dark_rules("figure svg")
    assert len(re.findall(r"figure svg \[(fill|stroke)=", rules)) == 2 * len(DARK)
    assert '[fill="#0072B2"] { fill: #3C92D6; }' in rules
