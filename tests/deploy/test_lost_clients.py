"""A lost client is reported when it happens and at the end, and takes part again once it is back."""

import json
import logging
from types import SimpleNamespace

import pytest
import small_points
from deploy_here import deploy

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.deploy import channel, federation

pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[flower]'")

from fedsim.deploy import flower
from fedsim.deploy.messages import WHO, Question, Response, pack, unpack

ALL = {"name": "sync", "rounds": 4, "participation": 1.0}


def test_who_is_lost_and_who_is_back_is_logged_once_and_counted(tmp_path):
    row, _ = deploy(tmp_path / "run", small_points.point(protocol=ALL), gone={1: 2, 4: 99})
    log = (tmp_path / "run" / "run.log").read_text()
    assert log.count("WARNING") == 3
    assert log.count("client 1 is lost (it is gone); the run goes on without it until it is back") == 1
    assert log.count("client 1 is back") == log.count("client 4 is lost") == 1
    assert row["provenance"]["missed"] == [
        "client 1: 2 of its 4 jobs were lost", "client 4: 4 of its 4 jobs were lost",
    ]  # fmt: skip
    assert row["lost"] == 6


class Grid:
    """Nodes that answer at once who they are; those of `dead` never answer, and have gone when `gone` is set."""

    def __init__(self):
        self.nodes, self.dead, self.waiting, self.count = {}, set(), {}, 0

    def get_node_ids(self):
        return [*self.nodes]

    def push_messages(self, messages):
        [message] = messages
        node = message.metadata.dst_node_id
        if node not in self.nodes:
            return [""]
        self.count += 1
        self.waiting[f"m{self.count}"] = node, message
        return [f"m{self.count}"]

    def pull_messages(self, names):
        found = [name for name in names if self.waiting[name][0] not in self.dead]
        return [self._reply(name, *self.waiting[name]) for name in found]

    def _reply(self, name, node, message):
        question = unpack(Question, flower._bytes(message))
        client, package = self.nodes[node]
        answer = Response(client, package=package, about="" if question.what == WHO else f"node {node}")
        content = flower._record(pack(answer))
        return SimpleNamespace(
            content=content, has_error=lambda: False, metadata=SimpleNamespace(reply_to_message_id=name)
        )


@pytest.fixture
def grid(monkeypatch):
    monkeypatch.setattr(flower, "LOOK", 0.0)
    monkeypatch.setattr(flower, "Message", lambda content, dst_node_id, message_type: SimpleNamespace(
        content=content, metadata=SimpleNamespace(dst_node_id=dst_node_id)))  # fmt: skip
    made = Grid()
    made.nodes = {11: (0, "p0"), 12: (1, "p1")}
    return made


def asked(post, number, client):
    """Send a client a question, and return who answers it."""
    post.send(number, client, pack(Question("work")))
    return [one for one in post.poll(0.2) if one.number == number]


def test_a_supernode_that_is_started_anew_takes_its_clients_place(grid):
    post = flower.FlowerPost(grid, 2)
    [first] = asked(post, 1, 1)
    assert unpack(Response, first.data).about == "node 12"
    grid.dead.add(12)  # killed, which Flower does not know yet
    assert asked(post, 2, 1) == []
    grid.nodes[13] = (1, "p1")
    [lost] = post.poll(0.2)
    assert (lost.number, lost.data, lost.error) == (2, None, "its SuperNode was started anew")
    [again] = asked(post, 3, 1)
    assert unpack(Response, again.data).about == "node 13"


def test_a_node_that_is_gone_is_a_loss_at_once(grid):
    post = flower.FlowerPost(grid, 2)
    del grid.nodes[12]
    [lost] = asked(post, 1, 1)
    assert (lost.data, lost.error) == (None, "its SuperNode is not there")


def test_a_newcomer_with_another_package_is_left_out(grid, caplog):
    post = flower.FlowerPost(grid, 2)
    grid.nodes[13] = (1, "another")
    with caplog.at_level(logging.WARNING):
        post.poll(0.0)
        post.poll(0.0)
    assert caplog.messages == ["a SuperNode for client 1 has another package than the run began with; it is left out"]
    [answer] = asked(post, 1, 1)
    assert unpack(Response, answer.data).about == "node 12"


def test_a_package_that_cannot_be_read_ends_a_run_before_it_begins(grid, monkeypatch):
    monkeypatch.setattr(Grid, "_reply", lambda self, name, node, message: SimpleNamespace(
        content=flower._record(pack(Response(-1, refused="/data is no client's package"))), has_error=lambda: False,
        metadata=SimpleNamespace(reply_to_message_id=name)))  # fmt: skip
    with pytest.raises(UserError, match="a SuperNode cannot take part: /data is no client's package"):
        flower.FlowerPost(grid, 2)


def test_the_command_shows_the_news_and_the_end_of_a_log(tmp_path):
    log = tmp_path / "run.log"
    log.write_text("one\ntwo\n")
    ours, handler = logging.getLogger("fedsim.deploy.host"), channel.News(tmp_path)
    ours.addHandler(handler)
    try:
        ours.warning("client 2 is lost\nnow")
        ours.info("nothing of note")
    finally:
        ours.removeHandler(handler)
        handler.close()
    (tmp_path / channel.PROGRESS).write_text(json.dumps([3.0, 0.5, 2]))
    seen = []

    class Ended:
        def poll(self):
            return 1

    with pytest.raises(UserError, match=r"its log is .*run\.log, and ends with:\none\ntwo$"):
        federation._awaited(Ended(), tmp_path, log, seen.append)
    assert seen == [Progress(0.0, 0.0, None, 0, "client 2 is lost now")]
    assert log.exists()
