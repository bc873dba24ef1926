"""Scenarios that are wrong in any way: each is read, or refused with one message, at once."""

import random
import signal
from contextlib import contextmanager
from itertools import islice

import pytest
from mutations import ROOT, changed, small, torn

from fedsim import check, scenario_file, yaml_text
from fedsim.errors import ScenarioError, UserError
from fedsim.scenario_file import Document

SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"))
CHANGED, TORN = 100, 45  # of each of them
PATIENCE = 20  # seconds, on a machine that is busy
MANY = 20_000  # clients that are more than should be drawn here


@contextmanager
def in_time():
    def ring(*_):
        raise TimeoutError(f"not done after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def told(open_document):
    """Read and check a scenario as `--dry-run` does; return the message, "" for none, None for too many clients."""
    try:
        document = open_document()
        scenario = scenario_file.validated(document)
        if (scenario.clients.count or 0) > MANY:
            return None
        try:
            points = [*islice(scenario.points(), 4)]
        except ScenarioError as error:
            raise document.error(error.problems) from None
        return document.message(check.points(points))
    except UserError as error:
        return str(error) or "nothing"


def refused(shown, open_document):
    """Whether a scenario is refused, which it must be in a message and in time."""
    try:
        with in_time():
            message = told(open_document)
    except BaseException as error:
        raise AssertionError(f"it ends in {error!r}:\n{shown}") from error
    assert message != "nothing", f"refused without a word:\n{shown}"
    assert len(message or "") < 8_000, f"{len(message)} characters are no message:\n{shown}"
    return bool(message)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_changed_scenarios_are_read_or_refused_with_a_message(path):
    whole, draw, count = small(path), random.Random(path.stem), 0
    for _ in range(CHANGED):
        data = changed(whole, draw)
        count += refused(data, lambda data=data: Document(path, "", data))
    assert count > CHANGED / 3


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_torn_scenarios_are_read_or_refused_with_a_message(path, tmp_path):
    text, draw, count = yaml_text.text_of(small(path)), random.Random(path.stem), 0
    file = tmp_path / "scenario.yaml"
    for _ in range(TORN):
        changed = torn(text, draw)
        file.write_bytes(changed.encode("utf-8", "surrogatepass"))
        count += refused(changed, lambda: scenario_file.read(file))
    assert count > TORN / 3
