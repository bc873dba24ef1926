"""Replies as columns read as a list of replies does."""

from fedsim.learn import replies
from fedsim.learn.algorithm import Reply
from fedsim.learn.replies import Replies


def told(reply):
    return reply.client, reply.upload, reply.weight


def test_columns_are_those_of_a_list_and_make_each_reply_once():
    made = []

    def make(place, upload):
        made.append(place)
        return Reply(4 + place, 0, None, upload, 0.5)

    columns = Replies([4, 5, 6], ["a", "b", "c"], [0.5] * 3, make)
    plain = [Reply(4 + k, 0, None, "abc"[k], 0.5) for k in range(3)]
    for read in (replies.clients_of, replies.uploads_of, replies.weights_of, len):
        assert read(columns) == read(plain)
    assert not made
    assert columns[-1] is columns[2]
    assert [told(one) for one in columns] == [told(one) for one in plain]
    assert [told(one) for one in columns[:2]] == [told(one) for one in plain[:2]]
    assert made == [2, 0, 1]
