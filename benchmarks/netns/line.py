"""The line: a star of shaped links in user space, since not every kernel has a queueing discipline that delays.

    sender -> rate and queue of its own link -> delay -> rate and queue of the next link -> receiver

A packet read from one host's device is dropped by chance (the client's loss in that direction), waits for its turn in a
queue that drops what does not fit (drop-tail, in bytes), takes its length over the rate, and is delayed by the client's
latency; the other link of its way follows.  For a client the links are its up- and downlink, for the server its ingress
and egress.  Rates count IP packets, as the model's do; a bucket of tokens lets some pass at once.  What is due is
computed from the time at which it was due before, so that a late wake-up delays one packet and not all that follow.
"""

import contextlib
import gc
import heapq
import math
import os
import random
import select
import time
from collections.abc import Callable
from dataclasses import dataclass

LONGEST = 65536
LATE = 2e-3  # seconds; a packet that leaves later than this is counted


@dataclass
class Queue:
    """A link: its rate in bytes/s, the bytes that wait before it at most, and what its token bucket holds."""

    rate: float
    buffer: float
    burst: float = 0.0
    free: float = 0.0  # when the last packet in it has left
    dropped: int = 0

    def leaves(self, now: float, size: int) -> float | None:
        """Return when a packet that comes now has left, None if there is no room for it."""
        if self.rate == math.inf:
            return now
        begin = max(self.free, now - self.burst / self.rate)
        if (begin - now) * self.rate + size > self.buffer + 1500:  # the packet that is being sent waits no more
            self.dropped += 1
            return None
        self.free = begin + size / self.rate
        return max(now, self.free)


@dataclass(frozen=True)
class Access:
    """A client's links and what happens on them: delay in seconds one way, losses as shares of packets."""

    up: Queue
    down: Queue
    delay: float
    loss_up: float
    loss_down: float


@dataclass
class Star:
    """Clients around a server: `devices` are those of the server and then of the clients."""

    devices: list[int]
    clients: list[Access]
    ingress: Queue
    egress: Queue
    chance: Callable[[], float]
    packets: int = 0
    late: int = 0
    lost: int = 0

    def run(self, stop: int) -> None:
        """Carry packets until the file `stop` can be read."""
        waiting: list[tuple[float, int, int, bool, bytes]] = []  # due, number, client, half-way, packet
        sources = {device: number - 1 for number, device in enumerate(self.devices)}
        files, clock = [stop, *self.devices], time.monotonic
        while True:
            now = clock()
            while waiting and waiting[0][0] <= now:
                due, _, client, half, packet = heapq.heappop(waiting)
                if half:
                    self._second(waiting, due, client, packet)
                else:
                    self._hand_over(client, packet, clock() - due)
            wait = max(0.0, waiting[0][0] - clock()) if waiting else 1.0
            for file in select.select(files, [], [], wait)[0]:
                if file == stop:
                    return
                self._read(waiting, file, sources[file], clock())

    def _read(self, waiting: list[tuple[float, int, int, bool, bytes]], file: int, source: int, now: float) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                packet = os.read(file, LONGEST)
                if packet[0] >> 4 != 4:
                    continue  # the kernel's own IPv6 housekeeping
                upload = source >= 0
                client = source if upload else packet[19] + 256 * packet[18] - 2
                if not 0 <= client < len(self.clients):
                    continue
                access = self.clients[client]
                if self.chance() < (access.loss_up if upload else access.loss_down):
                    self.lost += 1
                    continue
                left = (access.up if upload else self.egress).leaves(now, len(packet))
                if left is not None:
                    self.packets += 1
                    self._wait(waiting, left + access.delay, -1 - client if upload else client, True, packet)

    def _second(self, waiting: list[tuple[float, int, int, bool, bytes]], due: float, way: int, packet: bytes) -> None:
        left = (self.ingress if way < 0 else self.clients[way].down).leaves(due, len(packet))
        if left is not None:
            self._wait(waiting, left, way, False, packet)

    def _wait(
        self, waiting: list[tuple[float, int, int, bool, bytes]], due: float, way: int, half: bool, packet: bytes
    ) -> None:
        heapq.heappush(waiting, (due, self.packets, way, half, packet))

    def _hand_over(self, way: int, packet: bytes, late: float) -> None:
        self.late += late > LATE
        os.write(self.devices[0 if way < 0 else way + 1], packet)


def serve(star: Star, stop: int) -> None:
    """Carry packets with as few pauses as this machine allows."""
    gc.disable()
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    star.run(stop)


def chance(seed: int) -> Callable[[], float]:
    """Return a function that draws numbers in [0, 1)."""
    return random.Random(seed).random
