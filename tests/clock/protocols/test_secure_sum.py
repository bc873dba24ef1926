"""Rounds under secure aggregation: their exchanges, bytes and seconds, and what becomes of those that are lost."""

from dataclasses import dataclass, replace

import pytest
import small_points
from fake_world import Number, check_books, lab

from fedsim.clock.protocols.deadline import Deadline
from fedsim.clock.protocols.sync import Sync
from fedsim.clock.security.payloads import Masks
from fedsim.core import wire
from fedsim.core.record import SERVER
from fedsim.core.wire import Spec
from fedsim.net import masking
from fedsim.net.masking import Masking
from fedsim.net.message import Message
from fedsim.point.checks import check

ORDER = ["keys", "shares", "unmask", "train"]


@dataclass(frozen=True, eq=False)
class Vector(Number):
    """Uploads a vector of 100 numbers and one beside it."""

    def work(self, job):
        assert masking.BESIDE not in job.download
        return {"update": Spec((100,), "float32"), "samples": 1}

    def upload_like(self, job):
        return self.work(job)


def masked(clients, options=None, **how):
    """A lab whose rounds are masked."""
    return lab(clients=clients, algorithm=Vector(), masks=Masks(options or Masking()), **how)


def sizes(kind, down):
    """The two messages of an exchange of masking's own, as a client sees them."""
    told = {masking.BESIDE: down}
    return [Message(SERVER, 0, kind, told).nbytes, Message(0, SERVER, kind, masking.answer(kind, down)).nbytes]


