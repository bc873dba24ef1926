"""Tutorials, how-to pages and explanations: short, of short sentences, and all that they show runs."""

import re
from importlib.resources import files

import newcomers
import pytest
import yaml

from fedsim.scenario.parts import find, lookup
from fedsim.scenario.schema import Scenario

PAGES = newcomers.pages()
MOST_WORDS = {"tutorials": 1800, "howto": 2000, "explanation": 1800, "report.md": 400, "glossary.md": 400}
RUN = [page for page in PAGES if "```" in page.read_text("utf-8")]
WITH_FRAGMENTS = [page for page in PAGES if newcomers.fragments(page)]
BASE = {
    "name": "fragment",
    "data": {"dataset": "digits", "partition": "random", "split": {"train": 0.5, "val": 0.2, "test": 0.3}},
    "model": "gcn",
    "training": {"optimiser": "adam", "lr": 0.01},
    "clients": {"count": 4, "speed": "2 GFLOP/s"},
    "network": {"latency": "50 ms", "uplink": "1 Mbit/s", "downlink": "10 Mbit/s"},
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
    "algorithm": "fedavg",
}


def name_of(page):
    return page.relative_to(newcomers.DOCS).as_posix()


@pytest.mark.parametrize(("kind", "most"), MOST_WORDS.items())
def test_what_a_newcomer_reads_is_short(kind, most):
    counted = {name_of(page): newcomers.words(page) for page in PAGES if name_of(page).startswith(kind)}
    assert counted
    assert sum(counted.values()) <= most, counted


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sentences_are_short(page):
    assert not [text for text in newcomers.sentences(page) if len(text.split()) > newcomers.LONGEST]


def test_a_long_sentence_is_noticed(tmp_path):
    (tmp_path / "page.md").write_text("Short.\n\n- one\n- " + "word " * 31 + "end.\n", "utf-8")
    assert [len(text.split()) for text in newcomers.sentences(tmp_path / "page.md")] == [1, 2, 33]
    assert newcomers.words(tmp_path / "page.md") == 34


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_no_block_is_left_out(page):
    text = page.read_text("utf-8")
    assert len([*newcomers.BLOCK.finditer(text)]) == text.count("\n```") / 2


@pytest.mark.long
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_a_page_runs_from_its_first_line_to_its_last(page, tmp_path):
    with newcomers.run(page, tmp_path) as names:
        CHECKS.get(name_of(page), lambda names: None)(names)
        printed = [line.split() for line in names["printed"].splitlines()]
    assert [line for line in newcomers.shown(page) if line.split() not in printed] == []


def test_what_pages_show_as_printed_is_found():
    assert sum(any(newcomers.shown(page)) for page in PAGES) >= 7


@pytest.mark.parametrize("page", WITH_FRAGMENTS, ids=name_of)
def test_the_fragments_of_a_page_are_scenarios(page, tmp_path):
    for block in newcomers.BLOCK.finditer(page.read_text("utf-8")):
        if block["file"]:
            (tmp_path / block["file"]).parent.mkdir(exist_ok=True)
            (tmp_path / block["file"]).write_text(block["body"], "utf-8")
    with lookup.within_reach(tmp_path):
        for text in newcomers.fragments(page):
            given = yaml.safe_load(text)
            scenario = Scenario.model_validate(BASE | {key: over(BASE.get(key), given[key]) for key in given})
            for point in scenario.points():
                for kind, key, part in point.scenario.parts():
                    assert find.check(kind, part, key) == []


def over(below, above):
    """A value of a fragment over that of the scenario around it."""
    return {**below, **above} if isinstance(below, dict) and isinstance(above, dict) else above


def test_the_first_algorithm_of_the_page_is_the_one_that_init_writes():
    page = (newcomers.DOCS / "tutorials/own_algorithm.md").read_text("utf-8")
    (shown,) = (block["body"] for block in newcomers.BLOCK.finditer(page) if block["why"])
    written = (files("fedsim.sweep.starter") / "momentum.txt").read_text("utf-8")
    assert [line for line in shown.splitlines() if line.strip() and line not in written.splitlines()] == []
    assert len([line for line in shown.splitlines() if line.strip()]) <= 15


def first_run(names):
    assert names["first"].runs["score"][0] > 0.3
    assert (names["folder"] / "runs/first/report/report.html").is_file()
    assert not (names["folder"] / "runs/shell").exists()


def own_graph(names):
    in_file = names["simulate"]("own.yaml", progress=False).scores.drop(columns="run")
    assert names["same"].scores.drop(columns="run").equals(in_file)
    assert len(names["owned"].scores["client"].unique()) >= 4
    assert re.search(r"^graph: 'edge_index', edge \d+ ends at 300", names["printed"], re.MULTILINE)


def own_algorithm(names):
    runs = names["result"].runs
    scores = runs.groupby("algorithm")["score"].mean()
    assert scores["mylab.scaffold"] > scores["fedavg"] + 0.05
    up = runs.groupby("algorithm")["bytes_up"].mean()
    assert up["mylab.scaffold"] == pytest.approx(2 * up["fedavg"], rel=0.1)


def own_model(names):
    assert not names["net"].training
    assert names["wide"].runs["bytes_up"][0] > 1.5 * names["result"].runs["bytes_up"][0]


def calibration(names):
    assert (names["folder"] / "runs").is_dir()


CHECKS = {
    "tutorials/first_run.md": first_run,
    "tutorials/own_graph.md": own_graph,
    "tutorials/own_algorithm.md": own_algorithm,
    "tutorials/own_model.md": own_model,
    "howto/calibration.md": calibration,
}
