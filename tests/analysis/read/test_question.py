"""What a report asks and says of its scores."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.read.load import Runs
from analysis.read.question import descriptions, question, setting


def runs(*given):
    return Runs(pd.DataFrame(), (), {}, {str(place): text for place, text in enumerate(given)}, {}, {}, {})


def test_the_question_is_the_first_one_of_the_leading_comment():
    text = "# yaml-language-server: $schema=x\n# It is slow. What does\n# it cost? Or not?\nname: a\n# why?\n"
    assert question(runs(text), "?") == "What does it cost?"
    assert question(runs("name: a\n# why?\n"), "None asked") == "None asked"
    assert question(runs("name: a\n", text), "?") == "What does it cost?"


@pytest.mark.parametrize("path", sorted(Path("scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_say_what_they_are_about(path):
    found = runs(path.read_text("utf-8"))
    assert descriptions(found) or question(found, "?").endswith("?")
    assert question(found, "?").endswith("?")


def test_a_scenario_that_is_no_text_has_no_description():
    assert descriptions(runs("a: [\n", "- a\n", "name: a\n")) == []


def frame(seeds, **columns):
    rows = pd.DataFrame({"run": [f"r/{seed}" for seed in seeds], "seed": seeds, "score": 0.5})
    return rows.assign(**{"scored_model": "global", "scored_split": "test", **columns})


def test_what_was_scored_on_whom_and_with_which_seeds():
    points = frame(["0", "1", "2", "10"])
    twenty = {point: {"clients": {"count": 20}} for point in points["run"]}
    assert setting(points, twenty, "accuracy", False) == (
        "Scored: accuracy of the global model on the clients' test sets; 20 clients, seeds 0, 1, 2, 10."
    )
    assert "on the test of all periods, arrived or not; 20" in setting(points, twenty, "accuracy", True)
    assert setting(frame(["0", "1", "2"]), {}, "accuracy", False).endswith("all clients, seeds 0 to 2.")
    assert setting(frame(["7"], score=float("nan")), {}, "score", False) == "All clients, seed 7."
    assert "on nodes that no client owns" in setting(frame(["7"], scored_split="held_out"), {}, "accuracy", False)
