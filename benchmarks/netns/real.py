"""One real run: read its plan from the standard input as JSON, carry it out, write what was measured as JSON.

It has a process of its own, so that everything it made is gone when it ends; `carried_out` starts it.
"""

import asyncio
import json
import math
import os
import subprocess
import sys
from typing import Any

import line
import spaces
from federation import Federation, Plan
from line import Access, Queue, Star

BITS = 8


def carried_out(plan: dict[str, Any], tries: int, busy: float) -> tuple[dict[str, Any], float]:
    """Carry out a plan in a process of its own, and return what was measured and the share of late packets.

    A run is repeated, with the next seed, where more than the share `busy` of its packets were late; the last of
    `tries` counts whatever it is.  Raises RuntimeError with its last line where a run fails.
    """
    for attempt in range(tries):
        given = json.dumps({**plan, "seed": plan["seed"] + attempt})
        ended = subprocess.run([sys.executable, __file__], input=given, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(ended.stderr.strip().splitlines()[-1])
        seen = json.loads(ended.stdout)
        late = seen["late"] / max(1, seen["packets"])
        if late <= busy:
            break
    return seen, late


def run(given: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of each update, the messages, and what the line saw."""
    settings = spaces.settings(given["idle_restart"])
    clients, server = given["clients"], given["server"]
    hosts = [spaces.host(f"10.9.{(n + 1) >> 8}.{(n + 1) & 255}", settings) for n in range(len(clients) + 1)]
    star = Star(
        [host.device for host in hosts],
        [
            Access(
                _queue(each["up"], each["up_buffer"]), _queue(each["down"], each["down_buffer"]),
                each["latency"], each["loss_up"], each["loss_down"],
            )
            for each in clients
        ],
        _queue(server["ingress"], server["ingress_buffer"], server.get("ingress_burst", 0.0)),
        _queue(server["egress"], server["egress_buffer"]),
        line.chance(given["seed"]),
    )  # fmt: skip
    hold, release = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if not child:  # the line: a process of its own, which ends with this one
        os.close(release)
        line.serve(star, hold)
        os.write(tell, json.dumps(_seen(star)).encode())
        os._exit(0)
    os.close(hold)
    federation = Federation(hosts[0], hosts[1:], Plan(**given["plan"]))
    updates = asyncio.run(asyncio.wait_for(federation.run(), given["longest"]))
    os.close(release)
    seen = json.loads(os.read(told, 65536))
    os.waitpid(child, 0)
    return {"updates": updates, "messages": federation.rows, **seen}


def _queue(rate: float | None, buffer: float | None, burst: float = 0.0) -> Queue:
    if rate is None or buffer is None:
        return Queue(math.inf, math.inf)
    return Queue(rate / BITS, buffer, burst)


def _seen(star: Star) -> dict[str, Any]:
    queues = [star.ingress, star.egress, *(each.up for each in star.clients), *(each.down for each in star.clients)]
    return {
        "packets": star.packets, "late": star.late, "lost": star.lost,
        "overflown": sum(queue.dropped for queue in queues),
    }  # fmt: skip


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
