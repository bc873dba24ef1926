"""What reports call algorithms: their published names, and what tells two of one name apart."""

import pandas as pd
import pytest

from algorithms.fedavg import FedAvg
from analysis.read.methods import labels, without_digests
from fedsim.learn.algorithm import title_of
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

TITLES = {
    "fedavg": "FedAvg", "fedprox": "FedProx", "fed_ergnn": "Fed-ERGNN", "power": "POWER", "fedgta": "FedGTA",
    "fed_pub": "Fed-PUB", "fedsage_plus": "FedSage+", "fed_dslr": "Fed-DSLR", "fed_twp": "Fed-TWP", "ghost": "GHOST",
    "dg_colearn": "DG-CoLearn", "feddgl": "FedDGL", "d_fedgnn": "D-FedGNN",
}  # fmt: skip


def called(*points, axes=()):
    """Labels of points given as (run, value of the axis, published name, resolved algorithm)."""
    frame = pd.DataFrame([point[:3] for point in points], columns=["results", "algorithm", "method"])
    return labels(frame, [{} if part is None else {"algorithm": part} for *_, part in points], axes).tolist()


@pytest.mark.parametrize(("name", "title"), TITLES.items())
def test_algorithms_have_their_published_names(name, title):
    assert title_of(find.find("algorithm", Part(name=name), name)) == title


def test_every_algorithm_has_a_title_of_its_own():
    class Mine(FedAvg):
        pass

    assert title_of(Mine) == "Mine"
    titles = [title_of(find.find("algorithm", Part(name=name), name)) for name in find.names("algorithm")]
    assert len(titles) == len(set(titles)) > 20


def test_a_name_stands_alone_where_there_is_one_of_it():
    given = ("run", "fed_ergnn", "Fed-ERGNN", {"name": "fed_ergnn", "beta": 0.1})
    assert called(given, ("run", "fedavg", "FedAvg", "fedavg")) == ["Fed-ERGNN", "FedAvg"]


def test_options_that_differ_tell_two_of_one_name_apart():
    small, large = (
        ("run", f"fed_ergnn(beta={beta})", "Fed-ERGNN", {"name": "fed_ergnn", "beta": beta, "keep": 4})
        for beta in (0.1, 0.5)
    )
    assert called(small, large) == ["Fed-ERGNN (beta 0.1)", "Fed-ERGNN (beta 0.5)"]
    bare = ("run", "fed_ergnn", "Fed-ERGNN", "fed_ergnn")
    assert called(bare, large) == ["Fed-ERGNN", "Fed-ERGNN (keep 4, beta 0.5)"] or called(bare, large) == [
        "Fed-ERGNN",
        "Fed-ERGNN (beta 0.5, keep 4)",
    ]


def test_an_option_that_is_an_axis_or_goes_along_with_one_is_no_part_of_the_name():
    points = [("run", "power", "POWER", {"name": "power", "beta": beta}) for beta in (0.1, 0.5)]
    assert called(*points) == ["POWER", "POWER"]
    assert called(*points, axes=["algorithm.beta"]) == ["POWER", "POWER"]


def test_runs_side_by_side_share_a_name_where_nothing_differs():
    first = ("a", "power", "POWER", {"name": "power", "beta": 0.1})
    same = ("b", "power(beta=0.1)", "POWER", {"name": "power", "beta": 0.1})
    other = ("b", "power(beta=0.2)", "POWER", {"name": "power", "beta": 0.2})
    assert called(first, same) == ["POWER", "POWER"]
    assert called(first, same, other) == ["POWER (beta 0.1)", "POWER (beta 0.1)", "POWER (beta 0.2)"]


def test_two_files_of_one_name_are_never_one_method():
    mine, theirs = (("run", name, "Power", name) for name in ("mylab.power", "power"))
    assert called(mine, theirs) == ["Power (mylab.power)", "Power (power)"]
    twins = [("run", value, "POWER", {"name": "power"}) for value in ("one", "two")]
    assert called(*twins) == ["POWER (one)", "POWER (two)"]


def test_runs_from_before_there_were_names_keep_what_was_written():
    assert called(("run", "fed_ergnn(beta=0.1)", "", {"name": "fed_ergnn", "beta": 0.1})) == ["fed_ergnn(beta=0.1)"]
    assert called(("run", "none", "", None)) == ["none"]


def test_a_failed_point_is_called_as_the_others_of_its_algorithm():
    assert called(("run", "power", "", None), ("run", "power", "POWER", "power")) == ["POWER", "POWER"]


def test_options_of_all_kinds_are_words():
    parts = [{"name": "x", "on": on, "many": many, "none": None} for on, many in ((True, [1, 2]), (False, []))]
    found = called(*(("run", f"x{place}", "X", part) for place, part in enumerate(parts)))
    assert found == ["X (on true, many 1 + 2)", "X (on false, many none)"]


def test_names_of_classes_given_in_python_lose_their_digest_unless_they_would_be_mixed_up():
    assert without_digests(pd.Series(["fedavg", "inline_0123456789.Mine"])).tolist() == ["fedavg", "Mine"]
    alike = ["inline_0123456789.Mine", "inline_abcdef0123.Mine"]
    assert without_digests(pd.Series(alike)).tolist() == alike