def test_a_round_has_four_exchanges_of_the_bytes_that_the_formulas_tell():
    here = masked(4)
    assert here.run(Sync(rounds=1, clients=4))
    assert [row.step for row in here.updates] == ORDER
    assert [(row.asked, row.folded, row.version) for row in here.updates] == [(4, 4, 0)] * 3 + [(4, 4, 1)]
    down = {**Vector().download({"model": 0.0}, 0, "train"), masking.BESIDE: masking.sealed(3, 4)}
    vector = {"masked": Spec((-(-101 * 34 // 8),), "uint8")}
    expected = {
        "keys": sizes("keys", None),
        "shares": sizes("shares", masking.keys_of(3)),
        "train": [Message(SERVER, 0, "train", down).nbytes, Message(0, SERVER, "train", vector).nbytes],
        "unmask": sizes("unmask", masking.alive(3, 3)),
    }
    for kind, (sent, replied) in expected.items():
        rows = [row for row in here.transfers if row.kind == kind]
        assert {row.nbytes for row in rows if row.src == SERVER} == {sent}
        assert {row.nbytes for row in rows if row.dst == SERVER} == {replied}
    seconds = sum(8 * both / 8e4 + 2 * 0.1 for both in map(sum, expected.values())) + 1.0
    assert here.updates[-1].time == pytest.approx(seconds)
    check_lost(here)


def check_lost(here):
    """Every byte and every ask is accounted for, and only training counts as an update."""
    own = [row for row in here.rows if getattr(row, "step", "") not in masking.STEPS]
    check_books(replace(here, rows=own))
    assert all(row.asked == row.folded + row.lost + row.late for row in here.updates)


def test_what_masking_adds_is_what_the_messages_are_longer_by():
    here, bare = masked(3), lab(clients=3, algorithm=Vector())
    for one in (here, bare):
        one.run(Sync(rounds=2, clients=3))
    envelopes = sum(Message(0, SERVER, row.kind, None).nbytes - wire.size(None) for row in here.transfers)
    envelopes -= sum(Message(0, SERVER, row.kind, None).nbytes - wire.size(None) for row in bare.transfers)
    longer = sum(row.nbytes for row in here.transfers) - sum(row.nbytes for row in bare.transfers)
    assert here.world.exchange.masking_bytes == longer - envelopes


def test_who_is_lost_while_training_is_taken_out_by_those_left():
    here = masked(5)
    here.at(1.0, here.nodes.leave, 2)
    assert here.run(Sync(rounds=1, clients=5))
    assert [(row.step, row.folded, row.lost) for row in here.updates] == [
        ("keys", 5, 0),
        ("shares", 5, 0),
        ("unmask", 4, 0),
        ("train", 4, 1),
    ]
    asked = [row for row in here.transfers if row.kind == "unmask" and row.src == SERVER]
    assert {row.nbytes for row in asked} == {sizes("unmask", masking.alive(3, 4))[0]}
    check_lost(here)


@pytest.mark.parametrize(
    ("during", "steps"),
    [("keys", ["keys", "train"]), ("shares", ["keys", "shares", "train"]), ("train", ["keys", "shares", "train"]),
     ("unmask", ORDER)],
)  # fmt: skip
def test_where_too_few_are_left_nobody_is_folded(during, steps):
    whole = masked(4)
    whole.run(Sync(rounds=1, clients=4))
    begun = min(row.sent for row in whole.transfers if row.kind == during)
    here = masked(4)
    for client in (1, 2, 3):
        here.at(begun + 0.05, here.nodes.leave, client)
    assert here.run(Sync(rounds=1, clients=4))
    assert [row.step for row in here.updates] == steps
    last = here.updates[-1]
    assert (last.folded, last.version, here.state["model"]) == (0, 0, 0.0)
    uploads = [row.fate for row in here.transfers if row.kind == "train" and row.dst == SERVER]
    assert "delivered" not in uploads
    check_lost(here)


def test_a_deadline_holds_for_each_exchange():
    here = masked(5, speed=[1e6, 1e6, 1e6, 1e6, 1e5])
    assert here.run(Deadline(rounds=1, clients=5, wait=3.0))
    assert [(row.folded, row.late) for row in here.updates] == [(5, 0), (5, 0), (4, 0), (4, 1)]
    assert {row.fate for row in here.transfers if row.src == 4 and row.kind == "train"} <= {"late", "cut", "lost"}
    check_lost(here)


def test_learning_is_the_same_masked_or_not_and_waves_change_nothing(tmp_path):
    plain = small_points.run_in(tmp_path / "plain")
    some = {"on": True, "neighbours": 2}
    rows = {
        name: small_points.run_in(tmp_path / name, privacy={"secure_aggregation": options}, **more)
        for name, options, more in (("all", True, {}), ("few", some, {}), ("seen", True, {"measure__views": True}))
    }
    assert plain["bytes_masking"] is None
    for row in rows.values():
        assert (row["score"], row["updates"], row["epsilon"]) == (plain["score"], plain["updates"], None)
    assert rows["seen"]["bytes_masking"] == rows["all"]["bytes_masking"] > 0
    assert rows["seen"]["sim_seconds"] == pytest.approx(rows["all"]["sim_seconds"])
    assert rows["all"]["sim_seconds"] > 2 * plain["sim_seconds"]


def test_a_whole_run_with_losses_keeps_its_books_and_comes_out_the_same_twice(tmp_path):
    options = {"privacy": {"secure_aggregation": True}, "network__effects": small_points.EFFECTS}
    options["network__codec"] = {"down": "half"}
    for name in ("one", "two"):
        small_points.run_in(tmp_path / name, **options)
    assert small_points.files(tmp_path / "one") == small_points.files(tmp_path / "two")
    assert sum(row["lost"] for row in small_points.table(tmp_path / "one", "updates"))


BUFFERED = {"name": "buffered", "rounds": 5, "clients": 3, "buffer": 2}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"protocol": BUFFERED}, "privacy.secure_aggregation"),
        ({"protocol": {"name": "sync", "rounds": 2, "clients": 1}}, "privacy.secure_aggregation"),
        ({"algorithm": "fedgta"}, "privacy.secure_aggregation"),
        ({"algorithm": "fed_nova"}, "privacy.secure_aggregation"),
        ({"model": "evolve_gcn_o"}, "privacy.secure_aggregation"),
        ({"network__codec": {"up": "int8"}}, "network.codec.up"),
    ],
)
def test_what_cannot_be_added_under_masks_is_refused_before_the_run(changes, key):
    point = small_points.point(privacy={"secure_aggregation": True}, **changes)
    assert [problem.key for problem in check.points([point], whole=True)] == [key]
