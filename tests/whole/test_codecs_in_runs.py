"""Codecs in whole runs: they change bytes, time and the values received, and nothing is told that was not received."""

from itertools import pairwise

import pytest
import small_points
import torch

from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.tree import leaves
from fedsim.point.checks import check

pytestmark = pytest.mark.long

GOSSIP = {"protocol": {"name": "gossip", "rounds": 3}, "network__topology": {"name": "peers", "graph": "ring"}}
HALVES = ["half", "bfloat16", "int8"]
PICKS = [{"name": "top_k", "share": 0.1}, {"name": "rand_k", "share": 0.1}]


def in_order(*numbers):
    return all(first > second for first, second in pairwise(numbers))


def test_less_travels_and_it_takes_less_time(tmp_path):
    rows = {}
    for name in (None, "half", "int8"):
        codec = {"up": name, "down": name}
        slow = {"network__uplink": "200 kbit/s", "network__downlink": "200 kbit/s"}
        rows[name] = small_points.run_in(
            tmp_path / str(name), model={"name": "gcn", "hidden": 64}, network__codec=codec, **slow
        )
    for column in ("bytes_up", "bytes_down", "sim_seconds"):
        assert in_order(*(rows[name][column] for name in (None, "half", "int8")))
    assert rows["half"]["bytes_up"] / rows[None]["bytes_up"] == pytest.approx(0.5, abs=0.1)
    assert rows["int8"]["bytes_up"] / rows[None]["bytes_up"] == pytest.approx(0.25, abs=0.15)


@pytest.mark.long
@pytest.mark.parametrize("codec", [*HALVES, *PICKS], ids=str)
@pytest.mark.parametrize("algorithm", ["fedavg", "power"])
def test_equal_seeds_give_equal_tables_however_the_work_is_batched(codec, algorithm, tmp_path):
    cheap = {"name": algorithm, **({"rebuild_steps": 4} if algorithm == "power" else {})}
    options = {"algorithm": cheap, "network__codec": {"up": codec}, "network__effects": small_points.EFFECTS}
    for folder in ("one", "two"):
        small_points.run_in(tmp_path / folder, **options)
    small_points.run_in(tmp_path / "loop", **options, cohort="loop")
    assert small_points.files(tmp_path / "one") == small_points.files(tmp_path / "two")
    for table in ("transfers", "updates", "spans"):
        assert small_points.table(tmp_path / "one", table) == small_points.table(tmp_path / "loop", table)


def test_a_client_starts_from_what_it_has_received(tmp_path, monkeypatch):
    seen, submit = [], JobQueue.submit

    def see(self, job):
        seen.extend(leaves(job.download["model"]))
        return submit(self, job)

    monkeypatch.setattr(JobQueue, "submit", see)
    small_points.run_in(tmp_path / "run", network__codec={"down": "bfloat16"})
    assert seen
    assert all(torch.equal(leaf, leaf.to(torch.bfloat16).float()) for leaf in seen)


def test_what_is_left_out_of_one_upload_goes_with_the_next(tmp_path):
    """With error feedback a tenth of the numbers learns nearly what all of them do."""
    options = {"protocol": {"name": "sync", "rounds": 30, "participation": 1.0}, "data__stream": "static"}
    scores = {
        name: small_points.run_in(tmp_path / name, **options, network__codec={"up": codec})["score"]
        for name, codec in {"all": None, "tenth": {"name": "top_k", "share": 0.1}}.items()
    }
    assert scores["tenth"] > scores["all"] - 0.1


@pytest.mark.parametrize("codec", HALVES)
def test_peers_squeeze_their_shares(codec, tmp_path):
    plain = small_points.run_in(tmp_path / "plain", **GOSSIP)
    compressed = small_points.run_in(tmp_path / "compressed", **GOSSIP, network__codec={"up": codec})
    moved = [
        sum(row["wire_bytes"] for row in small_points.table(tmp_path / name, "transfers"))
        for name in ("plain", "compressed")
    ]
    assert moved[1] < moved[0]
    assert plain["updates"] == compressed["updates"] == 15


@pytest.mark.parametrize(
    ("codec", "options", "key"),
    [
        ({"down": PICKS[0]}, {}, "network.codec.down"),
        ({"down": PICKS[1]}, {}, "network.codec.down"),
        ({"up": PICKS[0]}, GOSSIP, "network.codec.up"),
        ({"down": "half"}, GOSSIP, "network.codec.down"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_run(codec, options, key):
    problems = check.points([small_points.point(**options, network__codec=codec)], whole=True)
    assert [problem.key for problem in problems] == [key]
