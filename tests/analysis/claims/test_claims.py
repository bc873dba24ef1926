"""The claims file, the tables written from it, and reruns held against recorded values."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from synthetic_sweep import write_sweep

from analysis.claims import page, rerun
from analysis.claims.__main__ import main
from analysis.claims.file import Claim, ClaimsError, Table, claims, read, slug
from analysis.claims.record import record
from analysis.statistics.intervals import t_interval

ROOT = Path(__file__).resolve().parents[3]
REPRODUCED = sorted((ROOT / "docs" / "reproduction").glob("*.md"))
SMALL = """
- table: small
  scenario: scenarios/small.yaml
  set: [a=1]
  seeds: three
  interval: none
  columns:
    - {head: method}
    - {head: printed AM / FM, printed: true}
    - {head: ours, metrics: [am, fm]}
    - {head: AM less, metrics: [am], less: FedAvg}
  rows:
    - {cells: [FedAvg, 1.0 / 2.0, 40.1 ± 1.0 / 78.9, ""], set: [b=2]}
    - {cells: ["POWER `paper`", "", "the same / 1,234", -1.5 (-2.0 to -1.0)], set: [b=3], verdict: agrees}
    - {cells: [Other, "", "7", "+3.25"]}
"""


def small(tmp_path, text=SMALL):
    path = tmp_path / "claims.yaml"
    path.write_text(text, encoding="utf-8")
    return read(path)


def test_the_tables_of_the_pages_are_those_written_from_the_file():
    texts = {path: path.read_text(encoding="utf-8") for path in page.pages()}
    assert {path: page.generated(text, read()) for path, text in texts.items()} == texts
    assert sorted(name for text in texts.values() for name in page.marks(text)) == sorted(one.table for one in read())


def test_every_number_of_the_result_in_readme_is_a_claim():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text[text.index("It asks:") : text.index("The report is `runs/")]
    raw = yaml.safe_load((ROOT / "scenarios" / "sparse_clients.yaml").read_text(encoding="utf-8"))
    asked = [100 * raw["measure"]["target"], raw["protocol"]["rounds"], raw["clients"]["count"]]
    asked += [100 * share for share in raw["grid"]["protocol.participation"]]
    prose = page.MARKED.sub("", block)
    assert prose != block, "the table of claims is missing"
    assert {float(number) for number in re.findall(r"\d+(?:\.\d+)?", prose)} <= {*map(float, asked)}
    (table,) = [table for table in read() if table.table in page.marks(text)]
    cells = [cell for row in table.rows for cell in row.cells[1:]]
    numbers = [number for cell in cells for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", cell)]
    made = claims([table])
    assert sorted(map(float, numbers)) == sorted(claim.value for claim in made)
    assert all(claim.metric and claim.command for claim in made)  # and each can be rerun


@pytest.mark.parametrize("path", [ROOT / "docs" / "reproduction.md", *REPRODUCED], ids=lambda path: path.stem)
def test_every_table_of_the_page_is_written_from_the_file(path):
    assert not re.search(r"^\|", page.MARKED.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)


def test_a_mark_without_a_table_and_a_table_without_a_mark_are_refused(tmp_path, monkeypatch):
    tables = small(tmp_path)
    for text in ("prose", 2 * f"<!-- claims: small -->\n{page.END}\n"):
        (tmp_path / "README.md").write_text(text)
        monkeypatch.setattr(page, "ROOT", tmp_path)
        with pytest.raises(ClaimsError, match=rf"one mark .*small.*; there are {text.count('small')}"):
            page.write(tables)
        assert (tmp_path / "README.md").read_text() == text
    marked = f"before\n<!-- claims: small -->\nanything\n{page.END}\nafter"
    written = page.generated(marked, tables)
    assert written.startswith("before\n<!-- claims: small -->\n| method |")
    assert page.generated(written, tables) == written
    assert written.endswith("after")
    with pytest.raises(ClaimsError, match="'other'"):
        page.generated(marked.replace("small", "other"), tables)


def test_cells_are_read_into_claims(tmp_path):
    found = {claim.name: claim for claim in claims(small(tmp_path))}
    assert [*found] == [
        "small/fedavg/ours/am", "small/fedavg/ours/fm", "small/power_paper/ours/fm", "small/power_paper/am_less",
        "small/other/ours", "small/other/am_less",
    ]  # fmt: skip
    own, fm = found["small/fedavg/ours/am"], found["small/power_paper/ours/fm"]
    assert (own.value, own.decimals, own.spread, own.low, own.metric) == (40.1, 1, 1.0, None, "am")
    assert (own.printed, found["small/fedavg/ours/fm"].printed, own.options) == ("1.0", "2.0", ["a=1", "b=2"])
    assert (fm.value, fm.decimals, fm.verdict) == (1234, 0, "agrees")
    less = found["small/power_paper/am_less"]
    assert (less.value, less.low, less.high) == (-1.5, -2, -1)
    assert (less.options, less.baseline) == (["a=1", "b=3"], ["a=1", "b=2"])
    assert found["small/other/ours"].metric is None  # nothing selects its runs
    assert own.command == "python -m fedsim scenarios/small.yaml --set 'a=1' --set 'b=2'"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("less: FedAvg", "less: nobody", "less: 'nobody' names no row"),
        ("seeds: three\n", "sees: three\n", "table 'small'"),
        ('"", "7"', '"", 7', "row 3 has cells that are no text"),
        (', ""], set: [b=2]', "], set: [b=2]", "row 1 has 3 cells for 4 columns"),
    ],
)
def test_a_wrong_file_is_refused_with_the_table_named(tmp_path, old, new, message):
    assert old in SMALL
    with pytest.raises(ClaimsError, match=message):
        small(tmp_path, SMALL.replace(old, new))


def test_every_table_with_a_command_says_how_many_seeds_and_what_its_intervals_cover():
    for table in read():
        assert table.seeds, table.table
        assert table.interval, table.table
        assert table.scenario or table.note, f"{table.table}: no command, and no word on why"


@pytest.mark.parametrize("table", [table for table in read() if table.scenario], ids=lambda table: table.table)
def test_the_options_of_claims_select_points_of_their_scenario(table):
    raw = yaml.safe_load((ROOT / table.scenario).read_text(encoding="utf-8"))
    named = {claim.options and tuple(claim.options): claim for claim in claims([table]) if claim.metric}
    for options in named:
        for option in options:
            key, _, value = option.partition("=")
            axis = key.removeprefix("grid.")
            assert not key.startswith("grid.") or axis in raw["grid"], f"{key} is no axis of {table.scenario}"
            assert yaml.safe_load(value) is not None


def test_a_row_of_another_model_is_held_against_the_other_rows_own(tmp_path):
    text = SMALL.replace("metrics: [am], less", 'metrics: ["am {model} test"], less').replace(
        '"7", "+3.25"]}', '"7", "+3.25"], set: [b=4], model: degree}'
    )
    less = {claim.name: claim for claim in claims(small(tmp_path, text))}["small/other/am_less"]
    assert (less.metric, less.options) == ("am degree test", ["a=1", "b=4"])
    assert (less.baseline_metric, less.baseline) == ("am global test", ["a=1", "b=2"])


def test_what_was_chosen_on_validation_data_can_be_rerun_and_reads_no_test_score():
    chosen = [claim for claim in claims(read()) if claim.table.table == "power_beta"]
    assert len(chosen) == 20
    assert {claim.metric for claim in chosen} == {"am local val"}
    assert len({tuple(claim.options) for claim in chosen}) == 20


def claim(**changes):
    table = Table("small", "ten", "none", [], [], scenario="scenarios/small.yaml")
    return replace(Claim("small/a/b", table, 40.1, 1, metric="am", text="40.1"), **changes)


def test_a_recorded_value_holds_within_the_interval_of_the_rerun():
    many = t_interval([39.0, 41.0, 40.0, 42.0, 38.0])
    assert rerun.judged(claim(), many).held
    assert not rerun.judged(claim(value=50.0), many).held
    assert rerun.judged(claim(value=round(many.high, 1)), many).held  # rounding is forgiven


def test_few_units_are_held_against_the_recorded_interval_or_the_value_as_rounded():
    few = t_interval([40.0, 40.28])
    assert math.isnan(few.low)
    assert rerun.judged(claim(), few).held
    assert not rerun.judged(claim(value=40.3), few).held
    assert rerun.judged(claim(value=45.0, low=39.0, high=51.0), few).held
    assert not rerun.judged(claim(value=45.0, low=41.0, high=51.0), few).held


def test_differences_are_paired_by_replicates():
    own = pd.DataFrame({"seed": [0, 1], "value": [5.0, 7.0]})
    other = pd.DataFrame({"seed": [1, 0], "value": [1.0, 2.0]})
    assert rerun.differences(own, other)["value"].tolist() == [3.0, 6.0]
    with pytest.raises(ClaimsError, match="cannot be paired"):
        rerun.differences(own, other.assign(seed=[1, 2]))


def test_a_metric_may_name_another_one_of_the_scores_or_count_edges_of_partitions(tmp_path):
    (tmp_path / "points" / "p").mkdir(parents=True)
    row = {"time": 1.0, "version": 1, "client": -1, "model": "global", "split": "all_pairs", "weight": 4}
    found = {("mrr", 0, 1): 0.1, ("mrr", 1, 2): 0.3, ("accuracy", 0, 1): 0.5, ("accuracy", 1, 2): 0.9}
    scores = [
        {**row, "version": seen, "metric": metric, "period": period, "seen": seen, "value": value}
        for (metric, period, seen), value in found.items()
    ]
    pd.DataFrame(scores).to_parquet(tmp_path / "points" / "p" / "scores.parquet")
    pd.DataFrame({"edges": [10, 20], "cut": [1, 10]}).to_parquet(tmp_path / "points" / "p" / "partitions.parquet")
    point = pd.Series({"run": "p", "metric": "accuracy"})
    assert rerun.value_of(point, "la global all_pairs mrr", tmp_path) == pytest.approx(20)
    assert rerun.value_of(point, "la global all_pairs", tmp_path) == pytest.approx(70)
    assert rerun.value_of(point, "la@1 global all_pairs", tmp_path) == pytest.approx(50)
    assert rerun.value_of(point, "cut partitions", tmp_path) == pytest.approx(100 * (0.1 + 0.5) / 2)


def test_seconds_are_seconds_and_a_cell_may_have_runs_of_its_own(tmp_path):
    row = pd.Series({"run": "p", "seconds_to_target": 12.5, "bytes_to_target": 2e6, "score": 0.5})
    found = [rerun.value_of(row, name, tmp_path) for name in ("seconds_to_target", "bytes_to_target", "score")]
    assert found == [12.5, 2.0, 50.0]
    text = SMALL.replace("set: [b=2]}", "set: [b=2], cell_set: {ours: [c=4]}}")
    options = {claim.name: claim.options for claim in claims(small(tmp_path, text))}
    assert options["small/fedavg/ours/am"] == ["a=1", "b=2", "c=4"]
    assert options["small/power_paper/ours/fm"] == ["a=1", "b=3"]
    with pytest.raises(ClaimsError, match="cell_set: 'theirs' is the head of no column"):
        small(tmp_path, text.replace("cell_set: {ours", "cell_set: {theirs"))


def test_the_table_of_readme_is_taken_from_a_run(tmp_path):
    folder = write_sweep(
        tmp_path / "run", algorithms=("fedavg", "power"), latencies=("10 ms", "1 s"), seeds=(0, 1, 2, 3, 4)
    )
    path = tmp_path / "claims.yaml"
    path.write_text(SMALL, encoding="utf-8")
    for _ in range(2):  # the second time it replaces the first
        record(folder, path)
    table, other = sorted(read(path), key=lambda one: one.table, reverse=True)
    assert (table.table, other.table) == ("sparse_clients", "small")
    frame = pd.read_csv(folder / "summary.csv", keep_default_na=True)
    for claim in claims([table]):
        chosen = dict(option.removeprefix("grid.").split("=") for option in claim.options)
        rows = frame[(frame["network.latency"] == chosen["network.latency"][1:-1])
                     & (frame["protocol.participation"] == float(chosen["protocol.participation"][1:-1]))
                     & (frame["algorithm"] == chosen["algorithm"][1:-1])]  # fmt: skip
        values = [rerun.value_of(row, claim.metric, folder) for _, row in rows.iterrows()]
        assert len(values) == 5
        assert claim.value == pytest.approx(sum(values) / 5, rel=0.01)
        assert rerun.judged(claim, t_interval(values)).held
    with pytest.raises(ClaimsError, match="its axes are none"):
        record(write_sweep(tmp_path / "one", latencies=("1 s",), participations=("0.5",)), path)


def test_an_unknown_name_is_one_message_and_exit_code_2(capsys):
    assert main(["--rerun", "ghost_main/fedavg/our"]) == 2
    said = capsys.readouterr()
    assert said.err == "claims: there is no claim 'ghost_main/fedavg/our'; did you mean 'ghost_main/fedavg/ours'?\n"
    assert not said.out
    assert main(["nothing_begins_so"]) == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_claim_that_cannot_be_rerun_says_so_and_runs_nothing(tmp_path, known):
    table = claim().table if known else replace(claim().table, scenario=None, note="nobody wrote it down")
    with pytest.raises(ClaimsError, match="how its number is read off" if known else "nobody wrote it down"):
        rerun.rerun(claim(table=table, metric=None), tmp_path)
    assert not [*tmp_path.iterdir()]


def test_the_list_has_every_claim_and_its_verdict(capsys):
    assert main(["power_table2_cora/fedgta"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "power_table2_cora/fedgta/ours_published_order/am: 39.1 ± 1.5; printed 38.6 ± 0.7; agrees"
    assert len(lines) == 5


def test_the_slow_job_reruns_claims_that_exist_and_can_be_rerun():
    asked = re.findall(r"^    (\S+/\S+/[^\s;]+)", (ROOT / ".ci" / "claims").read_text(encoding="utf-8"), re.MULTILINE)
    known = {claim.name: claim for claim in claims(read())}
    assert len(asked) == 3
    assert all(known[name].metric and known[name].command for name in asked)
    assert ".ci/claims" not in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_claim_is_rerun_from_the_command_to_the_verdict(tmp_path, monkeypatch):
    text = (ROOT / "scenarios" / "client_drift.yaml").read_text(encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "drift.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(rerun, "ROOT", tmp_path)
    options = ["protocol.rounds=2", "grid={algorithm: [fedavg], seed: [0]}"]
    table = Table("drift", "two", "none", [], [], scenario="scenarios/drift.yaml")
    own = Claim("drift/a/b", table, 0.0, 1, metric="score", options=options, text="0.0")
    first = rerun.rerun(own, tmp_path / "runs")
    assert not first.held
    again = rerun.rerun(replace(own, value=round(first.found.mean, 1)), tmp_path / "runs")  # runs are there already
    assert again.held


def test_names_can_be_typed_and_numbers_in_bold_are_claims(tmp_path):
    bold = SMALL.replace("40.1 ± 1.0 / 78.9", '"**40.1 ± 1.0** / 78.9"')
    assert bold != SMALL
    found = {claim.name: claim for claim in claims(small(tmp_path, bold))}
    assert found["small/fedavg/ours/am"].value == 40.1
    assert slug("POWER `paper`, β = 0.05") == "power_paper_beta_0_05"
    assert all(claim.name.isascii() for claim in claims(read()))


def test_without_a_checkout_there_are_no_claims_and_one_message_says_so(tmp_path):
    with pytest.raises(ClaimsError, match=r"there is no .*claims\.yaml, which is part of the source checkout"):
        read(tmp_path / "claims.yaml")


def test_a_verdict_on_the_published_order_stands_beside_no_mean_over_orders():
    verdicts = {claim.name: claim.verdict for claim in claims(read()) if claim.table.table == "power_table2_cora"}
    assert verdicts["power_table2_cora/power_paper/ours_published_order/am"] == "agrees"
    assert verdicts["power_table2_cora/power_paper/am_over_5_orders"] == ""
