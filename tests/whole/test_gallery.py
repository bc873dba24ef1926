"""The gallery: its page is what its record gives, the record is of its scenarios, and its notebooks run."""

import importlib.util
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from fedsim import simulate
from fedsim.point.results.folders import name_of
from fedsim.scenario.text.yaml_file import load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "gallery"
BOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", FOLDER / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def record():
    return json.loads((FOLDER / "record.json").read_text("utf-8"))


def test_the_page_is_what_the_record_gives(gallery, record):
    assert gallery.PAGE.read_text("utf-8") == gallery.page(record)


def test_a_sentence_that_does_not_hold_is_refused(gallery, record):
    study, runs = gallery.studies()["forged_updates"], pd.DataFrame(record["forged_updates"]["runs"])
    assert gallery.text(study, runs)
    swapped = runs.assign(case=runs["case"].map({"mean": "median", "median": "mean"}))
    with pytest.raises(gallery.GalleryError, match="score of 'median' is not surely above that of 'mean'"):
        gallery.text(study, swapped)
    study, runs = gallery.studies()["karate"], pd.DataFrame(record["karate"]["runs"])
    equal = runs.assign(score=runs["seed"] % 2 + 0.01 * (runs["case"].str.endswith("gcn") == (runs["seed"] < 5)))
    with pytest.raises(gallery.GalleryError, match="not surely"):
        gallery.text(study, equal)


def test_the_record_is_of_the_scenarios_as_they_are(record):
    for name, study in record.items():
        points = load(ROOT / "scenarios" / "gallery" / f"{name}.yaml")[0].points()
        assert [run["run"] for run in study["runs"]] == [name_of(point) for point in points], name


def test_there_are_twelve_and_half_are_real_graphs(gallery, record):
    studies = gallery.studies()
    assert [*studies] == [*record]
    assert {*studies} == {path.stem for path in (ROOT / "scenarios" / "gallery").glob("*.yaml")}
    assert {*studies} == {path.stem for path in FOLDER.glob("*.svg")}
    assert len(studies) == 12
    of_no_graph = {"do_not_wait", "fewer_bits", "lossy_links", "forged_updates", "a_network_of_ones_own"}
    assert {name for name in studies if not gallery.is_real(name)} == of_no_graph
    assert sum(map(gallery.is_real, studies)) >= 6


def test_each_has_three_sentences(gallery, record):
    for name, study in gallery.studies().items():
        sentences = re.findall(r"[.:?](?= [A-Z]|$)", gallery.text(study, pd.DataFrame(record[name]["runs"])).strip())
        assert len(sentences) == 3, (name, sentences)


@pytest.mark.long
def test_a_study_gives_what_is_recorded(record, tmp_path):
    result = simulate(ROOT / "scenarios/gallery/karate.yaml", progress=False, out=tmp_path / "out", grid__seed=[0, 1])
    recorded = {run["run"]: run["score"] for run in record["karate"]["runs"]}
    assert len(result.runs) == 8
    for _, row in result.runs.iterrows():
        assert row["score"] == pytest.approx(recorded[row["run"]], abs=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(book, tmp_path):
    nbformat, nbclient = (pytest.importorskip(name, reason="needs the extra dev") for name in ("nbformat", "nbclient"))
    cells = nbformat.read(book, as_version=4)
    assert not any(cell.get("outputs") for cell in cells.cells), "outputs are not kept: they would go stale"
    nbclient.NotebookClient(cells, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_there_are_three_notebooks():
    assert [book.stem for book in BOOKS] == ["few_take_part", "own_graph", "own_model"]
