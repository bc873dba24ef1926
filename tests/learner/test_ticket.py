"""Tickets and replies as arrays: in every place what single objects would be, each made once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learn.replies import Replies, Reply, clients_of, in_client_order, staleness
from fedsim.learner.ticket import Ticket, Tickets, values_of


def told(reply):
    return reply.client, reply.version, reply.download.nbytes, reply.upload.value, reply.weight, reply.ask


@given(st.lists(st.integers(0, 99), unique=True, max_size=8), st.data())
def test_replies_are_those_of_single_objects(clients, data):
    places = data.draw(st.permutations(range(len(clients))))[: data.draw(st.integers(0, len(clients)))]
    sizes = np.arange(len(clients)) + 5
    downloads, uploads = Tickets(sizes, ["down"] * len(clients)), Tickets(sizes, [f"up {client}" for client in clients])
    places_ = np.array(places, dtype=np.int64)
    own = np.array(clients, dtype=np.int64)[places_]
    replies = Replies(own, 3, downloads.take(places_), uploads.take(places_), 70 + places_)
    single = [Reply(clients[k], 3, downloads[k], uploads[k], ask=70 + k) for k in places]
    assert [*map(told, replies)] == [*map(told, single)]
    assert [*map(told, in_client_order(replies))] == [*map(told, in_client_order(single))]
    assert clients_of(replies) == clients_of(single)
    assert staleness(replies, 5) == staleness(single, 5)
    assert [*map(told, replies[1:])] == [*map(told, single[1:])]
    again = {id(one) for one in in_client_order(replies)}
    assert again == {id(one) for one in replies}


def test_a_ticket_is_made_once_and_only_where_it_is_asked_for():
    tickets = Tickets(np.array([4, 5, 6]), "abc")
    assert values_of(tickets) == ["a", "b", "c"]
    assert not any(tickets._tickets)
    assert tickets[-1] is tickets[2]
    assert (tickets[2].nbytes, tickets[2].value) == (6, "c")
    assert tickets._tickets[:2] == [None, None]


def test_tickets_of_a_record_keep_their_keys_and_what_they_are_given_later():
    made = [Ticket(b"one", 3), Ticket(b"two", 4)]
    tickets = Tickets(np.array([3, 4]), [None, None], made)
    made[1].value = "restored"
    assert [*tickets] == made
    assert (tickets.sizes.tolist(), values_of(tickets)[1]) == ([3, 4], "restored")
