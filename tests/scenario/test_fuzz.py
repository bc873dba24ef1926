"""Scenarios that are wrong in any way: each is read, or refused with one message, at once."""

import random
from itertools import islice

import pytest
from mutations import FULL, ROOT, changed, small, torn
from refusals import message_of

from fedsim.core.errors import ScenarioError
from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file, yaml_text
from fedsim.scenario.text.yaml_file import Document

pytestmark = pytest.mark.long

SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"))
CHANGED, TORN = (100, 45) if FULL else (10, 6)  # of each of them
MANY = 20_000  # clients that are more than should be drawn here


def checked(document):
    """Check a scenario as `--dry-run` does, unless it has too many clients.  Raises UserError for what is wrong."""
    scenario = yaml_file.validated(document)
    if (scenario.clients.count or 0) > MANY:
        return
    try:
        points = [*islice(scenario.points(), 4)]
    except ScenarioError as error:
        raise document.error(error.problems) from None
    if problems := check.points(points):
        raise document.error(problems)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_changed_scenarios_are_read_or_refused_with_a_message(path):
    whole, draw, count = small(path), random.Random(path.stem), 0
    for _ in range(CHANGED):
        data = changed(whole, draw)
        count += bool(message_of(lambda data=data: checked(Document(path, "", data)), data))
    assert count > CHANGED / 3


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_torn_scenarios_are_read_or_refused_with_a_message(path, tmp_path):
    text, draw, count = yaml_text.text_of(small(path)), random.Random(path.stem), 0
    file = tmp_path / "scenario.yaml"
    for _ in range(TORN):
        changed = torn(text, draw)
        file.write_bytes(changed.encode("utf-8", "surrogatepass"))
        count += bool(message_of(lambda: checked(yaml_file.read(file)), changed))
    assert count > TORN / 3
