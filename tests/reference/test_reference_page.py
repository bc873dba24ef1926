"""The page in both forms: what its tables hold, that all it links to is there, and that it is made of the tables."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up_tables import plan, seeds, tables
from scipy import stats

from analysis.report.page import POLICY
from fedsim.reference import curves, page, results, trials
from fedsim.reference import plan as plans
from fedsim.reference.curves import FEDAVG
from fedsim.reference.findings import findings
from fedsim.reference.trials import PlanTrial

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HIGH, NEAR, LOW = (0.80, 0.81, 0.82, 0.81, 0.80), (0.84, 0.78, 0.85, 0.79, 0.80), (0.70, 0.72, 0.71, 0.70, 0.72)
CAMPUS = "campus/digits/static"
PLAN = plan(
    CAMPUS,
    methods={
        name: {"algorithm": algorithm, "tasks": [], "protocols": []}
        for name, algorithm in {"a": "fedavg", "b": "fed_gcn", "c": "local"}.items()
    },
    left_out=[{"what": "`oasis`", "why": "it took too long"}, {"what": "two <b>", "why": "why"}],
)
SUMMARY = (
    "## Summary\n\nIt is **so**.\n\n<!-- claims: some -->\n| | |\n|---|---|\n| count | 3 |\n<!-- end of claims -->\n"
)
RUNS = (
    seeds(f"{CAMPUS}/a/sync/given", HIGH, 4e5, 20)
    | seeds(f"{CAMPUS}/b/sync/given", NEAR, 5e4, 2)
    | seeds(f"{CAMPUS}/c/sync/given", LOW, 4e5, 20)
    | seeds(f"{CAMPUS}/d/sync/given", HIGH[:3], 4e5, 20)
    | seeds(f"{CAMPUS}/a/sync/halved", HIGH, 4e5, 40)
    | seeds(f"{CAMPUS}/b/sync/halved", LOW, 5e4, 4)
)
TRIED = [
    PlanTrial("digits", "static", "a", "sync", 1, 9, {}, 0.5),
    PlanTrial("digits", "static", "b", "sync", 2, 9, {trials.LR: 0.02, "options": {"mu": 0.5, "how": "so"}}, 0.6),
]
COMMAND = "python -m fedsim.reference --cell campus/digits/static"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return _written(tmp_path_factory.mktemp("docs"))


def _written(folder):
    (folder / "reference").mkdir()
    (folder / "reference" / page.SUMMARY).write_text(SUMMARY, "utf-8")
    paths = page.write(PLAN, tables(RUNS, [f"{CAMPUS}/d/sync/given/3"]), TRIED, folder)
    assert paths == [folder / "reference.md", folder / "reference_table.html"]
    assert sorted(folder.iterdir()) == sorted([folder / "reference", *paths])
    return [path.read_text("utf-8") for path in paths]


def test_a_table_of_markdown_holds_scores_leaders_costs_and_seeds(pages):
    rows = [line for line in pages[0].splitlines() if line.startswith("| `")]
    read = "updates, features, edges; clients: features"
    best = "**81.2 ±3.9**"
    assert rows == [
        f"| `b/sync` | – | {best} | {best} | – | {best} | {best} | 50.0 kB | 2.00 s | 5 of 5 | {read} |",
        "| `d/sync` | – | – | 81.0 (3) | – | – | 81.0 (3) | 400 kB | 20.0 s | 3 of 5 | not said |",
        "| `a/sync` | – | – | = 80.8 ±1.0 | – | – | = 80.8 ±1.0 | 400 kB | 20.0 s | 5 of 5 | updates |",
        "| `c/sync` | – | – | 71.0 ±1.2 | – | – | 71.0 ±1.2 | – | – | 0 of 5 | nothing |",
    ]
    assert (
        "Budgets 1.00 MB and 50.0 s; 5 seeds; 90 % of the best is 73.1 %. Accuracy in percent, mean ± half" in pages[0]
    )
    assert f"A row alone: `{COMMAND}/b/sync" in pages[0]


def test_changes_and_pairs_are_listed(pages):
    assert "1 of 2 leaders change" not in pages[0]
    assert "| campus/digits/static, 100 % of the bytes | `b/sync` | `a/sync` | yes |" in pages[0]
    assert "| campus/digits/static | 3 | 1 | 1 | 3 |" in pages[0]
    assert "<td>campus/digits/static</td>" in pages[1]


def test_the_choice_comes_first(pages):
    level = "| campus/digits/static | `b/sync`, `a/sync` | `b/sync`: 50.0 kB | `b/sync`: 2.00 s |"
    assert level in pages[0]
    assert "Of 3 pairs in a setting 33 % cannot be told apart" in pages[0]
    assert pages[0].index("## Which to choose") < pages[0].index("## Summary")


def test_rows_carry_what_others_read_for_the_boxes_that_leave_them_out(pages):
    assert '<td class="reads updates features edges" data-key="' in pages[1]
    assert 'id="without-features"' in pages[1]
    assert "body:has(#without-features:checked) tbody tr:has(td.features) { display: none; }" in pages[1]


def test_how_it_was_made_stands_on_both(pages):
    assert "\n0 cells took 0.0 core-hours." in pages[0]
    assert "- `oasis`: it took too long.\n- two <b>: why.\n\n## What" in pages[0]
    assert "<li><code>oasis</code>: it took too long.</li>\n<li>two &lt;b&gt;: why.</li>" in pages[1]


def test_what_was_chosen_comes_last(pages):
    assert "|\n| digits, static | `a/sync` |  |  |\n| digits, static | `b/sync` | 0.02 | mu 0.5, how so |\n" in pages[0]
    assert pages[0].endswith(" how so |\n")


def test_the_summary_stands_on_both_without_marks(pages):
    assert "\n## Summary\n\nIt is **so**.\n\n| | |\n|---|---|\n| count | 3 |\n\n## How" in pages[0]
    assert '<section id="summary"><h2>Summary</h2>' in pages[1]
    assert "<p>It is <strong>so</strong>.</p>" in pages[1]
    assert "<td>count</td>" in pages[1]


class Read(HTMLParser):
    """The anchors, links and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.addresses, self.data = [], {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.names += [found["id"]] if "id" in found else []
        if "href" in found:
            self.links[found["href"]] = found.get("title")
        self.addresses += [found[name] for name in ("src", "action") if name in found]

    def handle_data(self, data):
        self.data.append(data)


def test_every_number_leads_to_the_command_that_makes_it(pages):
    read = Read(pages[1])
    inner = {link[1:]: title for link, title in read.links.items() if link != "#closed"}
    assert {*inner} <= {*read.names}
    assert len(read.names) == len({*read.names})
    for name in "abcd":
        assert inner[f"campus/digits/static/{name}/sync/given"] == f"{COMMAND}/{name}/sync/given"
        assert f"{COMMAND}/{name}/sync/given" in read.data
    numbers = re.findall(
        r'<td(?: class="(?!reads)[^"]*")? data-key="[^"]*">(.*?)</td>',
        pages[1].partition('id="what-changes-with-halved-links"')[0],
    )
    assert numbers
    assert all(number.startswith('<a href="#campus/') for number in numbers)


def test_a_score_tells_its_paired_difference_from_the_leader(pages):
    apart = stats.ttest_rel(HIGH, NEAR).confidence_interval(0.95)
    low, high = (f"{100 * end:.1f}".replace("-", "−") for end in apart)
    assert f'title="−0.4 points from the leader ({low} to {high}); {COMMAND}/a/sync/given">= 80.8 ±1.0</a>' in pages[1]
    assert f'title="{COMMAND}/b/sync/given">81.2 ±3.9</a>' in pages[1]


def test_the_page_asks_for_nothing(pages):
    read = Read(pages[1])
    assert all(address.startswith("data:image/svg+xml,") for address in read.addresses)
    assert all(link.startswith("#") for link in read.links)
    assert f'content="{POLICY}"' in pages[1]


def test_each_setting_has_both_charts(pages):
    for one in ("campus-digits-static-bytes", "campus-digits-static-seconds"):
        assert f'data-chart="{one}"' in pages[1]


def test_the_matrix_marks_who_is_tied(pages):
    table = pages[1].partition('<table class="pairs">')[2].partition("</table>")[0]
    signs = [re.findall(r"<td[^>]*>(.)</td>", row) for row in table.split("<tr>")[2:]]
    assert signs == [[], ["·"], ["=", "·"], ["−", "·", "−"]]
    assert 'title="a/sync less b/sync: −0.4 points (' in table


def test_the_page_is_the_same_again(pages, tmp_path):
    assert _written(tmp_path) == pages


committed = pytest.mark.skipif(
    not (DOCS / "reference" / results.CELLS).is_file(),
    reason="docs/reference/cells.csv is not there: the reference study has not been run",
)


@pytest.fixture(scope="module")
def found():
    return findings(results.read(DOCS / "reference"), plans.read(ROOT / plans.FILE).budgets)


@committed
def test_charts_show_all_leaders_and_few_others(found):
    for one in found.outcomes:
        shown = curves.drawn(one)
        leaders = {standing.leader for standing in (*one.at.values(), one.final)} - {None}
        assert leaders | {FEDAVG} <= {*shown}
        tied = one.final.tied
        assert len(shown) <= curves.MOST
        assert len(shown) == curves.MOST or {*tied} <= {*shown}
        assert shown == [row.contender for row in one.final.rows if row.contender in shown]


@committed
def test_the_page_is_made_of_the_tables(found):
    summary = (DOCS / "reference" / page.SUMMARY).read_text("utf-8")
    tried = trials.read(ROOT / "scenarios/reference" / trials.FILE)
    source = page.markdown(found, plans.read(ROOT / plans.FILE), results.read(DOCS / "reference"), tried, summary)
    assert source == (DOCS / "reference.md").read_text("utf-8")
