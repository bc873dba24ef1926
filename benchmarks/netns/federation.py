"""A federation over real sockets: the messages and the waiting of a run of `traffic`, and nothing else.

Both ends of each connection are in this process, so that a client knows at once that it is asked.  What a message is:
its bytes and, if a client requests it, one byte before.  A connection is made, used and kept as `network.connection`
says.  A model "arrives" when its receiver has read the last byte.  Computing is sleeping.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import spaces
from spaces import Host

PORT, CHUNK = 7000, 2**20
Ends = tuple[socket.socket, socket.socket]  # the server's, the client's


@dataclass(frozen=True)
class Plan:
    """What is asked of whom: `seconds` of computing by client, `cohorts` by round, and the protocol's options."""

    down: int
    up: int
    seconds: list[float]
    control: str
    kind: str
    request: str
    protocol: str
    rounds: int
    cohorts: list[list[int]]
    want: int
    wait: float
    buffer: int


@dataclass
class Federation:
    """A server and its clients, all idle."""

    server: Host
    clients: list[Host]
    plan: Plan
    rows: list[dict[str, Any]] = field(default_factory=list)
    _kept: dict[int, Ends] = field(default_factory=dict)
    _accepted: dict[str, "asyncio.Future[socket.socket]"] = field(default_factory=dict)
    _begun: float = 0.0

    async def run(self) -> list[float]:
        """Return the seconds at which each update is done."""
        loop = asyncio.get_running_loop()
        listener = spaces.opened(self.server, self.plan.control)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.server.address, PORT))
        listener.listen(256)
        accepting = loop.create_task(self._accept(listener))
        self._begun = time.monotonic()
        updates = await PROTOCOLS[self.plan.protocol](self)
        accepting.cancel()
        return updates

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._begun

    async def exchange(self, client: int) -> int:
        """Bring a model to a client, let it compute, bring its reply back, and return the client."""
        ends = await self._moved(client, False, None)
        await asyncio.sleep(self.plan.seconds[client])
        ends = await self._moved(client, True, ends)
        if ends is not None and self.plan.kind == "exchange":
            _close(ends)
        return client

    async def _moved(self, client: int, upload: bool, ends: Ends | None) -> Ends | None:
        """Bring one message over and return the connection, None if it was closed.

        A client sends at once on a connection that it opens, with the last packet of the handshake.
        """
        loop, plan, sent = asyncio.get_running_loop(), self.plan, self.now()
        kept = self._kept.get(client) if plan.kind == "kept" else ends
        asked = not upload and (kept is None or plan.request == "pull")
        accepted = loop.create_future()
        if kept is None:
            accepted = self._accepted[self.clients[client].address] = loop.create_future()
            own = spaces.opened(self.clients[client], plan.control)
            await loop.sock_connect(own, (self.server.address, PORT))
        else:
            accepted.set_result(kept[0])
            own = kept[1]
        if upload:
            sending = loop.create_task(loop.sock_sendall(own, bytes(plan.up)))
            server = await accepted
            await asyncio.gather(sending, _read(server, plan.up))
        else:
            if asked:
                await loop.sock_sendall(own, b"?")
            server = await accepted
            if asked:
                await loop.sock_recv(server, 1)
            await asyncio.gather(loop.sock_sendall(server, bytes(plan.down)), _read(own, plan.down))
        self.rows.append({"client": client, "upload": upload, "sent": sent, "arrived": self.now()})
        if plan.kind == "fresh":
            _close((server, own))
            return None
        if plan.kind == "kept":
            self._kept[client] = server, own
        return server, own

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            server, (address, _) = await loop.sock_accept(listener)
            server.setblocking(False)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted.pop(address).set_result(server)


async def _read(end: socket.socket, nbytes: int) -> None:
    loop, room = asyncio.get_running_loop(), bytearray(CHUNK)
    while nbytes:
        got = await loop.sock_recv_into(end, memoryview(room)[: min(nbytes, CHUNK)])
        if not got:
            raise ConnectionError("a connection ended within a message")
        nbytes -= got


def _close(ends: Ends) -> None:
    for end in ends:
        end.close()


async def _sync(federation: Federation) -> list[float]:
    updates = []
    for number in range(federation.plan.rounds):
        cohort = federation.plan.cohorts[number % len(federation.plan.cohorts)]
        await asyncio.gather(*(federation.exchange(client) for client in cohort))
        updates.append(federation.now())
    return updates


async def _deadline(federation: Federation) -> list[float]:
    """A client that is late is asked again once it has finished."""
    plan, updates, busy = federation.plan, [], dict[int, asyncio.Task[int]]()
    for _ in range(plan.rounds):
        busy = {client: task for client, task in busy.items() if not task.done()}
        asked = {c: asyncio.create_task(federation.exchange(c)) for c in range(len(plan.seconds)) if c not in busy}
        left, end = set(asked.values()), federation.now() + plan.wait
        while left and len(asked) - len(left) < min(plan.want, len(asked)) and federation.now() < end:
            _, left = await asyncio.wait(left, timeout=end - federation.now(), return_when=asyncio.FIRST_COMPLETED)
        busy |= asked
        updates.append(federation.now())
    await _cancelled(busy.values())
    return updates


async def _buffered(federation: Federation) -> list[float]:
    updates, came = list[float](), 0
    busy = {asyncio.create_task(federation.exchange(client)) for client in range(len(federation.plan.seconds))}
    while len(updates) < federation.plan.rounds:
        done, busy = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            came += 1
            if came % federation.plan.buffer == 0:
                updates.append(federation.now())
            busy.add(asyncio.create_task(federation.exchange(task.result())))
    await _cancelled(busy)
    return updates[: federation.plan.rounds]


async def _beside(federation: Federation) -> list[float]:
    """Messages of `up` bytes, sent at `seconds` one after another while client 0 uploads `down` bytes."""
    plan, updates, loop = federation.plan, list[float](), asyncio.get_running_loop()
    bulk = loop.create_task(replace(federation, plan=replace(plan, up=plan.down), rows=[])._moved(0, True, None))
    for at in plan.seconds:
        await asyncio.sleep(at - federation.now())
        await federation._moved(plan.cohorts[0][0], True, None)
        updates.append(federation.now())
    await _cancelled([bulk])
    return updates


async def _cancelled(tasks: Any) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


PROTOCOLS: dict[str, Callable[[Federation], Awaitable[list[float]]]] = {
    "sync": _sync, "deadline": _deadline, "buffered": _buffered, "beside": _beside,
}  # fmt: skip
