"""A file that a scenario names and that has changed is read anew, also where the same process has read it before."""

import os

import homes

from fedsim import simulate

LINKS = {"latency": "1 ms", "uplink": "1 Mbit/s", "downlink": "2 Mbit/s"}
HEADER = "start_s,client,direction,bytes\n"


def test_transfers_are_read_anew(tmp_path):
    table, sent = tmp_path / "transfers.csv", []
    for number, text in enumerate(["0,0,up,400\n", "0,0,up,900\n"]):
        table.write_text(HEADER + text)
        os.utime(table, (number, number))  # as long as before; only the time tells
        plain = {
            "name": "moved", "clients": {"count": 1}, "network": LINKS,
            "protocol": {"name": "replay", "transfers": str(table)},
        }  # fmt: skip
        result = simulate(plain, out=tmp_path / f"out{number}", progress=False)
        sent += result.transfers["nbytes"].tolist()
    assert sent == [400, 900]


def test_a_data_set_of_the_users_own_is_read_anew(tmp_path, monkeypatch):
    homes.move(monkeypatch, tmp_path / "home")
    table, edges = tmp_path / "events.csv", []
    for number, people in enumerate((9, 7)):
        rows = "".join(f"{i % people},{(i + 3) % people},{i}\n" for i in range(40))
        table.write_text(f"source,destination,timestamp\n{rows}")
        plain = {
            "name": "own", "network": LINKS, "clients": {"count": 2, "speed": "1 GFLOP/s"}, "device": "cpu",
            "data": {
                "dataset": {"name": "tgb", "file": str(table)}, "partition": "random",
                "stream": {"name": "snapshots", "steps": 3, "every": "1 updates", "scored": "links"},
            },
            "model": {"name": "gcn", "hidden": 3}, "training": {"optimiser": "sgd", "lr": 0.1},
            "protocol": {"name": "sync", "rounds": 1, "participation": 1.0}, "algorithm": "fedavg",
            "task": "link_prediction", "measure": {"metrics": ["average_precision"]},
        }  # fmt: skip
        result = simulate(plain, out=tmp_path / f"out{number}", progress=False)
        edges.append(result.table("partitions")["edges"].tolist())
    assert edges == [[9], [7]]
