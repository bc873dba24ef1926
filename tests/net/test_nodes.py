import numpy as np
import pytest

from fedsim.net.node import Nodes


def nodes(count=3):
    return Nodes(np.full(count, 0.1), np.full(count, 1e6), np.full(count, 2e6))


def test_watchers_are_notified_in_order_and_only_of_changes():
    seen, these = [], nodes()
    these.watch(lambda client, what: seen.append((client, what, bool(these.online[client]))))
    these.watch(lambda client, what: seen.append("second"))
    for step in (these.wake, these.sleep, these.sleep, these.leave, these.wake, these.leave):
        step(1)
    assert seen[::2] == [(1, "sleep", False), (1, "wake", True), (1, "leave", True)]
    assert seen[1::2] == ["second"] * 3
    assert these.online.tolist() == [True] * 3


def test_rates_change_one_by_one():
    seen, these = [], nodes()
    these.rates.watch(seen.append)
    these.set_rate(2, uplink=5.0)
    these.set_rate(0, downlink=0.0)
    assert (these.uplink.tolist(), these.downlink.tolist()) == ([1e6, 1e6, 5.0], [0.0, 2e6, 2e6])
    assert seen == [2, 0]


def test_nodes_keep_their_own_copy():
    rates = np.full(2, 1e6)
    these = Nodes(np.zeros(2), rates, rates)
    these.set_rate(0, uplink=1.0)
    assert rates[0] == these.downlink[0] == 1e6
    assert len(these) == 2


@pytest.mark.parametrize("client", [-1, 3])
def test_clients_that_do_not_exist_are_refused(client):
    these = nodes()
    for call in (these.sleep, these.wake, these.leave, these.set_rate):
        with pytest.raises(IndexError, match="no client"):
            call(client)


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="uplink of client 1"):
        nodes().set_rate(1, uplink=-1.0)
    with pytest.raises(ValueError, match="latency"):
        Nodes([-0.1], [1.0], [1.0])
    with pytest.raises(ValueError, match="downlink"):
        Nodes([0.1], [1.0], [np.inf])
    with pytest.raises(ValueError, match="1 latencies, 2 uplinks, 1 downlinks"):
        Nodes([0.1], [1.0, 1.0], [1.0])
