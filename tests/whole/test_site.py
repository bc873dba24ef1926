"""The site's own parts: what its directives write, what its archive begins with, and numbers that two pages share."""

import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import newcomers
import pytest
import yaml

from analysis.claims.file import read
from fedsim.core import record
from fedsim.scenario.schema import Scenario
from fedsim.sweep import runner

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text("utf-8")
ARCHIVE = re.search(r":caption: In depth\n:hidden:\n\n(.*?)```", INDEX, re.DOTALL)[1].split()
BY_THEMSELVES = {"reference", "words", "benchmarks", "peers", "contributing", "changelog"}  # generated, lists, included
SHARED = {  # what the page on trust says, and where it is measured
    "within 2 % of Linux TCP": ("README.md", "within 2 % of real Linux TCP"),
    "within 14 % (Cubic) or 32 % (BBR)": ("README.md", "within 14 % (Cubic) or 32 % (BBR)"),
    "off by 9 % (Cubic) or 17 % (BBR) in the median": ("README.md", "off by 9 % or 17 % in the median"),
    "single ones by 80 %": ("docs/validation.md", "-38.8 to 80.4"),
    "off by 10 to 24 % (Cubic) or 10 to 13 % (BBR) in the median": (
        "docs/validation.md",
        "70.7 | 23.5 | 16.9",
    ),
    "single ones by 121 %": ("docs/validation.md", "-67.4 to 120.8"),
    "2 % (Cubic) or 1 % (BBR) in the median": ("README.md", "2 % (Cubic) or 1 % (BBR) in the median"),
    "worst 4 % (Cubic) or 10 % (BBR)": ("README.md", "off by 4 % (Cubic) or 10 % (BBR)"),
    "worst 20 % (Cubic) or 8 % (BBR)": ("README.md", "full by 20 % (Cubic) or 8 % (BBR)"),
    "up to 16.6 % (Cubic)": ("docs/validation.md", "16.6 % is a deadline of 3 s that one client just meets"),
    "-8.6 % (Cubic)": ("docs/validation.md", "-8.6 % is `idle_restart: false` over 200 ms"),
    "same size | within 3 %": ("docs/validation.md", "right after one of the same size is within 3 %"),
    "medians -3.7 % and +7.2 %": ("docs/validation.md", "-3.7 % | -5.8 % | | 0.5 Mbit/s, 1 Mbit/s, 100 ms"),
    "up to 70 % slower": ("docs/validation.md", "A real client can be up to 70 % slower"),
    "Kendall's tau is 1.00": ("docs/validation.md", "Kendall's tau is 1.00 between protocols and 0.83"),
    "within 0.1 % from 1 MB on, and 0.6 % below": ("docs/validation.md", "within 0.1 % from 1 MB on and 0.6 % below"),
}


@pytest.fixture
def directives(monkeypatch):
    pytest.importorskip("sphinx", reason="needs the extra docs")
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    yield __import__("reference")
    del sys.modules["reference"]


def flat(file):
    return " ".join((ROOT / file).read_text("utf-8").split())


def test_every_key_of_a_scenario_has_a_row(directives):
    schema = Scenario.model_json_schema()
    listed = {key for key, _, _ in directives.keys(schema, schema["$defs"])}
    plain = Scenario.model_validate(yaml.safe_load((ROOT / "scenarios/sparse_clients.yaml").read_text("utf-8"))).plain()
    assert {"network.connection.idle_restart", "measure.until.bytes_up", "training.lr"} <= listed
    assert {*plain} <= listed
    for section in ("training", "clients", "network", "server", "measure", "privacy"):
        assert {f"{section}.{key}" for key in plain[section]} <= listed


def test_values_are_said_in_words_with_units(directives):
    schema = Scenario.model_json_schema()
    shapes = {key: (shape, required) for key, shape, required in directives.keys(schema, schema["$defs"])}
    said = {key: directives.value(shape, schema["$defs"]) for key, (shape, _) in shapes.items()}
    assert "`50 ms`" in said["network.latency"]
    assert said["network.congestion_control"] == "`cubic`, `reno`, `bbr`"
    assert said["clients.count"] == "whole number at least 1 or `null`"
    assert directives.default(*shapes["training.lr"]) == "required"
    assert directives.default(*shapes["network.tls_rtts"]) == "`0`"


