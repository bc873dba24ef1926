"""Shaping: the numbers of a transfer, from those of the clients at its ends, the route between, and the effects."""

from collections.abc import Callable, Sequence

import numpy as np

from fedsim.net.effect import Effect
from fedsim.net.message import Message
from fedsim.net.node import Nodes
from fedsim.net.topology import Route
from fedsim.net.transfer import Transfer
from fedsim.record import SERVER


def shaped(
    message: Message,
    route: Route,
    nodes: Nodes,
    effects: Sequence[Effect],
    now: float,
    rng: Callable[[], np.random.Generator],
) -> Transfer:
    """Return the transfer of a message that sets out now.

    Effects shape it once for each client at an end: between two peers as two halves, whose delays add up and whose
    losses strike independently.  Between an edge aggregator and the server there is nothing to shape.  `rng` is called
    where something has to be drawn.
    """
    ends = [(client, up) for client, up in ((route.out, True), (route.into, False)) if client is not None]
    halves = [_half(message, client, up, nodes, now) for client, up in ends]
    draws = None
    if halves and (effects or any(half.loss_up or half.loss_down for half in halves)):
        stream = rng()
        draws = stream.random(2)
        for half in halves:
            for effect in effects:
                effect.shape(half, stream)
    transfer = _whole(message, halves, now)
    if draws is not None:
        transfer.handshake_draw, transfer.loss_draw = map(float, draws)
    transfer.rtt += 2 * route.latency
    return transfer


def _half(message: Message, client: int, upload: bool, nodes: Nodes, now: float) -> Transfer:
    return Transfer(
        message.src, message.dst, client, upload, message.nbytes, now,
        rtt=2 * float(nodes.latency[client]), jitter=float(nodes.jitter[client]),
        loss_up=float(nodes.loss_up[client]), loss_down=float(nodes.loss_down[client]),
    )  # fmt: skip


def _whole(message: Message, halves: Sequence[Transfer], now: float) -> Transfer:
    if not halves:
        edge = message.src if message.dst == SERVER else message.dst
        return Transfer(message.src, message.dst, edge, message.dst == SERVER, message.nbytes, now, rtt=0.0)
    if len(halves) == 1:
        return halves[0]
    whole, other = halves  # seen from the sender
    whole.rtt += other.rtt
    whole.jitter += other.jitter
    whole.loss_up = 1 - (1 - whole.loss_up) * (1 - other.loss_down)
    whole.loss_down = 1 - (1 - whole.loss_down) * (1 - other.loss_up)
    return whole
