import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.record import SERVER
from fedsim.net.measurements import graphs
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.star import Star
from fedsim.net.topologies.tree import EdgeTree
from fedsim.net.topology import Route, edge_node, edge_number
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def rng(seed=0):
    return np.random.default_rng(seed)


def tree(edges=3, **options):
    return EdgeTree(edges=edges, uplink=10e6, downlink=20e6, latency=0.01, **options)


def no_way(layout, src, dst):
    with pytest.raises(ValueError, match=f"no route from {src} to {dst}"):
        layout.route(src, dst)


def test_a_star_leads_from_clients_to_the_server_and_back():
    layout = Star().lay(3, rng())
    assert layout.route(2, SERVER) == Route(2, ("ingress",), None, 0.0)
    assert layout.route(SERVER, 0) == Route(None, ("egress",), 0, 0.0)
    assert (layout.links, layout.edges, layout.neighbours(1)) == ({}, 0, ())
    for ends in ((0, 1), (3, SERVER), (SERVER, -2), (-2, SERVER), (SERVER, SERVER), (1, 1)):
        no_way(layout, *ends)
    with pytest.raises(ValueError, match="no edge aggregator"):
        layout.edge_of(0)


def test_a_tree_leads_over_the_links_of_the_clients_edge():
    layout = tree().lay(7, rng())
    edge = edge_node(1)
    assert [edge_number(layout.edge_of(client)) for client in range(7)] == [0, 0, 0, 1, 1, 2, 2]
    assert layout.route(4, edge) == Route(4, ("edge 1 ingress",), None, 0.0)
    assert layout.route(edge, SERVER) == Route(None, ("edge 1 uplink", "ingress"), None, 0.01)
    assert layout.route(4, SERVER) == Route(4, ("edge 1 ingress", "edge 1 uplink", "ingress"), None, 0.01)
    assert layout.route(SERVER, 4) == Route(None, ("egress", "edge 1 downlink", "edge 1 egress"), 4, 0.01)
    assert layout.route(SERVER, edge) == Route(None, ("egress", "edge 1 downlink"), None, 0.01)
    assert layout.route(edge, 4) == Route(None, ("edge 1 egress",), 4, 0.0)
    assert (layout.edges, layout.neighbours(4)) == (3, ())
    for ends in ((4, edge_node(0)), (edge_node(0), 4), (edge, edge_node(0)), (1, 2), (SERVER, edge_node(3)), (7, -1)):
        no_way(layout, *ends)
    with pytest.raises(ValueError, match="no client 7"):
        layout.edge_of(7)


def test_a_trees_links_have_the_rates_that_it_is_given():
    links = tree(edges=1, ingress=1e6).lay(2, rng()).links
    assert {name: link.rate for name, link in links.items()} == {
        "edge 0 ingress": 1e6, "edge 0 uplink": 10e6, "edge 0 downlink": 20e6, "edge 0 egress": None,
    }  # fmt: skip


@given(
    st.integers(1, 40), st.integers(1, 40), st.sampled_from(["contiguous", "round_robin", "random"]), st.integers(0, 9)
)
def test_every_edge_has_as_many_clients_as_the_others_or_one_more(edges, more, assign, seed):
    clients = edges + more - 1
    first, again = (tree(edges=edges, assign=assign).lay(clients, rng(seed)) for _ in range(2))
    owned = [edge_number(first.edge_of(client)) for client in range(clients)]
    assert owned == [edge_number(again.edge_of(client)) for client in range(clients)]
    counts = np.bincount(owned, minlength=edges)
    assert counts.max() - counts.min() <= 1
    if assign == "contiguous":
        assert owned == sorted(owned)


def test_a_random_assignment_depends_on_what_is_drawn():
    drawn = [[tree(assign="random").lay(30, rng(seed)).edge_of(client) for client in range(30)] for seed in range(2)]
    assert drawn[0] != drawn[1]


def test_peers_lead_to_neighbours_only():
    layout = Peers(graph="ring", degree=2).lay(5, rng())
    assert layout.neighbours(0) == (1, 4)
    assert layout.route(0, 4) == Route(0, (), 4, 0.0)
    for ends in ((0, 2), (0, 0), (0, SERVER), (SERVER, 0), (0, 5), (0, -2), (-2, 0)):
        no_way(layout, *ends)


@pytest.mark.parametrize(("clients", "degree", "near"), [(2, None, (1,)), (3, 2, (1, 2)), (7, 4, (1, 2, 5, 6))])
def test_a_ring(clients, degree, near):
    assert Peers(graph="ring", degree=degree).lay(clients, rng()).neighbours(0) == near


kinds = st.one_of(
    st.just({"graph": "ring", "degree": 4}),
    st.just({"graph": "regular", "degree": 4}),
    st.fixed_dictionaries({"graph": st.just("erdos_renyi"), "p": st.floats(0.5, 1)}),
    st.just({"graph": "erdos_renyi", "degree": 5}),
    st.fixed_dictionaries({"graph": st.just("barabasi_albert"), "m": st.integers(1, 5)}),
)


@given(kinds, st.integers(6, 40), st.integers(0, 99))
def test_graphs_are_connected_mutual_and_the_same_for_the_same_seed(options, clients, seed):
    layout, again = (Peers(**options).lay(clients, rng(seed)) for _ in range(2))
    near = [layout.neighbours(client) for client in range(clients)]
    assert near == [again.neighbours(client) for client in range(clients)]
    assert all(list(each) == sorted(set(each) - {client}) for client, each in enumerate(near))
    assert all(client in near[other] for client, each in enumerate(near) for other in each)
    reached, waiting = {0}, [0]
    while waiting:
        fresh = set(near[waiting.pop()]) - reached
        reached |= fresh
        waiting += fresh
    assert len(reached) == clients


