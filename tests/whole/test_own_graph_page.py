"""docs/own_graph.md, run from its first line to its last, in an empty folder."""

import re

import pages
import pytest

pytestmark = pytest.mark.long

TEXT = pages.text_of("own_graph")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pages.run("own_graph", tmp_path_factory.mktemp("own_graph")) as names:
        yield names


def test_no_block_is_left_out():
    assert len([*pages.BLOCK.finditer(TEXT)]) == TEXT.count("\n```") / 2


def test_every_format_gives_the_same_results(found):
    first = found["first"].scores.drop(columns="run")
    assert first["value"].iloc[-1] > 0.5
    for result in (*found["same"].values(), found["in_memory"]):
        assert result.scores.drop(columns="run").equals(first)


def test_the_command_line_has_made_the_report_and_the_chart_is_saved(found):
    assert (found["folder"] / "runs" / "own" / "report" / "report.html").is_file()
    assert "vega" in (found["folder"] / "scores.html").read_text("utf-8")


def test_the_given_split_is_that_of_the_file(found):
    last = found["given"].scores.query("split == 'test'").groupby("version")["weight"].sum()
    assert set(last) == {found["masks"]["test_mask"].sum()}


def test_owners_are_those_of_the_table(found):
    scores = found["owned"].scores.query("version == 1 and split == 'test'").set_index("client")["weight"]
    labels = found["y"]
    expected = {
        k: sum(len(own) - int(0.5 * len(own) + 1e-9) for own in ([y for y in labels[k::4] if y == c] for c in range(3)))
        for k in range(4)
    }
    assert scores.to_dict() == expected


def test_who_is_offline_is_not_asked_or_lost(found):
    asked = found["real"].runs.iloc[0]
    assert asked["lost"] > 0 or asked["asked"] < 40


def test_an_own_algorithm_differs_and_is_kept(found):
    means = found["mine"].runs.groupby("algorithm")["score"].mean()
    assert len(means) == 2
    assert found["mine"].runs["status"].tolist() == ["done"] * 6
    kept = [*(found["folder"] / "runs" / "mine" / "inputs").glob("inline_*/damped.py")]
    assert len(kept) == 1


def test_the_mistake_is_reported_and_leaves_nothing(found):
    assert re.search(
        r"^graph: 'edge_index', edge \d+ ends at 300, and the 300 nodes are 0 … 299", found["printed"], re.M
    )
    assert not (found["folder"] / "runs" / "wrong").exists()
