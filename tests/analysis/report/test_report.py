import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import yaml
from synthetic_sweep import write_sweep

from analysis.__main__ import main
from analysis.measures.summarise import summarise
from analysis.read.load import load, lookup
from analysis.read.stored import NotARunError, read
from analysis.report.write import write

pytestmark = pytest.mark.long

SMALL = {"latencies": ("10 ms", "1 s"), "participations": ("0.1", "1.0"), "algorithms": ("fedavg", "power")}
ONE = {"latencies": ("10 ms",), "participations": ("1.0",), "algorithms": ("power",), "seeds": (0,)}
FIGURES = (
    "bytes_by_fate link_use timeline waiting "
    "score_time score_bytes seconds_to_target bytes_to_target trade_time trade_bytes bytes_by_direction bytes_by_step "
    "leaders_time leaders_moved ranking score_along_protocol_participation "
    "score_along_network_latency heat_score heat_seconds_to_target heat_bytes_moved "
    "clients_score clients_uploads clients_took "
    "heat_bytes_to_target forgetting updates_per_period_network_latency updates_per_period_protocol_participation"
)


class Page(HTMLParser):
    """The parts of a page that tests look at: what it would load, its identifiers, its tables' rows, its text."""

    def __init__(self, path: Path):
        super().__init__()
        self.loads, self.links, self.ids, self.rows, self.words, self.in_row = [], [], [], [], [], False
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "link", "img", "iframe", "object", "embed", "source", "image", "use"):
            self.loads += [given[key] for key in ("src", "href", "xlink:href", "data") if given.get(key)]
        if tag == "a":
            self.links.append(given["href"])
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "tr":
            self.rows.append([])
            self.in_row = True

    def handle_endtag(self, tag):
        self.in_row &= tag != "tr"

    def handle_data(self, data):
        if self.in_row and data.strip():
            self.rows[-1].append(data.strip())
        self.words.append(data)


