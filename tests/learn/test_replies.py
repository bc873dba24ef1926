"""Replies as columns read as a list of replies does."""

import numpy as np

from fedsim.learn import replies
from fedsim.learn.replies import Replies, Reply


def told(reply):
    return reply.client, reply.version, reply.download, reply.upload, reply.weight, reply.ask


def test_columns_are_those_of_a_list():
    columns = Replies(np.array([4, 5, 6]), 3, [None] * 3, ["a", "b", "c"], np.array([7, 8, 9]))
    plain = [Reply(4 + k, 3, None, "abc"[k], ask=7 + k) for k in range(3)]
    for read in (replies.clients_of, replies.uploads_of, replies.weights_of, len):
        assert read(columns) == read(plain)
    assert columns[-1] is columns[2]
    assert [told(one) for one in columns] == [told(one) for one in plain]
    assert [told(one) for one in columns[:2]] == [told(one) for one in plain[:2]]
    assert [told(one) for one in replies.at(columns, [2, 0])] == [told(one) for one in replies.at(plain, [2, 0])]
