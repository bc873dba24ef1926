"""What a result shows: a few lines, a compact table, a chart; and how a sweep goes in a notebook."""

import re
import sys
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.read.load import load
from fedsim import simulate
from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.sweep import notebook
from fedsim.sweep.result import Result

SCENARIO = {
    "name": "shown",
    "data": {
        "dataset": {"name": "synthetic", "nodes": 60, "classes": 3, "features": 4, "degree": 4},
        "partition": "random", "split": {"train": 0.4, "val": 0.2, "test": 0.4},
    },
    "model": {"name": "gcn", "hidden": 4},
    "training": {"optimiser": "adam", "lr": 0.02},
    "clients": {"count": 2, "speed": "1 GFLOP/s"},
    "network": {"uplink": "8 Mbit/s", "downlink": "8 Mbit/s", "latency": "10 ms"},
    "protocol": {"name": "sync", "rounds": 4, "participation": 1.0},
    "algorithm": "fedavg",
    "grid": {"network.latency": ["10 ms", "1 s"], "seed": [0, 1]},
}  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    grid = {"algorithm": ["fedavg", {"name": "fedprox", "mu": 0.1}], **SCENARIO["grid"]}
    return simulate(SCENARIO | {"grid": grid}, progress=False, out=tmp_path_factory.mktemp("shown") / "runs")


def test_a_result_prints_in_a_few_lines(result):
    first, second, last = repr(result).splitlines()
    assert first == f"Result: 8 runs, in {result.folder}"
    means = result.runs.groupby(["algorithm", "network.latency"])["score"].mean()
    assert f"highest score {means.max():.3f} (mean of 2 seeds): algorithm " in second
    assert "plot()" in last


def test_failed_points_are_counted_and_not_averaged(result):
    broken = result.runs.copy()
    broken.loc[0, ["status", "score"]] = ["failed", None]
    told = Result(result.folder, broken, result.axes)
    assert repr(told).startswith("Result: 8 runs, 1 failed, in ")
    assert told.summary()["seeds"].tolist() == [1, 2, 2, 2]


def test_the_table_of_a_notebook_has_a_row_a_condition(result):
    page = result._repr_html_()
    assert page.count("<tr") == 1 + 4
    for axis, count in (("fedavg", 2), ("fedprox", 2)):
        assert page.count(f"<td>{axis}") == count
    many = pd.concat([result.runs.assign(**{"network.latency": f"{n} <ms>"}) for n in range(30)])
    page = Result(result.folder, many, result.axes)._repr_html_()
    assert page.count("<tr") == 1 + 20
    assert "and 40 more" in page
    assert "<ms>" not in page


def test_what_no_point_has_is_a_number_that_is_none(tmp_path):
    told = simulate(
        SCENARIO | {"grid": {"seed": [0, 1]}}, progress=False, out=tmp_path / "runs", protocol__rounds=1,
        measure={"target": 1.0},
    )  # fmt: skip
    back, (loaded,) = pd.read_csv(tmp_path / "runs" / "summary.csv"), [load([tmp_path / "runs"]).points]
    for points in (told.runs, back, loaded):
        for name in ("seconds_to_target", "bytes_to_target", "la", "fm", "epsilon"):
            assert points[name].dtype == "float64"
            assert points[name].isna().all()
        assert not (points["seconds_to_target"] < 10).any()


def asked_of(page):
    """What a page would load: addresses of scripts, styles, pictures and modules."""
    markup = re.sub(
        r"(<script[^>]*>).*?(</script>)", r"\1\2", page, flags=re.DOTALL
    )  # of scripts, their addresses alone
    return re.findall(r"""(?:src|href)\s*=\s*["']?(https?:[^"'> ]*)""", markup) + re.findall(
        r"""(?:import\s*\(?|from|require\(\[?|loadScript\()\s*["'`](https?:[^"'`]*)""", page
    )


@pytest.mark.parametrize("panels", [True, False])
def test_a_chart_asks_no_other_machine(result, tmp_path, panels):
    one = result.runs[result.runs["network.latency"] == "1 s"] if not panels else result.runs
    chart = Result(result.folder, one, result.axes).plot()
    chart.save(tmp_path / "scores.html")
    page = (tmp_path / "scores.html").read_text()
    shown = unescape(chart._repr_mimebundle_()["text/html"])
    for text in (page, shown, chart.to_html()):
        assert len(text) > 500_000  # it has its scripts
        assert asked_of(text) == []
        assert "cdn." not in text
    assert asked_of(type(chart).__mro__[2].to_html(chart))  # what Altair alone would do


