import math
from itertools import pairwise

import numpy as np
import pytest
from netlab import down, up, world
from pydantic import TypeAdapter, ValidationError

from fedsim.core.errors import ScenarioError
from fedsim.net.effect import Effect
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.congestion import Congestion
from fedsim.net.effects.diurnal import Diurnal
from fedsim.net.effects.dropout import Dropout
from fedsim.net.effects.jitter import Jitter
from fedsim.net.effects.loss import Loss
from fedsim.net.effects.outage import Outage
from fedsim.net.effects.straggler import Straggler
from fedsim.net.transfer import Transfer
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def shaped(*effects):
    transfer = Transfer(0, -1, 0, True, 1000, 0.0, 0.1)
    for effect in effects:
        effect.shape(transfer, np.random.default_rng(0))
    return transfer


def test_the_plain_effect_does_nothing():
    assert shaped(Effect()).rtt == 0.1
    assert Effect().stay(np.random.default_rng(0)) == math.inf
    assert world(effects=[Effect()]).env.peek() == math.inf


def test_jitter_adds_up():
    assert shaped(Jitter(0.02), Jitter(0.03)).rtt == pytest.approx(0.15)


def test_losses_join_as_independent_ones_do():
    transfer = shaped(Loss(0.1), Loss(0.5, up=0.2), Loss(down=0.5))
    assert (transfer.loss_up, transfer.loss_down) == pytest.approx((1 - 0.9 * 0.8, 1 - 0.9 * 0.5 * 0.5))
    assert transfer.loss == transfer.loss_up


@pytest.mark.parametrize("direction", [up, down])
def test_handshakes_are_lost_as_often_as_either_packet_is(direction):
    """1000 lone transfers of one packet: those that wait a second or more have lost a handshake (5 sigma)."""
    here = world(effects=[Loss(up=0.1, down=0.2)])
    for _ in range(1000):
        here.network.send(direction(0, 0))
        here.env.run()
    share = np.mean([row.arrived - row.sent > 1 for row in here.rows])
    assert share == pytest.approx(0.28, abs=5 * math.sqrt(0.28 * 0.72 / 1000))


def spells(effect, clients, until):
    """Run an effect alone; return who is online at the start, at the end, and the changes (time, client, what)."""
    here, changes = world(clients=clients, effects=[effect]), []
    here.nodes.watch(lambda client, what: changes.append((here.env.now, client, what)))
    here.env.run(until=1e-9)
    first = here.nodes.online.copy()
    here.env.run(until=until)
    return first, here.nodes.online, changes


def test_churn_has_its_long_run_share_online_from_the_start_and_its_mean_spells():
    """A quarter is online, at any time; spells last 10 and 30 s on average (5 sigma)."""
    first, last, changes = spells(Churn(online=10.0, offline=30.0), 2000, 400.0)
    for online in (first, last):
        assert online.mean() == pytest.approx(0.25, abs=5 * math.sqrt(0.25 * 0.75 / 2000))
    lengths = {"wake": [], "sleep": []}
    turns = {}
    for time, client, what in changes:
        turns.setdefault(client, []).append((time, what))
    for own in turns.values():
        for (begin, what), (end, other) in pairwise(own):
            assert other != what
            if begin < 150:  # so that long spells are not cut off by the end
                lengths[what].append(end - begin)
    for what, mean in (("wake", 10.0), ("sleep", 30.0)):
        assert np.mean(lengths[what]) == pytest.approx(mean, rel=5 / math.sqrt(len(lengths[what])))
        assert np.mean(np.array(lengths[what]) > mean) == pytest.approx(math.exp(-1), abs=0.03)


def test_churn_without_time_offline_leaves_all_online():
    first, last, changes = spells(Churn(online=1.0, offline=0.0), 10, 100.0)
    assert first.all()
    assert last.all()
    assert changes == []


def test_churn_cuts_transfers():
    here = world(clients=20, effects=[Churn(online=2.0, offline=1.0)])
    for client in range(20):
        here.network.send(up(client, 5_000_000))
    here.env.run(until=30)
    fates = {row.fate for row in here.rows}
    assert len(here.rows) == 20
    assert "cut" in fates


def test_dropout_is_exponential_in_the_seconds_of_work():
    """Mean 20 s and a share of 1/e beyond it (5 sigma)."""
    rng = np.random.default_rng(0)
    stays = np.array([Dropout(0.05).stay(rng) for _ in range(20_000)])
    assert stays.mean() == pytest.approx(20.0, rel=5 / math.sqrt(20_000))
    assert np.mean(stays > 20.0) == pytest.approx(math.exp(-1), abs=5 * math.sqrt(0.233 / 20_000))
    assert Dropout(0.0).stay(rng) == math.inf


