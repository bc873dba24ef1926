import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from analysis.charts.panels import _panel_order


def test_a_comma_inside_a_part_or_a_draw_parts_nothing():
    labels = ["protocol deadline(wait=1 s, over=1.5)", "protocol sync", "protocol deadline(wait=1 s)", "hidden [8, 4]"]
    assert sorted(_panel_order(pd.Series(labels))) == sorted(labels)


def test_a_comma_between_the_keys_of_a_section_parts_nothing():
    labels = [f"connection {value}, transport {name}"
              for value in ("kind=kept", "kind=kept, request=push") for name in ("tcp", "grpc")]  # fmt: skip
    assert _panel_order(pd.Series(labels)) == labels


@given(st.lists(st.text(st.sampled_from("ab1 ,=(["), max_size=12), min_size=1, max_size=5))
def test_every_panel_has_one_place_whatever_its_name(labels):
    assert sorted(_panel_order(pd.Series(labels, dtype=str))) == sorted({*labels})


def test_names_stay_as_they_come():
    assert _panel_order(pd.Series(["fedavg", "fed_ergnn", "power", "fedavg"])) == ["fedavg", "fed_ergnn", "power"]


def test_panels_follow_the_numbers_of_their_axes():
    labels = [f"latency {a}, uplink lognormal({b}, 0.5)" for a in ("1 s", "10 ms") for b in ("9 Mbit/s", "80 kbit/s")]
    assert _panel_order(pd.Series(labels)) == labels[::-1]
