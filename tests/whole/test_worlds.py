"""Random worlds (benchmarks/worlds): a few are run, and the second ledger finds what is made wrong in good tables."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
WORLDS = ROOT / "benchmarks" / "worlds"
SCENARIO = {
    "clients": {"count": 2},
    "network": {
        "model": "fluid", "topology": {"name": "star"}, "latency": "100 ms", "uplink": "8 kbit/s",
        "downlink": "uniform(8 kbit/s, 80 kbit/s)", "server": {"ingress": "8 kbit/s"}, "effects": [],
    },
    "protocol": {"name": "sync"}, "measure": {"until": {"time": "1 min", "updates": 1, "bytes_up": "1 kB"}},
}  # fmt: skip
GOOD = {
    "transfers": [
        [0.0, 0.5, -1, 0, "train", 0, 900, 1000, "delivered"], [0.0, 1.2, -1, 1, "train", 0, 900, 1000, "delivered"],
        [1.2, 1.5, 1, -1, "train", 0, 900, 0, "lost"], [1.0, 2.5, 0, -1, "train", 0, 900, 1000, "delivered"],
    ],
    "updates": [[3.0, 1, "train", 2, 1, 1, 0, 0.0, 0, None, 2]],
    "spans": [[0, 0.5, 1.0, "train"], [1, 1.2, 1.2, "train"], [1, 1.5, 2.5, "offline"], [-1, 2.5, 3.0, "serve"]],
    "arrivals": [[0.0, 0, 0, 0], [0.0, 1, 0, 0], [3.0, 0, 1, 1]],
    "partitions": [],
    "scores": [
        [3.0, 1, 0, 0, 1, "global", "test", "accuracy", 0.5, 3],
        [3.0, 1, 1, 0, 1, "global", "test", "accuracy", 1.0, 1],
    ],
}  # fmt: skip
ROW = {
    "run": "0a1", "sim_seconds": 3.0, "metric": "accuracy", "score": 0.625, "bytes_up": 900, "bytes_down": 1800,
    "bytes_wasted": 300, "updates": 1, "asked": 2, "folded": 1, "lost": 1, "late": 0, "refused": 0,
}  # fmt: skip
SENT, ARRIVED, WIRE, FATE = 0, 1, 7, 8
WRONG = [  # what is changed: the table, the row and the column, the value; and which check says so
    ("transfers", 3, ARRIVED, 2.05, "speeds"),  # 1000 B over 1000 B/s and a latency of 0.1 s
    ("transfers", 0, ARRIVED, 0.19, "speeds"),  # no draw is above 10 kB/s
    ("transfers", 3, WIRE, 1001, "sums"),
    ("transfers", 3, WIRE, -(10**9), "bytes_moved"),
    ("transfers", 3, WIRE, 800, "bytes_moved"),
    ("transfers", 2, FATE, "cut", "bytes_moved"),
    ("transfers", 0, FATE, "gone", "bytes_moved"),
    ("transfers", 3, FATE, "late", "asks"),
    ("transfers", 3, FATE, "late", "fates"),
    ("transfers", 3, WIRE, 1100, "budgets"),
    ("transfers", 3, SENT, 0.4, "causes"),
    ("transfers", 3, SENT, 0.7, "causes"),
    ("transfers", 3, 5, 7, "causes"),
    ("transfers", 2, ARRIVED, 1.9, "spans"),
    ("transfers", 2, ARRIVED, float("nan"), "times"),
    ("updates", 0, 0, 3.1, "times"),
    ("updates", 0, 1, 2, "asks"),
    ("updates", 0, 3, 3, "asks"),
    ("updates", 0, 5, -1, "asks"),
    ("spans", 0, 2, 0.4, "times"),
    ("spans", 1, 2, 1.6, "spans"),
    ("arrivals", 2, 2, 2, "arrivals"),
    ("arrivals", 2, 3, 9, "arrivals"),
    ("scores", 0, 8, 1.5, "scores"),
    ("scores", 0, 9, 1, "scores"),
    ("scores", 0, 1, 4, "scores"),
]


@pytest.fixture
def books(monkeypatch):
    monkeypatch.syspath_prepend(str(WORLDS))
    import books

    yield books
    for name in [name for name, module in sys.modules.items() if str(WORLDS) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def findings(books, changed=None, row=ROW):
    """What the ledger says of the good tables, or of such of which some are changed."""
    tables = {
        name: pd.DataFrame(rows, columns=books.TABLES[name].split()) for name, rows in (GOOD | (changed or {})).items()
    }
    return books.findings(books.Point(tables, row, SCENARIO, {}))


@pytest.mark.parametrize(("table", "row", "column", "value", "check"), WRONG)
def test_the_second_ledger_finds_a_changed_cell(books, table, row, column, value, check):
    rows = copy.deepcopy(GOOD[table])
    rows[row][column] = value
    found = findings(books, {table: rows})
    assert any(text.startswith(f"{check}:") for text in found), found


def test_the_second_ledger_finds_changed_sums_and_nothing_else(books):
    assert findings(books) == []
    for name in ROW.keys() - {"run", "metric", "sim_seconds"}:
        assert findings(books, row=ROW | {name: ROW[name] + 1})


def test_a_link_that_carries_two_messages_at_once_has_one_rate(books):
    rows = copy.deepcopy(GOOD["transfers"])
    rows[2] = [1.2, 2.5, 1, -1, "train", 0, 900, 1000, "discarded"]  # 2000 B in 1.5 s over 1 kB/s
    found = findings(books, {"transfers": rows}, ROW | {"bytes_wasted": 1300})
    assert any(text.startswith("loads: node -1") for text in found), found


def test_only_the_runs_themselves_import_fedsim():
    lines = [line for path in WORLDS.glob("*.py") for line in path.read_text().splitlines()]
    imports = [line for line in lines if line.lstrip().startswith(("import ", "from "))]
    assert [line for line in imports if "fedsim" in line or "analysis" in line] == ["from fedsim.__main__ import main"]


@pytest.mark.long
def test_random_worlds_run_and_their_books_balance(tmp_path):
    words = [sys.executable, str(WORLDS), "--worlds", "5", "--jobs", "1", "--limit", "120", "--out", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    ended = [json.loads(line) for line in (tmp_path / "worlds.jsonl").read_text().splitlines()]
    assert [each["number"] for each in ended] == [*range(5)]
    assert any(each["code"] == 0 and each["transfers"] for each in ended)
