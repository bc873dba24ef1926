"""The index of published tables and figures forgets none of them, and none of our sections on them."""

import re
from pathlib import Path

import pytest

from analysis.claims.file import claims, read

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reproduction"
PUBLISHED = {"POWER": (5, 7), "FedDGL": (3, 2), "DG-CoLearn": (10, 14)}  # how many tables and figures
VERDICTS = ("reproduced", "contradicted", "partly", "not run", "not possible", "no result")
OTHERS = (
    "## β chosen on validation data",
    "## Tuned on validation data",
    "## One exchange or many",
    "## Center-Shifting",
)


@pytest.fixture(scope="module")
def rows():
    (table,) = [table for table in read() if table.table == "index"]
    return [row.cells for row in table.rows]


def numbered(text):
    """Yield Table or Figure and a number for each that a cell names: "Tables 9 and 10, Figure 5", "Figures 1 to 3"."""
    for kind, numbers in re.findall(r"(Table|Figure)s? ([\d, to and]*\d)", text):
        for part in re.split(r", | and ", numbers):
            first, _, last = part.partition(" to ")
            yield from ((kind, number) for number in range(int(first), int(last or first) + 1))


def test_ranges_are_read():
    assert [*numbered("Figures 1 to 3 and 6")] == [("Figure", number) for number in (1, 2, 3, 6)]
    assert [*numbered("Tables 9 and 10, Figure 5")] == [("Table", 9), ("Table", 10), ("Figure", 5)]


@pytest.mark.parametrize("paper", PUBLISHED)
def test_every_table_and_figure_has_its_row(rows, paper):
    named = [one for cells in rows if cells[0] == paper for one in numbered(cells[1])]
    tables, figures = PUBLISHED[paper]
    wanted = [("Table", number + 1) for number in range(tables)]
    assert sorted(named) == sorted([*wanted, *(("Figure", number + 1) for number in range(figures))])


def test_verdicts_are_of_six_kinds_and_say_why(rows):
    for *_, shows, verdict, where in rows:
        kind, _, why = verdict.partition(": ")
        assert kind in VERDICTS
        assert shows
        assert why or kind in ("reproduced", "no result")
        assert where != "–" or kind in ("not run", "not possible", "no result")


def test_every_section_with_numbers_of_the_four_papers_is_linked(rows):
    linked = {link for cells in rows for link in re.findall(r"\(reproduction/([^)]*)\)", cells[4])}
    for page in ("power", "dg_colearn", "feddgl", "ghost"):
        for section in re.split(r"\n(?=## )", (FOLDER / f"{page}.md").read_text("utf-8")):
            title = section.partition("\n")[0]
            if "<!-- claims: " in section and title not in OTHERS:
                anchor = re.sub(r"[^\w\- ]", "", title.lstrip("# ").lower()).replace(" ", "-")
                assert (f"{page}.md#{anchor}" if title.startswith("## ") else f"{page}.md") in linked, title


def test_it_holds_no_number_of_ours():
    assert [claim.name for claim in claims(read()) if claim.table.table == "index"] == []
