"""CohortChannel: passages without messages proceed over a full link as messages do, to the last bit."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from netlab import down, up, world

from fedsim.core.record import SERVER
from fedsim.net.network import ServerAccess

rows = st.lists(
    st.tuples(
        st.floats(0, 0.5),  # latency
        st.floats(1e5, 1e7),  # rate
        st.sampled_from([0.0, 0.0, 0.003, 0.1]),  # loss
        st.integers(0, 400_000),  # bytes
        st.floats(0, 3),  # start
        st.booleans(),  # upload
    ),
    min_size=1,
    max_size=8,
)


def lab(clients, rate):
    latency, access, loss = (np.array([row[i] for row in clients]) for i in range(3))
    columns = {"loss_up": loss, "loss_down": loss[::-1]}
    server = ServerAccess(rate, rate)
    return world(latency, access, access, clients=len(clients), columns=columns, server=server)


def alone(clients, rate, end, change):
    """Have each message passed without the network's rows; return when it ended, and its whole bytes."""
    here, ends, under_way = lab(clients, rate), {}, {}
    planner = here.network.planner

    def arrived(passage):
        ends[passage.transfer.client] = here.env.now, round(passage.size)

    def start(client, nbytes, upload):
        draws = planner.draws(np.array([client]), upload)[:, 0].tolist()
        under_way[client] = planner.passage(client, upload, nbytes, draws, arrived)
        under_way[client].begin()

    here.at(change[0], here.nodes.set_rate, 0, *change[1:])
    for client, (*_, nbytes, begin, upload) in enumerate(clients):
        here.at(begin, start, client, nbytes, upload)
    here.env.run(until=end)
    cut = {client: math.floor(under_way[client].cut()) for client in under_way.keys() - ends.keys()}
    return ends, cut, {upload: here.network.meters(upload).tolist() for upload in (True, False)}


@given(
    rows, st.floats(1e5, 2e7), st.floats(0.01, 30), st.tuples(st.floats(0, 3), st.floats(0, 1e7), st.floats(1e5, 1e7))
)
def test_a_passage_is_that_of_a_message(clients, rate, end, change):
    """Client 0's rates change at some second."""
    here = lab(clients, rate)
    here.at(change[0], here.nodes.set_rate, 0, *change[1:])
    for client, (*_, nbytes, begin, upload) in enumerate(clients):
        here.at(begin, here.network.send, (up if upload else down)(client, nbytes))
    here.env.run(until=end)
    here.network.close()
    ends, cut, meters = alone(clients, rate, end, change)
    for row in here.rows:
        client = row.src if row.dst == SERVER else row.dst
        if row.fate == "delivered":
            assert ends.pop(client) == (row.arrived, row.wire_bytes)
        else:
            assert abs(cut.pop(client) - row.wire_bytes) <= 1  # cut in another order, where rounding may differ
    assert not ends
    assert not cut
    for upload, carried in meters.items():
        assert np.allclose(carried, here.network.meters(upload), rtol=1e-9, atol=1e-6)


def test_the_servers_halt_makes_clients_leave_in_the_order_of_their_start():
    here, left = lab([(0.1, 1e6, 0.0, 0, 0, True)] * 3, 1e6), []
    here.nodes.watch(lambda client, what: left.append((client, what)))
    for client in (2, 0):
        here.network.planner.passage(client, True, 1000, (0.0, 0.0), lambda passage: None).begin()
    here.network.planner.halt()
    assert left == [(2, "leave"), (0, "leave")]
