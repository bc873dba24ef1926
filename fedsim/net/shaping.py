"""Shaping: the numbers of a transfer, from those of the clients at its ends, its route, and the effects."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from fedsim.core.errors import UserError
from fedsim.core.record import SERVER
from fedsim.net.effect import Effect
from fedsim.net.message import Message
from fedsim.net.node import Nodes
from fedsim.net.topology import Route
from fedsim.net.transfer import Transfer


class Unopened:
    """A random stream that is created when it is first used: most streams are never drawn from."""

    __slots__ = ("_make", "_stream")

    def __init__(self, make: Callable[[], np.random.Generator]) -> None:
        """Create nothing yet."""
        self._make = make
        self._stream: np.random.Generator | None = None

    def __getattr__(self, name: str) -> Any:
        """Return this attribute of the stream."""
        if self._stream is None:
            self._stream = self._make()
        return getattr(self._stream, name)


def shaped(
    message: Message,
    route: Route,
    nodes: Nodes,
    effects: Sequence[Effect],
    now: float,
    draws: Callable[[], tuple[float, float]],
    rng: Callable[[], np.random.Generator],
) -> Transfer:
    """Return the transfer of a message that is sent now.

    Effects shape it once for each end that is a client: between two peers as two halves, whose delays add up
    and whose losses are independent.  Between an edge aggregator and the server there is nothing to shape.
    `draws` is called for two numbers in [0, 1) if packets can be lost, `rng` if an effect draws.
    """
    out, into = route.out, route.into
    if out is None and into is None:
        transfer = _between_servers(message, now)
    else:
        ends = [(client, up) for client, up in ((out, True), (into, False)) if client is not None]
        halves = [half(message.src, message.dst, message.nbytes, *end, nodes, now) for end in ends]
        transfer, other = halves[0], halves[1] if len(halves) > 1 else None
        if effects:
            stream = cast(np.random.Generator, Unopened(rng))
            for each in halves:
                for effect in effects:
                    effect.shape(each, stream)
                    losses = each.loss_up, each.loss_down
                    if min(each.propagation, each.jitter, *losses) < 0 or max(losses) >= 1:
                        name = type(effect).__name__
                        raise UserError(f"{name}.shape leaves a delay below 0 s or a loss outside of [0, 1): {each}")
        if other is not None:
            _join(transfer, other)
        if transfer.loss_up or transfer.loss_down:
            transfer.handshake_draw, transfer.loss_draw = draws()
    transfer.propagation += 2 * route.latency
    return transfer


def half(src: int, dst: int, nbytes: int, client: int, upload: bool, nodes: Nodes, now: float) -> Transfer:
    """Return the transfer of so many bytes with the numbers of one client, sent now."""
    return Transfer(
        src, dst, client, upload, nbytes, now, 2 * nodes.latency.item(client),
        nodes.jitter.item(client), nodes.loss_up.item(client), nodes.loss_down.item(client),
    )  # fmt: skip


def _between_servers(message: Message, now: float) -> Transfer:
    edge = message.src if message.dst == SERVER else message.dst
    return Transfer(message.src, message.dst, edge, message.dst == SERVER, message.nbytes, now, propagation=0.0)


def _join(transfer: Transfer, receiver: Transfer) -> None:
    """Add the receiver's half to the sender's, whose directions the transfer has."""
    transfer.propagation += receiver.propagation
    transfer.jitter += receiver.jitter
    transfer.loss_up = 1 - (1 - transfer.loss_up) * (1 - receiver.loss_down)
    transfer.loss_down = 1 - (1 - transfer.loss_down) * (1 - receiver.loss_up)
