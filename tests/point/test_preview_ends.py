"""A preview that ends before it has seen its updates says why; an effect's own events do not use it up."""

import re

import pytest
import small_points

from fedsim.point import preview

UPDATES = 3
GONE = "client,on_s,off_s\n" + "".join(f"{client},0,0.001\n" for client in range(5))  # all leave at once, for good
OUTAGES = {"name": "outage", "every": "2 s", "length": "1 s"}


def seen(folder, **changes):
    return preview.preview(small_points.scenario(**changes), folder, UPDATES)


def gone(folder):
    (folder / "gone.csv").write_text(GONE)
    return {"name": "churn", "table": str(folder / "gone.csv")}


def test_a_preview_that_sees_all_its_updates_gives_no_reason(tmp_path):
    found = seen(tmp_path)
    assert (len(found.updates), found.why) == (UPDATES, "")


def test_a_protocol_of_fewer_rounds_ends_it(tmp_path):
    found = seen(tmp_path, protocol={**small_points.SYNC, "rounds": UPDATES - 1})
    assert (len(found.updates), found.why) == (UPDATES - 1, "the protocol ends")


def test_the_runs_own_end_comes_first(tmp_path):
    until = {**small_points.PLAIN["measure"], "until": "1 ms"}
    found = seen(tmp_path, measure=until)
    assert (len(found.updates), found.why) == (0, "measure.until comes first")


def test_without_clients_nothing_happens(tmp_path):
    found = seen(tmp_path, network__effects=[gone(tmp_path)])
    assert len(found.updates) < UPDATES
    assert re.fullmatch(r"nothing happens after [\d.]+ s", found.why)


def test_events_that_move_nothing_are_looked_at_up_to_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(preview, "IDLE", 200)
    found = seen(tmp_path, network__effects=[gone(tmp_path), OUTAGES])
    assert len(found.updates) < UPDATES
    assert re.fullmatch(r"no transfer or computation finished in 200 events, up to [\d.e+]+ s", found.why)


def test_messages_are_looked_at_up_to_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(preview, "MESSAGES", 2)
    found = seen(tmp_path)
    assert len(found.updates) < UPDATES
    assert re.fullmatch(r"the preview stops after 6 messages, at [\d.]+ s", found.why)


@pytest.mark.parametrize("protocol", [small_points.SYNC, {"name": "one_shot"}], ids=["sync", "one_shot"])
def test_a_trace_uses_up_none_of_it(protocol, tmp_path, monkeypatch):
    """Rates change ten times a second while every job takes minutes at least."""
    monkeypatch.setattr(preview, "IDLE", 200)
    (tmp_path / "rates.txt").write_text("".join(f"{step / 10} {1 + step % 7}\n" for step in range(1, 101)))
    trace = {"name": "trace", "trace": str(tmp_path / "rates.txt"), "direction": "both"}
    found = seen(tmp_path, protocol=protocol, clients__speed="300 FLOP/s", network__effects=[trace])
    assert len(found.updates) == (UPDATES if protocol is small_points.SYNC else 1)
    assert found.seconds[0] > 60


def test_the_command_prints_the_reason_beside_the_condition(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call("scenario.yaml", "--explain", "--set", "measure.until=1 ms")
    assert code == 0
    assert out.rstrip().splitlines()[-1] == "  no update: measure.until comes first"