def test_a_column_without_a_unit_stops_the_build(directives, monkeypatch):
    columns = directives.Columns.text
    assert all(f"## {name}.parquet" in columns(None) for name in record.TABLES)
    monkeypatch.delitem(directives.UNITS, "nbytes")
    assert "| `nbytes` | whole number |  |" in columns(None)  # a count would do
    monkeypatch.delitem(directives.UNITS, "sent")
    with pytest.raises(directives.ExtensionError, match=r"transfers\.sent has no unit"):
        columns(None)


def test_every_column_of_the_summary_is_described():
    text = (DOCS / "api/tables.md").read_text("utf-8")
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)))
    assert sorted(named) == sorted(runner.RESULTS)


@pytest.mark.parametrize("page", [page for page in ARCHIVE if page not in BY_THEMSELVES])
def test_a_page_of_the_archive_begins_with_a_summary(page):
    first = (DOCS / f"{page}.md").read_text("utf-8").split("\n\n")[1]
    assert first.startswith("**In short.** ")
    assert len(first.split()) <= 200
    told = newcomers.LINK.sub(r"\1", first)
    assert max(len(one.split()) for one in re.split(r"(?<=[.?!:;])\s+", told)) <= newcomers.LONGEST


def test_the_verdicts_that_reproduction_begins_with_are_those_of_its_index():
    (table,) = [table for table in read() if table.table == "index"]
    found = defaultdict(Counter)
    for paper, _, _, verdict, _ in (row.cells for row in table.rows):
        found[paper][verdict.partition(":")[0]] += 1
    kinds = [["reproduced"], ["partly"], ["contradicted"], ["not run", "not possible"], ["no result"]]
    rows = "\n".join(
        f"| {paper} | {' | '.join(str(sum(count[each] for each in kind)) for kind in kinds)} |"
        for paper, count in found.items()
    )
    assert rows in (DOCS / "reproduction.md").read_text("utf-8")


@pytest.mark.parametrize(("said", "where"), SHARED.items())
def test_the_page_on_trust_says_what_was_measured(said, where):
    assert said in flat("docs/explanation/trust.md")
    assert where[1] in flat(where[0])


def test_every_percentage_of_the_page_on_trust_is_among_them():
    shares = re.findall(r"[-+]?[\d.]+ %", flat("docs/explanation/trust.md"))
    checked = " ".join(SHARED)
    given = {"2 %", "0.5 %"}  # conditions: pairs of runs that differ by more, and the loss of packets
    assert [share for share in shares if share not in checked and share not in given] == []


def test_a_file_that_is_copied_has_no_name_of_a_page():
    (listed,) = re.findall(r"^html_extra_path = (\[.*\])$", (DOCS / "conf.py").read_text("utf-8"), re.MULTILINE)
    for name in yaml.safe_load(listed):
        assert (DOCS / name).is_file()
        assert not (DOCS / name).with_suffix(".md").exists(), f"the site's own page would hide {name}"


def test_code_and_tables_are_reached_by_key_and_captions_have_a_rank(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra docs")
    conf = f"import sys; sys.path.insert(0, {str(DOCS / '_extensions')!r})"
    (tmp_path / "conf.py").write_text(f"{conf}; extensions = ['reachable']; html_theme = 'furo'")
    table = "=== ===\na   b\n=== ===\n1   2\n=== ===\n"
    (tmp_path / "index.rst").write_text(
        f"One\n===\n\n.. toctree::\n   :caption: Some\n\n   two\n\n::\n\n   code\n\n{table}"
    )
    (tmp_path / "two.rst").write_text("Two\n===\n")
    words = [sys.executable, "-m", "sphinx", "-Wq", str(tmp_path), str(tmp_path / "site")]
    subprocess.run(words, check=True, capture_output=True)
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert page.count('<pre tabindex="0">') == 1
    assert page.count('<div tabindex="0" class="table-wrapper') == 1
    assert re.findall(r"<(?:pre|div class=.table-wrapper)>", page) == []
    assert 'role="heading" aria-level="2"><span class="caption-text">Some' in page
