"""A network of any shape in a few lines: a message takes its latencies and its size over the slowest rate."""

import math
from functools import partial

from fedsim.core import record
from fedsim.net.topology import edge_node
from fedsim.net.transfer import Delivery, Lost

BACKBONE = 8e6  # bit/s between an edge and the cloud
HOP = 0.05  # seconds one way between them


class Links:
    """Nobody shares a link with anybody; who goes to sleep or leaves cuts what it sends and receives."""

    def __init__(self, env, nodes, *, rng, record, effects=(), model=None, edge_of=None, near=None):
        self.env, self.nodes, self.effects = env, nodes, effects
        self._rng, self._record, self._edge_of, self._near = rng, record, edge_of, near
        self._moving: dict[Delivery, tuple] = {}
        nodes.watch(self._moved)
        self.server_status, self.layout = None, self
        for index, effect in enumerate(effects):
            if drive := effect.drive(env, self, rng(f"effect/{index}")):
                env.process(drive)

    def edge_of(self, client):
        return edge_node(self._edge_of[client])

    def neighbours(self, client):
        return self._near[client]

    makes_leave = False

    def stay(self, rng):
        return min((effect.stay(rng) for effect in self.effects), default=math.inf)

    def seconds(self, message):
        """Latencies, and seconds of moving."""
        ends = [(node, up) for node, up in ((message.src, True), (message.dst, False)) if node >= 0]
        if not ends:
            return HOP, 8 * message.nbytes / BACKBONE
        rates = [(self.nodes.uplink if up else self.nodes.downlink)[node] for node, up in ends]
        return sum(float(self.nodes.latency[node]) for node, _ in ends), float(8 * message.nbytes / min(rates))

    def send(self, message, answers=None):
        delivery = Delivery(self.env)
        delivery.defused = True
        self._moving[delivery] = message, self.env.now
        if all(self.nodes.online[node] for node in (message.src, message.dst) if node >= 0):
            self.env.timeout(sum(self.seconds(message))).callbacks.append(lambda _: self._arrive(delivery))
        else:
            self._cut(delivery)
        return delivery

    def close(self):
        for delivery in list(self._moving):
            self._cut(delivery)

    def _arrive(self, delivery):
        if delivery in self._moving:
            message = self._write(delivery, None)
            delivery.succeed(message)

    def _cut(self, delivery):
        if delivery in self._moving:
            message, sent = self._moving[delivery]
            wait, moving = self.seconds(message)
            share = (self.env.now - sent - wait) / moving if moving else 0.0
            moved = math.floor(message.nbytes * min(1.0, max(0.0, share)))
            self._write(delivery, moved)
            delivery.fail(Lost(message, moved))

    def _write(self, delivery, moved):
        message, sent = self._moving.pop(delivery)
        fate = delivery.fate if moved is None else "cut" if moved else "lost"
        ends = message.src, message.dst, message.kind, message.version, message.nbytes
        self._record(record.TransferRow(sent, self.env.now, *ends, message.nbytes if moved is None else moved, fate))
        return message

    def _moved(self, client, what):
        if what in ("sleep", "leave"):
            for delivery, (message, _) in list(self._moving.items()):
                if client in (message.src, message.dst):
                    self._cut(delivery)


def tree(edge_of):
    """Links where client k belongs to edge `edge_of[k]`."""
    return partial(Links, edge_of=edge_of)


def complete(clients):
    """Links where everybody is everybody's neighbour."""
    return partial(Links, near=[tuple(b for b in range(clients) if b != a) for a in range(clients)])


def ring(clients):
    """Links where everybody has two neighbours."""
    return partial(Links, near=[tuple(sorted({(a - 1) % clients, (a + 1) % clients} - {a})) for a in range(clients)])
