"""docs/own_graph.md, run from its first line to its last, in an empty folder."""

import contextlib
import io
import linecache
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fedsim import __main__ as command_line

pytestmark = pytest.mark.long

TEXT = (Path(__file__).parents[1] / "docs" / "own_graph.md").read_text("utf-8")
BLOCK = re.compile(r"(?:^`(?P<file>[\w./]+)`\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The names that the page's Python has made, after all its blocks, and `printed`."""
    page, out = ModuleType("own_graph_page"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(tmp_path_factory.mktemp("own_graph"))
        patch.setitem(sys.modules, page.__name__, page)
        for number, block in enumerate(BLOCK.finditer(TEXT)):
            if block["file"]:
                Path(block["file"]).write_text(block["body"], "utf-8")
            elif block["kind"] == "python":
                name = f"/nowhere/own_graph.md, block {number}"
                lines = block["body"].splitlines(keepends=True)
                patch.setitem(linecache.cache, name, (len(block["body"]), None, lines, name))  # as notebooks do
                exec(compile(block["body"], name, "exec"), vars(page))
            else:
                for line in block["body"].splitlines():
                    assert line.startswith("python -m fedsim ")
                    assert command_line.main([*shlex.split(line)[3:], "--jobs", "1"]) == 0
        yield {**vars(page), "printed": out.getvalue(), "folder": Path.cwd()}


def test_no_block_is_left_out():
    assert len([*BLOCK.finditer(TEXT)]) == TEXT.count("\n```") / 2


def test_every_format_gives_the_same_results(found):
    first = found["first"].scores.drop(columns="point")
    assert first["value"].iloc[-1] > 0.5
    for result in (*found["same"].values(), found["in_memory"]):
        assert result.scores.drop(columns="point").equals(first)


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
    asked = found["real"].points.iloc[0]
    assert asked["lost"] > 0 or asked["asked"] < 40


def test_an_own_algorithm_differs_and_is_kept(found):
    means = found["mine"].points.groupby("algorithm")["score"].mean()
    assert len(means) == 2
    assert found["mine"].points["status"].tolist() == ["done"] * 6
    kept = [*(found["folder"] / "runs" / "mine" / "inputs").glob("inline_*/damped.py")]
    assert len(kept) == 1


def test_the_mistake_is_reported_and_leaves_nothing(found):
    assert re.search(
        r"^graph: 'edge_index', edge \d+ ends at 300, and the 300 vertices are 0 … 299", found["printed"], re.M
    )
    assert not (found["folder"] / "runs" / "wrong").exists()
