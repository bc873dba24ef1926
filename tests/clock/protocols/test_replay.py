"""Recorded transfers are moved as the table says, by the network alone."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fedsim.core.errors import UserError
from fedsim.core.record import SERVER
from fedsim.net.tcp.laws import TransferModel, slow_start, wire_size
from fedsim.point.run import run
from fedsim.scenario.text import yaml_file

SCENARIO = """
name: moved
clients: {table: clients.csv}
network: {server: {ingress: 100 Mbit/s, egress: 100 Mbit/s}}
protocol: {name: replay, transfers: transfers.csv}
"""
CLIENTS = "client,uplink_mbps,downlink_mbps,rtt_ms\n0,1,10,100\n1,8,80,20\n"
TRANSFERS = "start_s,client,direction,bytes\n5,1,down,2000000\n0.5,0,up,30000\n0.5,1,up,0\n"


@pytest.fixture
def replay(tmp_path):
    def go(clients=CLIENTS, transfers=TRANSFERS, scenario=SCENARIO):
        (tmp_path / "clients.csv").write_text(clients)
        (tmp_path / "transfers.csv").write_text(transfers)
        (tmp_path / "moved.yaml").write_text(scenario)
        (point,) = yaml_file.load(tmp_path / "moved.yaml")[0].points()
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        row = run(point, out, tmp_path, lambda progress: None)
        return row, pq.read_table(out / "transfers.parquet").to_pylist()

    return go


def test_each_transfer_is_sent_at_its_time_and_takes_the_models_closed_form(replay):
    row, moved = replay()
    assert [(r["sent"], r["src"], r["dst"], r["nbytes"], r["fate"]) for r in moved] == [
        (0.5, 1, SERVER, 0, "delivered"),
        (0.5, 0, SERVER, 30_000, "delivered"),
        (5.0, SERVER, 1, 2_000_000, "delivered"),
    ]
    model = TransferModel()
    upload, download = (wire_size(model, nbytes, 0.0) for nbytes in (30_000, 2_000_000))
    # an upload is there half a round trip before its sender knows; a download's request takes half of one
    assert moved[0]["arrived"] == pytest.approx(0.5 + 1.5 * 0.02)
    assert moved[1]["arrived"] == pytest.approx(
        0.5 + 1.5 * 0.1 + slow_start(model, upload, 0.1, 125e3)[0] + upload / 125e3
    )
    assert moved[2]["arrived"] == pytest.approx(
        5 + 2 * 0.02 + slow_start(model, download, 0.02, 1e7)[0] + download / 1e7
    )
    assert row["status"] == "done"
    assert row["sim_seconds"] == moved[2]["arrived"]
    assert (row["bytes_up"], row["bytes_down"]) == (30_000, 2_000_000)
    assert row["score"] is None
    assert row["updates"] in (0, None)


def test_the_tables_seconds_are_the_rows_to_the_last_bit(replay):
    starts = [0.1 * number for number in range(60)]
    lines = "".join(f"{start!r},1,up,1000\n" for start in starts)
    _, moved = replay(transfers=f"start_s,client,direction,bytes\n{lines}")
    assert [row["sent"] for row in moved] == starts


LEARNING = """
algorithm: fedavg
data: {dataset: digits, partition: random}
model: {name: gcn, hidden: 8}
training: {optimiser: adam, lr: 0.01}
"""


def test_what_a_scenario_says_of_learning_is_left_aside(replay):
    plain = replay()[1]
    assert replay(scenario=SCENARIO + LEARNING)[1] == plain


@pytest.mark.parametrize(
    ("transfers", "message"),
    [
        ("start_s,client,direction,bytes\n0,2,up,10\n", "line 2: client 2: there are 2 clients"),
        ("start_s,client,direction,bytes\n0,0,sideways,10\n", "line 2: column 'direction'"),
        ("start_s,client,direction,bytes\n-1,0,up,10\n", "line 2: column 'start_s'"),
        ("start_s,client,bytes\n1,0,10\n", "the column 'direction' is missing"),
    ],
)
def test_a_mistake_in_the_table_names_its_line(replay, transfers, message):
    with pytest.raises(UserError, match=message):
        replay(transfers=transfers)


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
def test_the_command_says_so_before_anything_runs(tmp_path, flags):
    (tmp_path / "clients.csv").write_text(CLIENTS)
    (tmp_path / "transfers.csv").write_text("start_s,client,direction,bytes\n0,2,up,10\n")
    (tmp_path / "moved.yaml").write_text(SCENARIO)
    command = [sys.executable, "-m", "fedsim", "moved.yaml", "--out", "out", *flags]
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parents[3]), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.match(
        r"fedsim: moved\.yaml, line 5: protocol: .*transfers\.csv, line 2: client 2: there are 2", done.stderr
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_study_of_traffic_loads_no_torch(tmp_path):
    (tmp_path / "clients.csv").write_text(CLIENTS)
    (tmp_path / "transfers.csv").write_text(TRANSFERS)
    (tmp_path / "moved.yaml").write_text(SCENARIO)
    code = (
        "import sys; from pathlib import Path; from fedsim.point.checks import check; "
        "from fedsim.scenario.text import yaml_file; "
        "from fedsim.point.run import run\n"
        "(point,) = yaml_file.load(Path(sys.argv[1]) / 'moved.yaml')[0].points()\n"
        "assert check.points([point], whole=True) == []\n"
        "run(point, Path(sys.argv[1]), Path(), lambda progress: None)\n"
        "assert 'torch' not in sys.modules"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
