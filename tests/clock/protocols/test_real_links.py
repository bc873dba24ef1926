"""Gossip and two tiers on the network's own topologies, with its books."""

from functools import partial

import pytest
from fake_pull import Long, Pull
from fake_world import check_books, lab
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.ledger import Ledger
from fedsim.clock.protocols.buffered import Buffered
from fedsim.clock.protocols.gossip import Gossip
from fedsim.clock.protocols.hierarchical import Hierarchical
from fedsim.clock.protocols.sync import Sync
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.dropout import Dropout
from fedsim.net.network import SimulatedNetwork
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.tree import EdgeTree

TREE = partial(SimulatedNetwork, topology=EdgeTree(edges=3, uplink=1e6, downlink=2e6, latency=0.02))
RING = partial(SimulatedNetwork, topology=Peers(graph="ring", degree=4))
ALL = partial(SimulatedNetwork, topology=Peers(graph="erdos_renyi", p=1.0))
EXAMPLES = Pull(by_examples=True)
EFFECTS = [Churn(6.0, 3.0), Dropout(0.05)]


def models(here):
    return [state["model"] for state in here.states()]


def balanced(here):
    """Enter every row in a ledger, as a run would have."""
    ledger = Ledger(here.env, here.network, len(here.nodes))
    for row in here.rows:
        ledger.see(row)
    ledger.close()
    check_books(here)


def test_two_tiers_with_everybody_are_plain_averaging():
    here, flat = lab(7, links=TREE, edges=3, algorithm=EXAMPLES), lab(7, algorithm=EXAMPLES)
    assert here.run(Hierarchical(rounds=3, participation=1.0))
    assert flat.run(Sync(rounds=3, participation=1.0))
    assert here.state["model"] == pytest.approx(flat.state["model"], rel=1e-12)
    balanced(here)


def test_equal_peers_that_all_receive_from_all_average():
    here, flat = lab(5, links=ALL, algorithm=Long()), lab(5, algorithm=Long())
    assert here.run(Gossip(rounds=1))
    assert flat.run(Sync(rounds=1, participation=1.0))
    assert models(here) == pytest.approx([flat.state["model"]] * 5)
    balanced(here)


def test_peers_on_a_ring_come_to_agree():
    here = lab(12, links=RING, algorithm=Long())
    here.run(Gossip(rounds=30, weights="metropolis"))
    spread = max(models(here)) - min(models(here))
    alone = 12 - 1  # where each would end by itself
    assert spread < alone / 2
    balanced(here)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([None, 4.0]), st.sampled_from([1, 3]))
def test_two_tiers_under_churn_keep_the_books(seed, wait, edge_rounds):
    here = lab(9, [0.01 * n for n in range(9)], effects=EFFECTS, links=TREE, edges=3, algorithm=Pull(), seed=seed)
    assert here.run(Hierarchical(rounds=5, edge_rounds=edge_rounds, participation=0.7, wait=wait))
    balanced(here)
    assert sum(row.asked for row in here.updates) == here.asked
    assert len(here.updates) == 5


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["equal", "metropolis"]))
def test_peers_under_churn_keep_the_books(seed, weights):
    here = lab(9, [0.01 * n for n in range(9)], effects=EFFECTS, links=RING, algorithm=Long(), seed=seed)
    assert here.run(Gossip(rounds=4, weights=weights))
    balanced(here)
    assert len(here.updates) == 36


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_a_buffer_under_churn_keeps_the_books(seed, buffer):
    here = lab(9, [0.01 * n for n in range(9)], effects=EFFECTS, algorithm=Pull(), seed=seed)
    assert here.run(Buffered(rounds=6, participation=0.6, buffer=buffer))
    balanced(here)
    assert sum(row.asked for row in here.updates) == here.asked
