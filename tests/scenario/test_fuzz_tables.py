"""Tables and archives that are torn: each is read, or refused with one message that names it."""

import random
from pathlib import Path

import homes
import numpy as np
import pytest
from mutations import FULL, ROOT, torn
from refusals import message_of

from fedsim.point.checks import check
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.scenario.text import yaml_file

pytestmark = pytest.mark.long

REPLAY = """
name: replay
clients: {table: clients.csv}
network: {effects: [{name: trace, rates: rates.csv}, {name: churn, table: online.csv, unlisted: online}]}
protocol: {name: replay, transfers: transfers.csv}
"""
TABLES = {
    "clients.csv": (ROOT / "scenarios" / "tables" / "replay_clients.csv").read_text("utf-8"),
    "transfers.csv": (ROOT / "scenarios" / "tables" / "replay_transfers.csv").read_text("utf-8"),
    "rates.csv": "client,time_s,uplink_mbps,downlink_mbps\n0,0,5,20\n0,60,0,\n1,30,,2.5\n",
    "online.csv": "client,on_s,off_s\n0,0,10\n0,20,30\n1,5,50\n",
}
TORN = 80 if FULL else 20  # of each table
EVENTS = "source,destination,timestamp\na,b,0.5\nb,c,1\nc,a,2.25\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    homes.move(monkeypatch, tmp_path / "home")  # where graphs that were read are kept
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "scenario.yaml").write_text(REPLAY)
    return tmp_path


@pytest.mark.parametrize("name", TABLES)
def test_torn_tables_are_read_or_refused(name, home):
    scenario = home / "scenario.yaml"
    check_all(scenario)  # it is sound as it stands
    draw, count = random.Random(name), 0
    for _ in range(TORN):
        text = torn(TABLES[name], draw)
        (home / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        if told := message_of(lambda: check_all(scenario), text):
            assert any(table in told for table in TABLES)
            count += 1
    assert count > TORN * 25 / 80


def check_all(scenario):
    read, document = yaml_file.load(scenario)
    if problems := check.points([*read.points()], whole=True):
        raise document.error(problems)


@pytest.mark.parametrize("kind", ["star_arrays", "tgb"])
def test_torn_archives_and_events_are_read_or_refused(kind, home):
    path = home / ("own.npz" if kind == "star_arrays" else "own.csv")
    if kind == "star_arrays":
        np.savez(path, adjs=np.ones((3, 4, 4)), attmats=np.ones((4, 3, 2)), labels=np.eye(4))
    else:
        path.write_text(EVENTS)
    whole, draw, count = path.read_bytes(), random.Random(kind), 0
    for _ in range(60):
        path.write_bytes(broken(whole, draw))
        dataset = find.build("dataset", Part(name=kind, options={"file": str(path)}))
        if told := message_of(lambda dataset=dataset: dataset.load(Path(), 0), path.read_bytes()):
            assert path.name in told
            count += 1
    assert count > 15


def broken(whole, draw):
    at, length = draw.randrange(len(whole)), draw.randrange(1, 40)
    return draw.choice([
        whole[:at], whole[:at] + whole[at + length :], whole[:at] + draw.randbytes(length) + whole[at + length :],
        whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :],
    ])  # fmt: skip
