"""Flower carries the messages: a ServerApp that runs the protocol, and a ClientApp for every job of a client.

One Flower message is one question or answer, as an array of bytes.  Each SuperNode belongs to one client, whose package
its node config names: `--node-config 'package="/path/to/client-0"'`.  Flower starts a process for each message, so
nothing but the package outlives a job.  Messages are encrypted if Flower is set up with certificates; with
`--insecure` they are not.

A SuperNode that is started anew is another node to Flower.  Each node that appears is asked for its client, and the
latest node with a client's package takes that client's place; what the one before had not answered is lost.

Not modelled: what Flower itself sends; `wire_bytes` are the bytes handed to it.
"""

import json
import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.whole_files import replace
from fedsim.deploy import channel
from fedsim.deploy.messages import WHO, Delivered, Post, Question, Response, pack, unpack
from fedsim.deploy.run import run
from fedsim.deploy.worker import Worker
from fedsim.scenario.parts import lookup
from fedsim.scenario.schema import Scenario

KIND, RECORD, KEY = "query", "fedsim", "bytes"
NOBODY = -1  # the client of a package that cannot be read
POLL = 0.05  # seconds between two requests for answers
APPEAR = 120.0  # seconds for every client to be there
LOOK = 2.0  # seconds between two looks for nodes that have appeared

client, server = ClientApp(), ServerApp()
log = logging.getLogger(__name__)


@client.query()  # type: ignore[untyped-decorator]
def answer(message: Message, context: Context) -> Message:
    """Do what one message asks."""
    package = Path(str(context.node_config["package"]))
    with lookup.within_reach(package):
        try:
            data = Worker(package).answer(_bytes(message))
        except UserError as error:
            data = pack(Response(NOBODY, refused=str(error)))
        return Message(_record(data), reply_to=message)


@server.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    """Run the point whose folder the run's config names, and leave its row, or what went wrong, in its folder."""
    given = context.run_config
    folder, beside = Path(str(given["folder"])), [Path(each) for each in json.loads(str(given["beside"]))]
    with lookup.within_reach(*beside), _warnings_passed_on(folder):
        try:
            (point,) = Scenario.model_validate(yaml.safe_load((folder / channel.POINT).read_text("utf-8"))).points()
            post = FlowerPost(grid, int(given["clients"]))
            row = run(point, folder, Path(str(given["data"])), post, lambda progress: _report(folder, progress))
            channel.finish(folder, row=row)
        except UserError as error:
            channel.finish(folder, mistake=str(error))
        except Exception:  # any: the command that waits shows it
            channel.finish(folder, failure=traceback.format_exc())


@contextmanager
def _warnings_passed_on(folder: Path) -> Iterator[None]:
    """Have the command show the warnings of the block."""
    ours, handler = logging.getLogger("fedsim.deploy"), channel.News(folder)
    ours.addHandler(handler)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        handler.close()


class FlowerPost(Post):
    """Carries questions as Flower's messages."""

    def __init__(self, grid: Grid, clients: int) -> None:
        """Find the node of each client.  Raises UserError if some are not there in time, or have no sound package."""
        self._grid, self._under_way, self._strangers = grid, dict[str, tuple[int, int]](), dict[str, int]()
        self._nodes, self._packages = dict[int, int](), dict[int, str]()
        self._seen, self._looked, self._failed = set[int](), -LOOK, list[Delivered]()
        self._begun = False
        until = time.monotonic() + APPEAR
        while len(self._nodes) < clients:
            self.poll(1.0)
            if time.monotonic() > until:
                lacking = [client for client in range(clients) if client not in self._nodes]
                raise UserError(f"{len(lacking)} of {clients} clients are not there, the first is client {lacking[0]}")
        self._begun = True

    def send(self, number: int, client: int, data: bytes) -> int:
        """Send a client the question of that number."""
        node = self._nodes[client]
        if name := self._pushed(node, data):
            self._under_way[name] = number, node
        else:
            self._failed.append(Delivered(number, None, error="its SuperNode is not there"))
        return len(data)

    def poll(self, seconds: float) -> list[Delivered]:
        """Return the answers that have come."""
        until = time.monotonic() + seconds
        while True:
            self._look()
            replies, self._failed = self._failed, []
            names = [*self._under_way, *self._strangers]
            for reply in self._grid.pull_messages(names) if names else ():
                if (node := self._strangers.pop(reply.metadata.reply_to_message_id, None)) is not None:
                    replies += self._welcome(node, reply)
                else:
                    replies.append(self._delivered(reply))
            left = until - time.monotonic()
            if replies or left <= 0:
                return replies
            time.sleep(min(POLL, left))

    def _look(self) -> None:
        """Ask the nodes that have appeared who they are."""
        if time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        for node in {*self._grid.get_node_ids()} - self._seen:
            if name := self._pushed(node, pack(Question(WHO))):
                self._strangers[name] = node
                self._seen.add(node)

    def _welcome(self, node: int, reply: Message) -> list[Delivered]:
        """Let a node take its client's place, and return what the one before has not answered."""
        if reply.has_error():
            return []
        answer = unpack(Response, _bytes(reply))
        if problem := answer.refused or answer.error:
            return self._not_welcome(f"a SuperNode cannot take part: {problem}")
        client, before = answer.client, self._nodes.get(answer.client)
        if before is not None and answer.package != self._packages[client]:
            return self._not_welcome(f"a SuperNode for client {client} has another package than the run began with")
        self._nodes[client], self._packages[client] = node, answer.package
        lost = [name for name, (_, where) in self._under_way.items() if where == before]
        error = "its SuperNode was started anew"
        return [Delivered(self._under_way.pop(name)[0], None, error=error) for name in lost]

    def _not_welcome(self, reason: str) -> list[Delivered]:
        """End a run that has not begun; one that has begun goes on without the node."""
        if not self._begun:
            raise UserError(reason)
        log.warning("%s; it is left out", reason)
        return []

    def _pushed(self, node: int, data: bytes) -> str:
        """Return the name of a message that is under way, "" if there is no such node any more."""
        names = [*self._grid.push_messages([Message(_record(data), dst_node_id=node, message_type=KIND)])]
        return names[0] or "" if names else ""

    def _delivered(self, reply: Message) -> Delivered:
        number, _ = self._under_way.pop(reply.metadata.reply_to_message_id)
        if reply.has_error():
            return Delivered(number, None, error=f"{reply.error.reason} (Flower's error {reply.error.code})")
        data = _bytes(reply)
        return Delivered(number, data, len(data))


def _record(data: bytes) -> RecordDict:
    return RecordDict({RECORD: ArrayRecord({KEY: Array("uint8", (len(data),), KEY, data)})})


def _bytes(message: Message) -> bytes:
    return bytes(message.content.array_records[RECORD][KEY].data)


def _report(folder: Path, progress: Progress) -> None:
    replace(folder / channel.PROGRESS, json.dumps([progress.simulated, progress.share, progress.updates]))