@pytest.mark.parametrize(("clients", "degree"), [(8, 3), (30, 4), (9, 8), (50, 6)])
def test_in_a_regular_graph_all_have_as_many_neighbours(clients, degree):
    drawn = [Peers(graph="regular", degree=degree).lay(clients, rng(seed)) for seed in range(3)]
    assert {len(layout.neighbours(client)) for layout in drawn for client in range(clients)} == {degree}
    near = {tuple(layout.neighbours(0)) for layout in drawn}
    assert degree == clients - 1 or len(near) > 1


def test_the_random_graphs_have_the_degrees_that_they_should():
    drawn = [Peers(graph="erdos_renyi", degree=20).lay(200, rng(seed)) for seed in range(3)]
    degrees = [len(layout.neighbours(client)) for layout in drawn for client in range(200)]
    assert np.mean(degrees) == pytest.approx(20, rel=0.05)
    layout = Peers(graph="barabasi_albert", m=3).lay(300, rng())
    degrees = np.array([len(layout.neighbours(client)) for client in range(300)])
    assert degrees.sum() == 2 * (3 + 3 * (300 - 4))  # the star of four, then three edges each
    assert degrees.max() > 8 * np.median(degrees)  # a few hubs
    assert degrees[4:].min() == 3


def test_a_graph_from_a_file(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("a,b\n0,1\n1,2\n2,1\n3,1\n")
    layout = Peers(graph=str(path)).lay(4, rng())
    assert [layout.neighbours(client) for client in range(4)] == [(1,), (0, 2, 3), (1,), (1,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n0,1\n1,2\n", "not connected.*client 3"),
        ("a,b\n0,1\n1,4\n", "line 3.*no client 4"),
        ("a,b\n0,1\n2,2\n", "line 3.*itself"),
        ("a,c\n0,1\n", "no column 'c'"),
        ("a,b\n0,1.5\n", "line 2.*whole"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported(tmp_path, text, message):
    path = tmp_path / "edges.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        Peers(graph=str(path)).lay(4, rng())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": "rings"}, "did you mean 'ring'"),
        ({"graph": "nowhere.csv"}, "nor a file"),
        ({"graph": "ring", "degree": 3}, "even"),
        ({"graph": "ring", "p": 0.5}, "no option 'p'; it has degree"),
        ({"graph": "regular"}, "needs 'degree'"),
        ({"graph": "erdos_renyi"}, "either 'p' or 'degree'"),
        ({"graph": "erdos_renyi", "p": 0.5, "degree": 3}, "either 'p' or 'degree'"),
        ({"graph": "erdos_renyi", "m": 3}, "no option 'm'; it has degree or p"),
        ({"graph": "barabasi_albert"}, "needs 'm'"),
    ],
)
def test_options_of_peers_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Peers(**options)
    with pytest.raises(ScenarioError, match=f"network.topology.*{message}"):
        find.build("topology", Part(name="peers", options=options))


@pytest.mark.parametrize(
    ("options", "clients", "message"),
    [
        ({"graph": "ring"}, 1, r"clients.count: .*at least two"),
        ({"graph": "ring", "degree": 4}, 4, r"topology.degree: 4 is too much for 4"),
        ({"graph": "regular", "degree": 9}, 9, r"topology.degree: 9 is too much"),
        ({"graph": "regular", "degree": 3}, 9, r"topology.degree: .*9 clients has 3 .*must be even"),
        ({"graph": "regular", "degree": 1}, 6, r"topology.degree: .*take a higher degree"),
        ({"graph": "erdos_renyi", "degree": 9}, 9, r"topology.degree: 9 is too much"),
        ({"graph": "barabasi_albert", "m": 5}, 5, r"topology.m: 5 is too much"),
        ({"graph": "erdos_renyi", "p": 0.001}, 50, r"topology.p: none of 100 graphs .*above 0.078"),
        ({"graph": "erdos_renyi", "degree": 1}, 50, r"topology.degree: none of 100 graphs .*above 3.9"),
    ],
)
def test_peers_that_cannot_be_connected_are_refused(options, clients, message):
    with pytest.raises(ScenarioError, match=message):
        Peers(**options).lay(clients, rng())


def test_options_of_a_tree_that_make_no_sense_are_refused():
    options = {"edges": 1, "uplink": "1 Mbit/s", "downlink": "1 Mbit/s", "latency": "1 s"}
    for name, value in (("uplink", "0 Mbit/s"), ("latency", "-1 s")):
        with pytest.raises(ScenarioError, match=f"topology.{name}: .*must be"):
            find.build("topology", Part(name="tree", options={**options, name: value}))
    with pytest.raises(ScenarioError, match=r"topology.edges: .*5 edges for 4 clients"):
        tree(edges=5).lay(4, rng())


def test_a_scenario_builds_them_by_name():
    part = {"name": "tree", "edges": 2, "uplink": "10 Mbit/s", "downlink": "10 Mbit/s", "latency": "5 ms"}
    assert find.build("topology", Part.model_validate(part)) == EdgeTree(
        edges=2, uplink=1e7, downlink=1e7, latency=0.005
    )
    assert find.build("topology", Part(name="star")) == Star()
    assert find.names("topology") == ["peers", "star", "tree"]
    assert [cls.has_server for cls in (Star, EdgeTree, Peers)] == [True, True, False]
    assert [cls.has_edges for cls in (Star, EdgeTree, Peers)] == [False, True, False]
    assert [cls.has_peers for cls in (Star, EdgeTree, Peers)] == [False, False, True]


def test_no_peer_is_its_own_neighbour():
    assert graphs.neighbours(np.array([[0, 0], [0, 1]]), 2) == [(1,), (0,)]