def without_library(path: Path) -> str:
    """The page's text but for the scripts of Vega-Lite, which know how to fetch: the page's policy forbids it."""
    return re.sub(r'<script id="vega">.*?</script>', "", path.read_text("utf-8"), flags=re.DOTALL)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Four points an algorithm and seed; at 1 s of latency a period is said to have had half the updates."""
    folder = write_sweep(tmp_path_factory.mktemp("runs") / "sparse", **SMALL)
    summary = pd.read_csv(folder / "summary.csv", dtype="str")
    summary.loc[summary["network.latency"] == "1 s", "updates_per_period"] = "3.0"
    summary.to_csv(folder / "summary.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def report(sweep):
    path = write([sweep])
    assert path == sweep / "report.html"
    return path


def test_the_page_needs_nothing_but_itself(report):
    text, page = without_library(report), Page(report)
    assert all(address.startswith("data:image/svg+xml,") for address in page.loads)
    assert page.links
    inside = [link for link in page.links if link.startswith("#")]
    assert all(link[1:] in page.ids for link in inside)
    files = {*page.links} - {*inside}
    assert files
    assert all((report.parent / link).is_file() for link in files)
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest", text)
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in text


def test_identifiers_are_unique_and_all_references_lead_somewhere(report):
    page = Page(report)
    assert len(page.ids) == len(set(page.ids))
    assert set(re.findall(r"url\(#([^)]+)\)", without_library(report))) <= set(page.ids)


def test_every_section_and_every_row_is_there(report):
    page = Page(report)
    assert {
        "target",
        "best",
        "ranking",
        "summary",
        "computing",
        "curves",
        "bytes",
        "robustness",
        "forgetting",
        "losses",
        "run",
        "glossary",
        "answer",
    } <= set(page.ids)
    assert page.rows[:3] == [  # the answer's grid
        ["participation", "latency 10 ms", "latency 1 s"],
        ["0.1", "nobody", "nobody"],
        ["1.0", *2 * ("not ranked", "2 of 2 runs at the first score that counts")],
    ]
    heads = next(row for row in page.rows if row[:4] == ["latency", "participation", "algorithm", "accuracy"])
    rows = [row for row in page.rows if len(row) == len(heads) and row is not heads]
    assert [row[:3] for row in rows] == [
        [latency, share, algorithm]
        for latency in ("10 ms", "1 s")
        for share in ("0.1", "1.0")
        for algorithm in ("fedavg", "power")
    ]
    never = dict(zip(heads, rows[0], strict=True))
    assert (never["reached"], never["time to target"], never["bytes to target"]) == ("0 of 2", "–", "–")
    assert re.fullmatch(r"[\d.]+ % \([\d.]+ to [\d.]+ %\)", never["accuracy"])
    words = "".join(page.words)
    assert "16 of 16 runs have results" in words
    assert "version of torch" in words
    assert "In every row: n 2, " in words


def test_figures_and_tables_are_files(report):
    folder = report.parent
    assert {path.stem for path in (folder / "figures").glob("*.svg")} == set(FIGURES.split())
    for name in FIGURES.split():
        ElementTree.parse(folder / "figures" / f"{name}.svg")
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    tables = {path.name: pd.read_csv(path) for path in (folder / "tables").glob("*.csv")}
    assert len(tables["runs.csv"]) == 16
    assert len(tables["summary.csv"]) == 8
    assert set(tables["bytes_by_direction.csv"]["direction"]) == {"up", "down"}
    assert set(tables["bytes_by_step.csv"]["kind"]) == {"train", "embed"}
    by = ["network.latency", "protocol.participation", "algorithm"]
    moved, steps = (tables[f"bytes_by_{name}.csv"].groupby(by)["bytes"].sum() for name in ("direction", "step"))
    pd.testing.assert_series_equal(moved, steps, check_dtype=False)
    on_the_wire = tables["summary.csv"].groupby(by)["bytes_moved"].sum()
    pd.testing.assert_series_equal(moved, on_the_wire, check_dtype=False, check_names=False)


@pytest.mark.usefixtures("undrawn")
def test_a_score_that_does_not_change_along_an_axis_is_said_and_not_drawn(tmp_path):
    run = write_sweep(tmp_path / "flat", **{**SMALL, "participations": ("1.0",), "algorithms": ("power",)})
    for path in run.glob("points/*/scores.parquet"):
        pd.read_parquet(path).assign(value=0.5).to_parquet(path)
    page = Page(write([run]))
    said = "The accuracy is the same at every latency (10 ms and 1 s), to within 0.5 %, for the same rounds, bytes and "
    assert said + "simulated time." in page.words
    assert (run / "tables" / "score_along_network.latency.csv").is_file()
    assert not (run / "figures" / "score_along_network_latency.svg").exists()


def test_what_never_reached_the_target_is_written_out(report):
    svg = (report.parent / "figures" / "seconds_to_target.svg").read_text("utf-8")
    assert "not reached" in svg


def test_summaries_and_tables_tell_the_same(sweep, report):
    forgetting = pd.read_csv(sweep / "tables" / "forgetting.csv")
    summary = pd.read_csv(sweep / "tables" / "summary.csv")
    for _, row in summary.iterrows():
        same = forgetting[(forgetting[[*row.index[:3]]] == row.iloc[:3]).all(axis=1)]
        A = same.pivot_table(index="learned", columns="tested", values="value").to_numpy()
        assert A[-1].mean() == pytest.approx(row["am"])
        assert A.diagonal().mean() == pytest.approx(row["la"])
        assert row["am"] + row["fm"] * (len(A) - 1) / len(A) == pytest.approx(A.diagonal().mean())


def test_a_browser_opens_it(report):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no browser here")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run([browser, *flags, report.as_uri()], capture_output=True, text=True, timeout=60, check=True)
    assert "Who reaches the target first?" in done.stdout


@pytest.mark.long
def test_one_point_without_target_or_grid(tmp_path):
    page = Page(write([write_sweep(tmp_path / "single", **ONE, target=None)], tmp_path / "out"))
    words = "".join(page.words)
    assert not {"target", "along", "best"} & {*page.ids}
    assert "Accuracy at the end" in page.words  # heads the answer
    (score,) = pd.read_csv(tmp_path / "single" / "summary.csv")["score"]
    assert page.rows[1] == [f"{score:.1%}".replace("%", "\u00a0%")]
    assert "A single run each. Scored: accuracy of the global model on the clients' test sets; " in words
    assert "A single replicate" in words
    assert not (tmp_path / "single" / "report.html").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_target_nobody_reaches(tmp_path):
    page = Page(write([write_sweep(tmp_path / "high", **ONE, target=0.99)]))
    words = "".join(page.words)
    assert "Time and bytes to 99 % accuracy" in page.words  # heads the answer
    assert page.rows[1] == ["nobody"]
    assert "nobody: no method got there in every run" in words
    assert "No run reached its target" in words


def test_what_a_period_was_given_is_shown(sweep, report):
    page, periods = Page(report), pd.read_csv(sweep / "tables" / "periods.csv")
    assert "Updates per period against latency" in "".join(page.words)
    assert set(periods["period"]) == {1, 2, 3, 4}
    assert set(periods["updates"]) == {6.0}  # 24 rounds, 4 periods
    by_period = periods.groupby("period")["prequential"].mean()
    assert by_period.loc[2:].tolist() == pytest.approx([0.2, 0.3, 0.4])
    assert by_period.loc[:1].isna().all()
    summary = pd.read_csv(sweep / "tables" / "summary.csv")
    assert summary["prequential"].tolist() == pytest.approx([0.3] * 8)
    assert summary["staleness"].tolist() == pytest.approx([0.5] * 8)
    wasted = pd.read_csv(sweep / "tables" / "bytes_wasted.csv")
    assert (wasted[["late", "discarded", "broken"]].sum() > 0).all()
    by = ["network.latency", "protocol.participation", "algorithm"]
    fates = pd.read_csv(sweep / "tables" / "bytes_by_fate.csv").groupby([*by, "fate"])["bytes"].sum().unstack()
    fates = fates.loc[[*map(tuple, wasted[by].to_numpy())]]  # what is cut, late or discarded is wasted, overhead is not
    assert wasted[["late", "discarded", "broken"]].to_numpy() == pytest.approx(
        fates[["late", "discarded", "cut"]].fillna(0).to_numpy()
    )
    assert wasted["wasted"].tolist() == pytest.approx(wasted[["late", "discarded", "broken"]].sum(axis=1).tolist())
    beside = wasted["wasted"].to_numpy() + fates["overhead"].to_numpy()
    assert beside.tolist() == pytest.approx(summary["bytes_wasted"].tolist())  # all that is no delivered payload
    assert "In tables/summary.csv bytes_wasted has the overhead too." in "".join(page.words)


def test_transfer_times_pool_the_messages_of_all_seeds(sweep, report):
    times = pd.read_csv(sweep / "tables" / "transfer_times.csv")
    assert "times" not in Page(report).ids  # scores say more; the numbers are in the table
    runs = load([sweep])
    by = ["network.latency", "protocol.participation", "algorithm"]
    rows = pd.concat([read(folder, "transfers").assign(run=point) for point, folder in runs.folders.items()])
    moved = rows.merge(runs.points[["run", *by]], on="run")
    moved = moved[moved["fate"] == "delivered"]
    assert len(times) == 16
    for row in times.itertuples(index=False):
        here = moved[(moved[by].to_numpy(str) == [row[0], str(row[1]), row[2]]).all(axis=1)]
        seconds = (here["arrived"] - here["sent"])[(here["src"] < 0) == (row.direction == "down")].to_numpy()
        told = [len(seconds), *np.quantile(seconds, [0.5, 0.95]), seconds.max()]
        assert [row.transfers, row.median, row.p95, row.largest] == pytest.approx(told)


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_bytes_between_peers_have_a_column_of_their_own(tmp_path):
    run = write_sweep(tmp_path / "gossip", **{**ONE, "seeds": (0, 1)})
    assert "payload between peers" not in Page(write([run])).rows[0]
    summary = pd.read_csv(run / "summary.csv").assign(bytes_up=None, bytes_down=None, bytes_peer=[1e6, 3e6])
    summary.to_csv(run / "summary.csv", index=False)
    page = Page(write([run]))
    heads, cells = next((row, below) for row, below in pairwise(page.rows) if "payload between peers" in row)
    assert not {"payload up", "payload down"} & set(heads)
    assert dict(zip(heads, cells, strict=True))["payload between peers"] == "2.00 MB (1.00 to 3.00 MB)"


@pytest.mark.usefixtures("undrawn")
def test_the_mean_over_periods_stands_beside_the_last_score(tmp_path):
    run = write_sweep(tmp_path / "ahead", **{**ONE, "seeds": (0, 1)})
    summary = pd.read_csv(run / "summary.csv").assign(score=[0.5, 0.5], am=None, fm=None, la=[0.3, 0.4])
    summary.to_csv(run / "summary.csv", index=False)
    page = Page(write([run]))
    heads, cells = next((row, below) for row, below in pairwise(page.rows) if "LA" in row)
    told = dict(zip(heads, cells, strict=True))
    assert (told["accuracy"], told["LA"]) == ("50.0 %", "35.0 (30.0 to 40.0)")
    assert not {"AM", "FM"} & set(heads)


@pytest.mark.usefixtures("undrawn")
def test_one_period_has_no_section_of_periods(tmp_path):
    run = write_sweep(tmp_path / "still", **ONE)
    for path in run.glob("points/*/arrivals.parquet"):
        pd.read_parquet(path).query("period == 0").to_parquet(path)
    assert "Updates per period" not in "".join(Page(write([run])).words)


@pytest.mark.usefixtures("undrawn")
def test_scores_can_be_missing(tmp_path):
    run = write_sweep(tmp_path / "unscored", **ONE)
    for path in run.glob("points/*/scores.parquet"):
        pd.read_parquet(path).iloc[:0].to_parquet(path)
    unknown = dict.fromkeys(["score", "am", "la", "fm", "prequential", "seconds_to_target"])
    pd.read_csv(run / "summary.csv").assign(**unknown).to_csv(run / "summary.csv", index=False)
    page = Page(write([run]))
    words = "".join(page.words)
    assert "Nothing was scored" in words
    assert "Bytes moved on the wire, by direction" in words
    assert not {"target", "best", "curves", "robustness", "forgetting"} & set(page.ids)
    assert {"losses", "answer", "summary"} <= set(page.ids)


@pytest.mark.usefixtures("undrawn")
def test_bytes_alone_make_a_report(tmp_path):
    """A traffic study: no algorithm, no update, nothing that arrives or is scored."""
    run = write_sweep(tmp_path / "traffic", **{**SMALL, "algorithms": ("power",)})
    rows = []
    for point in pd.read_csv(run / "summary.csv")["run"]:
        for name in ("updates", "scores", "arrivals", "spans"):
            path = run / "points" / point / f"{name}.parquet"
            pd.read_parquet(path).iloc[:0].to_parquet(path)
        tables = {path.stem: pd.read_parquet(path) for path in (run / "points" / point).glob("*.parquet")}
        row = summarise(tables, "global", "accuracy", None)
        assert {key for key, value in row.items() if value is not None} == {
            "metric", "bytes_up", "bytes_down", "bytes_wasted"
        }  # fmt: skip
        rows.append(row)
        scenario = yaml.safe_load((run / "points" / point / "scenario.yaml").read_text())
        scenario = {key: value for key, value in scenario.items() if key not in ("algorithm", "measure")}
        (run / "points" / point / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    before = pd.read_csv(run / "summary.csv", dtype="str")
    empty = pd.DataFrame(rows).astype(object).assign(metric="")
    before.assign(**{name: empty[name] for name in empty}).to_csv(run / "summary.csv", index=False)
    page = Page(write([run]))
    assert set(page.ids) >= {"answer", "summary", "bytes", "run", "glossary"}
    assert not {"target", "best", "curves", "periods", "robustness", "forgetting", "losses"} & set(page.ids)
    times = pd.read_csv(run / "tables" / "transfer_times.csv")
    heads = next(row for row in page.rows if "95th percentile" in row)
    assert heads == ["latency", "participation", "direction", "transfers", "median", "95th percentile", "longest"]
    after = page.rows[page.rows.index(heads) + 1 :][: len(times)]
    assert [row[:4] for row in after] == [
        [latency, share, way, str(count)]
        for latency, share, way, count in zip(
            times["network.latency"], times["protocol.participation"].astype(str), times["direction"],
            times["transfers"], strict=True,
        )
    ]  # fmt: skip
    assert "Nothing was scored: this report is about traffic and time" in "".join(page.words)
    assert "8 runs. Nothing" in "".join(page.words)
    assert "prequential" not in next(row for row in page.rows if "simulated time" in row)
    assert all(link[1:] in page.ids for link in page.links if link.startswith("#"))


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_orders_of_tasks_are_replicates(tmp_path):
    run = write_sweep(tmp_path / "orders", **{**SMALL, "latencies": ("10 ms",), "seeds": (0,)}, orders=[*"12345"])
    page, runs = Page(write([run])), load([run])
    assert runs.axes == ("protocol.participation",)
    assert not [path for path in (run / "figures").iterdir() if "numpy_seed" in path.name]
    assert not [*(run / "figures").glob("updates_per_period*")]  # the same everywhere: nothing to draw
    found = {path.stem: pd.read_csv(path) for path in (run / "tables").glob("*.csv")}
    assert found["summary"]["n"].tolist() == [5] * 4
    assert set(found["ranking"]["replicates"]) == {"5 orders x 1 seed"}
    assert set(found["curves"].columns) >= {"data.split.numpy_seed", "seed"}
    points = runs.points[runs.points["protocol.participation"] == "1.0"].assign(
        score=lambda f: f["score"].astype(float)
    )
    orders = points[points["algorithm"] == "power"].groupby("data.split.numpy_seed")["score"].mean()
    told = found["ranking"].query("`protocol.participation` == 1.0 and algorithm == 'power'").iloc[0]
    half = 2.7764451052 * orders.std() / 5**0.5
    assert [told["mean"], told["low"], told["high"]] == pytest.approx(
        [orders.mean(), orders.mean() - half, orders.mean() + half]
    )
    along = found["score_along_protocol.participation"].query("budget == 'rounds'").set_index(["algorithm", "x"])
    assert along.loc[("power", 1.0), ["mean", "low"]].tolist() == pytest.approx([told["mean"], told["low"]])
    assert ["data.split.numpy_seed", "1, 2, 3, 4, 5"] in page.rows
    assert "over 5 replicates" in "".join(page.words)


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_a_union_of_grids_is_drawn_where_it_was_run(tmp_path):
    """Participation at the first latency and latency at full participation, and nothing besides."""
    run = write_sweep(
        tmp_path / "cross", within=lambda latency, share, _: latency == "10 ms" or share == "1.0", seeds=(0, 1)
    )
    page = Page(write([run]))
    assert "30 of 30 runs have results" in "".join(page.words)
    names = {path.stem for path in (run / "figures").glob("*.svg")}
    assert not [name for name in names if name.startswith("heat")]
    kept = pd.read_csv(run / "tables" / "robustness_protocol.participation.csv")
    assert set(kept["network.latency"]) == {"10 ms"}
    assert set(pd.read_csv(run / "tables" / "score_along_network.latency.csv")["protocol.participation"]) == {1.0}
    assert len(pd.read_csv(run / "tables" / "ranking.csv")) == 15


def test_runs_of_other_versions_are_refused(tmp_path):
    old = write_sweep(tmp_path / "old", **ONE)
    path = next(old.glob("points/*/updates.parquet"))
    pd.read_parquet(path).drop(columns="staleness").to_parquet(path)
    with pytest.raises(NotARunError, match=r"updates\.parquet: has no column staleness; run the scenario again"):
        load([old])
    pd.read_csv(old / "summary.csv").drop(columns=["bytes_peer", "la"]).to_csv(old / "summary.csv", index=False)
    with pytest.raises(NotARunError, match=r"summary\.csv: has no column la, bytes_peer; run the scenario again"):
        load([old])


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_runs_side_by_side(tmp_path):
    both = {**SMALL, "seeds": (0,), "algorithms": ("power",)}
    first = write_sweep(tmp_path / "a", **{**both, "participations": ("1.0",)})
    second = write_sweep(tmp_path / "b", **both)
    runs = load([first, second])
    assert runs.axes == ("results", "network.latency", "protocol.participation")
    assert set(runs.points.loc[runs.points["results"] == "a", "protocol.participation"]) == {"1.0"}
    assert len(runs.resolved) == len(set(runs.points["run"])) == 6
    assert write([first, second], tmp_path / "both") == tmp_path / "both" / "report.html"


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    folders = [write_sweep(tmp_path / place / "same", **ONE) for place in ("a", "b")]
    assert sorted(set(load(folders).points["results"])) == sorted(map(str, folders))


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_failed_points_are_named_and_stalled_ones_count(tmp_path):
    run = write_sweep(tmp_path / "odd", **{**SMALL, "participations": ("1.0",), "seeds": (0,)})
    summary = pd.read_csv(run / "summary.csv", dtype="str")
    summary.loc[0, "status"] = "failed"
    summary.loc[1, "status"] = "stalled"
    shutil.rmtree(run / "points" / summary.loc[0, "run"])
    summary.loc[0, "score":] = None
    summary.to_csv(run / "summary.csv", index=False)
    page = Page(write([run]))
    assert "3 of 4 runs have results" in "".join(page.words)
    assert [row[1] for row in page.rows if row[1:2] in (["failed"], ["stalled"])] == ["failed", "stalled"]


def spoil_table(run):
    next(run.glob("points/*/scores.parquet")).write_bytes(b"not a table")


def drop_column(run):
    path = next(run.glob("points/*/updates.parquet"))
    pd.read_parquet(path).drop(columns="lost").to_parquet(path)


def fail_all(run):
    summary = pd.read_csv(run / "summary.csv", dtype="str").assign(status="failed")
    summary.to_csv(run / "summary.csv", index=False)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "there is no such folder"),
        (lambda run: (run / "summary.csv").unlink(), "it has no summary.csv"),
        (lambda run: (run / "scenario.yaml").unlink(), "it has no scenario.yaml"),
        (lambda run: (run / "summary.csv").write_text("run,status\n"), "has no column"),
        (lambda run: (run / "summary.csv").write_bytes(b"\xff\xfe\x00"), "cannot be read"),
        (lambda run: next(run.glob("points/*/transfers.parquet")).unlink(), "this table is missing"),
        (lambda run: next(run.glob("points/*/scenario.yaml")).unlink(), "its scenario is unreadable"),
        (lambda run: next(run.glob("points/*/scenario.yaml")).write_text("a: [\n"), "its scenario is unreadable"),
        (lambda run: next(run.glob("points/*/scenario.yaml")).write_bytes(b"\xff"), "its scenario is unreadable"),
        (lambda run: next(run.glob("points/*/scenario.yaml")).write_text("- a\n"), "not a scenario"),
        (spoil_table, "cannot be read"),
        (drop_column, "has no column lost"),
        (fail_all, "none of its 1 runs has results"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_two(tmp_path, capsys, spoil, message):
    run = write_sweep(tmp_path / "run", **ONE)
    spoil(run)
    assert main([str(run)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert str(run) in told
    assert message in told


def test_a_row_that_is_no_mapping_is_a_run_without_provenance(tmp_path):
    run = write_sweep(tmp_path / "run", **ONE)
    (row,) = run.glob("points/*/scenario.yaml")
    (row.parent / "row.json").write_text("[]")
    assert load([run]).provenance == {f"run/{row.parent.name}": {}}


def test_a_point_given_as_a_run_is_told_so(tmp_path):
    run = write_sweep(tmp_path / "run", **ONE)
    point = next((run / "points").iterdir())
    with pytest.raises(NotARunError, match="it is a run of "):
        load([point])
    with pytest.raises(NotARunError, match="given twice"):
        load([run, run])
    with pytest.raises(NotARunError, match="no folder of results"):
        load([])


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    run = write_sweep(tmp_path / "run", **ONE)
    (tmp_path / "file").write_text("")
    assert main([str(run), "--out", str(tmp_path / "file")]) == 2
    assert "choose another --out" in capsys.readouterr().err


def test_the_command_line(tmp_path, capsys):
    run = write_sweep(tmp_path / "run", **ONE)
    assert main([str(run), "--out", str(tmp_path / "paper")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "paper" / "report.html")
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "examples:" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2


def test_lookup_in_a_resolved_scenario():
    scenario = {
        "algorithm": {"name": "power", "options": {"keep": 4}},
        "network": {"effects": [{"name": "loss", "rate": 0.01}]},
        "model": None,
    }
    keys = ("algorithm", "algorithm.keep", "network.effects.0.rate", "network.effects.1.rate", "model", "seed.x")
    assert [lookup(scenario, key) for key in keys] == ["power", "4", "0.01", "", "", ""]


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_the_whole_sweep(tmp_path):
    page = Page(write([write_sweep(tmp_path / "sparse")]))
    assert "54 of 54 runs have results" in "".join(page.words)
