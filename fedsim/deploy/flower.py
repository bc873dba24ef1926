"""Flower carries the messages: a ServerApp that runs the protocol, and a ClientApp for every job of a client.

One Flower message is one question or answer, as an array of bytes.  Each SuperNode belongs to one client, whose package
its node config names: `--node-config 'package="/path/to/client-0"'`.  Flower starts a process for each message, so
nothing but the package outlives a job.  Messages are encrypted if Flower is set up with certificates; with
`--insecure` they are not.

Not modelled: what Flower itself sends; `wire_bytes` are the bytes handed to it.
"""

import json
import time
import traceback
from pathlib import Path

import yaml
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsim.core import shipped
from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.whole_files import replace
from fedsim.deploy import channel
from fedsim.deploy.post import Brought, Post
from fedsim.deploy.question import HELLO, Answer, Question, pack, unpack
from fedsim.deploy.run import run
from fedsim.deploy.worker import Worker
from fedsim.scenario.schema import Scenario

KIND, RECORD, KEY = "query", "fedsim", "bytes"
POLL = 0.05  # seconds between two requests for answers
APPEAR = 120.0  # seconds for every client to be there

client, server = ClientApp(), ServerApp()


@client.query()  # type: ignore[untyped-decorator]
def answer(message: Message, context: Context) -> Message:
    """Do what one message asks."""
    package = Path(str(context.node_config["package"]))
    with shipped.within_reach(package):
        return Message(_record(Worker(package).answer(_bytes(message))), reply_to=message)


@server.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    """Run the point whose folder the run's config names, and leave its row, or what went wrong, in its folder."""
    given = context.run_config
    folder, beside = Path(str(given["folder"])), [Path(one) for one in json.loads(str(given["beside"]))]
    with shipped.within_reach(*beside):
        try:
            (point,) = Scenario.model_validate(yaml.safe_load((folder / channel.POINT).read_text("utf-8"))).points()
            post = FlowerPost(grid, int(given["clients"]))
            row = run(point, folder, Path(str(given["data"])), post, lambda progress: _report(folder, progress))
            channel.finish(folder, row=row)
        except UserError as error:
            channel.finish(folder, mistake=str(error))
        except Exception:  # any: the command that waits shows it
            channel.finish(folder, failure=traceback.format_exc())


class FlowerPost(Post):
    """Carries questions as Flower's messages."""

    def __init__(self, grid: Grid, clients: int) -> None:
        """Find the node of each client.  Raises UserError if some are not there in time."""
        self._grid, self._under_way = grid, dict[str, int]()
        self._nodes = dict[int, int]()
        asked, until = set[int](), time.monotonic() + APPEAR
        while len(self._nodes) < clients:
            fresh = [node for node in grid.get_node_ids() if node not in asked]
            for node in fresh:
                self._push(node, node, pack(Question(HELLO)))
            asked.update(fresh)
            for one in self.poll(1.0):
                if one.data is not None:
                    self._nodes[unpack(Answer, one.data).client] = one.number
            if time.monotonic() > until:
                lacking = [client for client in range(clients) if client not in self._nodes]
                raise UserError(f"{len(lacking)} of {clients} clients are not there, the first is client {lacking[0]}")

    def send(self, number: int, client: int, data: bytes) -> int:
        """Send a client the question of that number."""
        self._push(number, self._nodes[client], data)
        return len(data)

    def poll(self, seconds: float) -> list[Brought]:
        """Return the answers that have come."""
        until = time.monotonic() + seconds
        while True:
            found = (
                [self._brought(reply) for reply in self._grid.pull_messages([*self._under_way])]
                if self._under_way
                else []
            )
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            time.sleep(min(POLL, left))

    def _push(self, number: int, node: int, data: bytes) -> None:
        [name] = self._grid.push_messages([Message(_record(data), dst_node_id=node, message_type=KIND)])
        self._under_way[name] = number

    def _brought(self, reply: Message) -> Brought:
        number = self._under_way.pop(reply.metadata.reply_to_message_id)
        if reply.has_error():
            return Brought(number, None, error=f"{reply.error.reason} (Flower's error {reply.error.code})")
        data = _bytes(reply)
        return Brought(number, data, len(data))


def _record(data: bytes) -> RecordDict:
    return RecordDict({RECORD: ArrayRecord({KEY: Array("uint8", (len(data),), KEY, data)})})


def _bytes(message: Message) -> bytes:
    return bytes(message.content.array_records[RECORD][KEY].data)


def _report(folder: Path, progress: Progress) -> None:
    replace(folder / channel.PROGRESS, json.dumps([progress.simulated, progress.share, progress.updates]))
