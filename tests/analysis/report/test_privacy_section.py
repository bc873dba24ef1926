"""The report on privacy: score, bytes and epsilon of each condition side by side."""

import math

import pandas as pd
import pytest

from analysis.report.privacy_section import against_epsilon, privacy_section, private

AXES = ["privacy.noise", "privacy.secure_aggregation"]


class Kept:
    """Keeps what would be written."""

    def __init__(self):
        self.tables, self.drawings = {}, {}

    def save(self, name, frame):
        self.tables[name] = frame

    def drawn(self, name, spec):
        self.drawings[name] = spec
        return f"<{name}>"


def points(**changes):
    rows = [
        {"privacy.noise": noise, "privacy.secure_aggregation": masked, "algorithm": "fedavg", "seed": seed,
         "score": score + int(seed) / 50, "epsilon": epsilon, "bytes_up": up, "bytes_down": 1000.0,
         "bytes_masking": masking, "sim_seconds": 3.0}
        for noise, epsilon, score in (("0", math.inf, 0.9), ("1.0", 4.5, 0.7), ("2.0", 1.5, 0.5))
        for masked, up, masking in (("False", 1000.0, math.nan), ("True", 3000.0, 2000.0))
        for seed in ("0", "1")
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**changes)


def test_every_condition_has_score_bytes_and_epsilon():
    files = Kept()
    html = privacy_section(points(), AXES, "accuracy", files)
    frame = files.tables["privacy"]
    assert len(frame) == 6
    assert frame["n"].tolist() == [2] * 6
    assert frame["masking_share"].tolist() == pytest.approx([0, 0.5] * 3)
    assert frame["score"].tolist() == pytest.approx([0.91, 0.91, 0.71, 0.71, 0.51, 0.51])
    assert html.count("no bound</td>") == 2
    for shown in ("4.50", "1.50", "50.0 %", "91.0 % (90.0 to 92.0 %)", "<privacy>"):
        assert shown in html
    drawn = files.drawings["privacy"]["datasets"]["rows"]
    assert sorted((row["epsilon"], row["moved"]) for row in drawn) == [(1.5, 2.0), (1.5, 4.0), (4.5, 2.0), (4.5, 4.0)]


def test_bare_conditions_stand_beside_those_that_hide_something():
    some = points()
    some.loc[some["privacy.noise"] == "0", "epsilon"] = math.nan
    assert len(private(some, AXES)) == 6
    assert "–</td>" in privacy_section(some, AXES, "accuracy", Kept())


def test_masking_alone_has_a_table_and_no_chart():
    files = Kept()
    assert "masking" in privacy_section(points(epsilon=math.nan), AXES, "accuracy", files)
    assert files.drawings == {}


def test_where_nothing_is_hidden_there_is_no_section():
    files = Kept()
    assert privacy_section(points(epsilon=math.nan, bytes_masking=math.nan), AXES, "accuracy", files) == ""
    assert (files.tables, files.drawings) == ({}, {})


def test_the_chart_can_be_drawn(tmp_path):
    from analysis.charts.drawing import draw

    frame = private(points(), AXES)
    svg = draw(against_epsilon(frame[frame["epsilon"] < math.inf], AXES, "accuracy"), tmp_path / "privacy")
    assert "epsilon" in svg
    assert (tmp_path / "privacy.pdf").stat().st_size > 1000