def test_the_network_lets_a_client_stay_as_long_as_every_effect_does():
    rng = np.random.default_rng(0)
    assert world(effects=[Jitter(0.1)]).network.stay(rng) == math.inf
    both = world(effects=[Dropout(0.1), Dropout(0.4)]).network
    assert np.mean([both.stay(rng) for _ in range(20_000)]) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("effect", "options", "name"),
    [
        ("jitter", {"most": "-1 s"}, "most"),
        ("jitter", {"most": math.inf}, "most"),
        ("loss", {"rate": 1.0}, "rate"),
        ("loss", {"up": -0.1}, "up"),
        ("loss", {"down": math.nan}, "down"),
        ("churn", {"online": "0 s", "offline": "1 s"}, "online"),
        ("churn", {"online": math.inf, "offline": "1 s"}, "online"),
        ("churn", {"online": "1 s", "offline": math.inf}, "offline"),
        ("dropout", {"rate": "-1/s"}, "rate"),
        ("dropout", {"rate": math.nan}, "rate"),
        ("diurnal", {"peak": 1.5, "trough": 0.1}, "peak"),
        ("diurnal", {"peak": 0.0, "trough": 0.0}, "peak"),
        ("diurnal", {"peak": 0.5, "trough": -0.1}, "trough"),
        ("diurnal", {"peak": 0.5, "trough": 0.1, "every": "0 s"}, "every"),
        ("diurnal", {"peak": 0.5, "trough": 0.1, "day": math.inf}, "day"),
        ("diurnal", {"peak": 0.5, "trough": 0.1, "zones": 0}, "zones"),
        ("outage", {"every": "0 s", "length": "1 s"}, "every"),
        ("outage", {"every": "1 s", "length": math.inf}, "length"),
        ("outage", {"every": "1 s", "length": "1 s", "share": 0.0}, "share"),
        ("outage", {"every": "1 s", "length": "1 s", "times": "often"}, "times"),
        ("straggler", {"factor": 0.5, "share": 0.1}, "factor"),
        ("straggler", {"factor": math.inf, "share": 0.1}, "factor"),
        ("straggler", {"factor": 2.0, "share": 1.1}, "share"),
        ("straggler", {"factor": 2.0, "every": "0 s", "length": "1 s"}, "every"),
        ("straggler", {"factor": 2.0, "every": "1 s", "length": "-1 s"}, "length"),
        ("congestion", {"load": 1.0}, "load"),
        ("congestion", {"load": 0.5, "on": "0 s", "off": "1 s"}, "on"),
        ("congestion", {"load": 0.5, "on": "1 s", "off": math.inf}, "off"),
        ("restart", {"every": "0 s", "length": "1 s"}, "every"),
        ("trace", {"trace": ".", "scale": 0.0}, "scale"),
        ("trace", {"trace": ".", "scale": math.inf}, "scale"),
        ("trace", {"trace": ".", "window": "0 s"}, "window"),
        ("trace", {"trace": ".", "least": "0 Mbit/s"}, "least"),
        ("trace", {"trace": ".", "direction": "sideways"}, "direction"),
        ("trace", {"trace": ".", "assign": "fair"}, "assign"),
        ("nights", {"start": "24 h"}, "start"),
        ("nights", {"groups": "labels", "classes": [1], "holding": 0.0}, "holding"),
        ("byzantine", {"attack": "noise", "share": 0.1, "factor": 0}, "factor"),
    ],
)
def test_values_out_of_range_are_refused_by_name(effect, options, name):
    with pytest.raises(ScenarioError) as said:
        find.build("effect", Part(name=effect, options=options))
    (problem,) = said.value.problems
    assert problem.key == f"network.effects.{name}"
    assert "must" in problem.message or "is not one of" in problem.message


@pytest.mark.parametrize(
    ("effect", "options", "message"),
    [
        (Churn, {}, "give the mean times 'online' and 'offline', or a 'table'"),
        (Churn, {"online": 1.0}, "give the mean times"),
        (Straggler, {"factor": 2.0}, "no client would be slow"),
        (Straggler, {"factor": 2.0, "every": 1.0}, "'every' and 'length' belong together"),
        (Diurnal, {"peak": 0.5, "trough": 0.6}, "option 'trough'"),
        (Diurnal, {"peak": 0.5, "trough": 0.1, "peak_at": 90_000.0}, "option 'peak_at'"),
        (Outage, {"every": 1.0, "length": 1.0, "link": "ingress", "cut": True}, "option 'link'"),
        (Outage, {"every": 1.0, "length": 1.0, "link": "ingress", "share": 0.5}, "option 'link'"),
        (Congestion, {"load": 0.5, "off": 1.0}, "'on' and 'off' belong together"),
    ],
)
def test_options_that_need_one_another_say_so(effect, options, message):
    with pytest.raises(ValueError, match=message):
        effect(**options)


def test_options_come_with_units():
    def read(effect, **options):
        return TypeAdapter(effect).validate_python(options)

    assert read(Jitter, most="5 ms") == Jitter(0.005)
    assert read(Loss, rate="30 %", up=0.1) == Loss(0.3, up=0.1)
    assert read(Churn, online="10 min", offline="1 h") == Churn(600.0, 3600.0)
    assert read(Dropout, rate="0.5 per hour") == Dropout(0.5 / 3600)
    assert read(Diurnal, peak="90 %", trough=0.1, peak_at="2 h") == Diurnal(0.9, 0.1, peak_at=7200.0)
    assert read(Outage, every="1 d", length="10 min", share="30 %", cut=True) == Outage(
        every=86_400.0, length=600.0, share=0.3, cut=True
    )
    assert read(Straggler, factor=4, share="10 %", links=True) == Straggler(4.0, 0.1, links=True)
    assert read(Congestion, load="50 %", link="egress", on="1 min", off="2 min") == Congestion(0.5, "egress", 60, 120)
    with pytest.raises(ValidationError, match="'exponential' or 'fixed'"):
        read(Outage, every=1, length=1, times="often")
    with pytest.raises(ValidationError, match="less than 1"):
        read(Loss, rate=1.0)