def rows_of(chart):
    (values,) = chart.to_dict()["datasets"].values()
    return pd.DataFrame(values)


@pytest.mark.parametrize("over", ["time", "bytes"])
def test_a_chart_has_each_point_s_scores_at_their_place(result, over):
    rows = rows_of(result.plot(over))
    assert set(rows["run"]) == set(result.runs["run"])
    assert set(rows["line"]) == set(result.runs["algorithm"].map(str))
    assert set(rows["panel"]) == {"latency 10 ms", "latency 1 s"}
    last = rows.groupby("run")["score"].last()
    assert last.to_dict() == pytest.approx(result.runs.set_index("run")["score"].to_dict())
    assert rows.groupby("run")["place"].apply(lambda places: places.is_monotonic_increasing).all()
    if over == "time":
        seconds = result.runs.set_index("run")["sim_seconds"]
        assert (rows.groupby("run")["place"].max() / seconds).round(6).nunique() == 1  # in one unit


def test_a_chart_is_drawn(result, tmp_path):
    result.plot().save(str(tmp_path / "chart.svg"))
    assert "latency 1 s" in (tmp_path / "chart.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"over": "money"}, r"plot\('money'\): unknown axis; give 'time' or 'bytes'"),
        ({"metric": "auc"}, "there are no scores of the metric 'auc'; there are accuracy"),
        ({"split": "val"}, "there are no scores of the split 'val'; there are test"),
    ],
)
def test_a_chart_of_what_there_is_not_is_refused(result, given, message):
    with pytest.raises(UserError, match=message):
        result.plot(**given)


class Screen:
    """IPython as far as the line asks for it: what a cell shows, and what it is changed to."""

    def __init__(self, kernel=True):
        self.shown = []
        self.get_ipython = lambda: SimpleNamespace(kernel=object()) if kernel else None
        self.display = SimpleNamespace(HTML=str, display=self._display)

    def _display(self, html, display_id):
        assert display_id
        self.shown.append([html])
        return SimpleNamespace(update=self.shown[-1].append)


@pytest.fixture
def screen(monkeypatch):
    made = Screen()
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made.display)
    return made


def test_a_notebook_shows_one_line_that_changes(screen, tmp_path, capsys):
    assert notebook.inside()
    simulate(SCENARIO | {"grid": {"seed": [0, 1, 2]}}, out=tmp_path / "runs")
    (line,) = screen.shown
    assert '<progress max="3" value="0.000"></progress> 0 of 3 runs' in line[1]
    assert line[-1] == '<progress max="3" value="3.000"></progress> 3 of 3 runs'
    assert len(line) < 100
    simulate(SCENARIO | {"grid": {"seed": [0, 1, 2]}}, out=tmp_path / "runs")
    assert line is not screen.shown[-1]
    assert "3 of 3 runs are finished already" in screen.shown[-1][-1]
    assert capsys.readouterr().out == ""


def test_a_notebook_that_is_to_be_quiet_shows_nothing(screen, tmp_path):
    simulate(SCENARIO | {"grid": {"seed": [0]}}, out=tmp_path / "runs", progress=False)
    assert screen.shown == []


def test_failures_are_reported_in_the_line_and_many_are_counted(screen):
    with notebook.Line() as line:
        line.begin(30, 0)
        for number in range(30):
            point = SimpleNamespace(id=f"p{number}")
            line.progressed(point, Progress(0.5, 1.0, None, 1))
            line.ended(point, {}, "<lost>")
    last = screen.shown[0][-1]
    assert "30 of 30 runs, 30 failed" in last
    assert last.count("failed: &lt;lost&gt;") == notebook.MOST


def test_outside_of_a_kernel_there_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", Screen(kernel=False))
    assert not notebook.inside()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not notebook.inside()


def test_where_nothing_was_scored_a_result_says_so(tmp_path):
    moved = {key: SCENARIO[key] for key in ("clients", "network", "protocol")} | {"name": "moved"}
    result = simulate(
        moved | {"algorithm": {"name": "traffic", "up": "1 kB", "down": 0}}, progress=False, out=tmp_path / "runs"
    )
    assert len(repr(result).splitlines()) == 2  # no line of a score
    assert "<td>1</td>" in result._repr_html_()
    with pytest.raises(UserError, match="plot: nothing was scored in"):
        result.plot()
    assert isinstance(result.folder, Path)
