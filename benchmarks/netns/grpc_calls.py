"""Messages in real gRPC calls over shaped links, and through plain sockets, against the simulation.

    sudo python benchmarks/netns/grpc_calls.py --python VENV/bin/python       # needs Linux, root, grpcio and protobuf

VENV may be an environment of its own with `grpcio` and `protobuf`; fedsim itself needs neither.  A server and a client,
each a process in a namespace, whose packets cross the line in user space (`line.py`); a message is a protobuf with one
field of bytes, an upload a unary call with a small reply, a download the reply.  Cases: `fresh`, a channel for each
message; `kept`, on one that has carried one byte; `again`, right after that; `fixed` and `fixed again`, the same with
receivers without the estimator (`grpc.http2.bdp_probe=0`), whose window has 64 KiB; and `stream`, such a channel that
carries the message in pieces of 32 KiB.  Bytes are those of the client's device, in the message's direction.  Buffers
hold a second, so that nothing overflows.  The first two settings are open: constants were fitted to them.
"""

import argparse
import json
import math
import multiprocessing
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import line
import spaces

SETTINGS = [(10.0, 20.0), (50.0, 100.0), (100.0, 200.0)]  # Mbit/s both ways, ms there and back
OPEN, PORT, PLAIN_PORT, PIECE, SIXTY_FOUR = 2, 7000, 7001, 32768, 65535
SIZES = [100_000, 200_000, 1_000_000, 5_000_000]
CASES = {"plain": ["fresh", "kept", "again"], "grpc": ["fresh", "kept", "again"], "fixed": ["kept", "again"],
         "stream": ["again"]}  # fmt: skip
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
OWN = [("grpc.use_local_subchannel_pool", 1)]  # a new channel has a connection of its own
BUSY = 0.05  # share of packets that may be late


def server(address: str, fixed: bool) -> None:
    """Serve calls and plain sockets until killed; the reply to an upload says when it had been read."""
    import grpc
    from google.protobuf.wrappers_pb2 import BytesValue

    class Methods(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return {
                "/calls/up": grpc.unary_unary_rpc_method_handler(
                    lambda request, _: _stamp(), BytesValue.FromString, None
                ),
                "/calls/down": grpc.unary_unary_rpc_method_handler(
                    lambda request, _: BytesValue(value=bytes(struct.unpack("q", request)[0])),
                    None,
                    BytesValue.SerializeToString,
                ),
                "/calls/stream": grpc.stream_unary_rpc_method_handler(
                    lambda pieces, _: (sum(len(piece) for piece in pieces), _stamp())[1]
                ),
            }[details.method]

    made = grpc.server(futures.ThreadPoolExecutor(4), options=_options(fixed))
    made.add_generic_rpc_handlers((Methods(),))
    made.add_insecure_port(f"{address}:{PORT}")
    made.start()
    listener = socket.create_server((address, PLAIN_PORT))
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        _serve(connection)


def client(address: str, given: dict[str, Any]) -> None:
    """Carry messages and print a row for each: case, direction, bytes, seconds, wire bytes."""
    for kind, upload, nbytes in given["messages"]:
        send = partial(PLAIN[upload], address) if kind == "plain" else partial(_called, address, kind, upload)
        for case, seconds, wire in send(nbytes, CASES[kind]):
            print(json.dumps([f"{kind} {case}", upload, nbytes, seconds, wire]), flush=True)
        time.sleep(0.3)


def _called(address: str, kind: str, upload: bool, nbytes: int, cases: list[str]) -> Iterator[tuple[str, float, int]]:
    import grpc
    from google.protobuf.wrappers_pb2 import BytesValue

    def call(size: int) -> float:
        begin = time.monotonic()
        if kind == "stream":
            pieces = iter([bytes(PIECE)] * (size // PIECE) + [bytes(size % PIECE)])
            return float(struct.unpack("d", channel.stream_unary("/calls/stream")(pieces))[0]) - begin
        if upload:
            method = channel.unary_unary("/calls/up", BytesValue.SerializeToString, None)
            return float(struct.unpack("d", method(BytesValue(value=bytes(size))))[0]) - begin
        channel.unary_unary("/calls/down", None, BytesValue.FromString)(struct.pack("q", size))
        return time.monotonic() - begin

    for sizes, seen in _turns(cases, nbytes):
        channel = grpc.insecure_channel(f"{address}:{PORT}", options=_options(kind != "grpc") + OWN)
        yield from _measured(call, sizes, seen, upload)
        channel.close()


def _turns(cases: list[str], nbytes: int) -> Iterator[tuple[list[int], list[str]]]:
    """Yield the messages of each channel, and what those are called that count."""
    if "fresh" in cases:
        yield [nbytes], ["fresh"]
    yield [1, nbytes, nbytes], ["", "kept" if "kept" in cases else "", "again"]


def _measured(call: Any, sizes: list[int], seen: list[str], upload: bool) -> Iterator[tuple[str, float, int]]:
    for size, case in zip(sizes, seen, strict=True):
        before = _moved()[upload]
        seconds = call(size)
        if case:
            yield case, seconds, _moved()[upload] - before


def _plain(upload: bool, address: str, nbytes: int, cases: list[str]) -> Iterator[tuple[str, float, int]]:
    for sizes, seen in _turns(cases, nbytes):
        kept: list[socket.socket] = []

        def call(size: int, kept: list[socket.socket] = kept) -> float:
            begin = time.monotonic()
            if not kept:
                kept.append(socket.create_connection((address, PLAIN_PORT)))
                kept[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if upload:
                kept[0].sendall(struct.pack("<?q", upload, size) + bytes(size))
                return float(struct.unpack("d", _read(kept[0], 8))[0]) - begin
            kept[0].sendall(struct.pack("<?q", upload, size))
            _read(kept[0], size)
            return time.monotonic() - begin

        yield from _measured(call, sizes, seen, upload)
        kept[0].close()


PLAIN = {True: partial(_plain, True), False: partial(_plain, False)}


def _serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while head := connection.recv(9, socket.MSG_WAITALL):
            upload, size = struct.unpack("<?q", head)
            if upload:
                _read(connection, size)
            connection.sendall(_stamp() if upload else bytes(size))


def _read(connection: socket.socket, size: int) -> bytes:
    room, view = bytearray(size), None
    view = memoryview(room)
    while len(view):
        got = connection.recv_into(view)
        if not got:
            raise ConnectionError("a connection ended within a message")
        view = view[got:]
    return bytes(room[:8])


def _stamp() -> bytes:
    return struct.pack("d", time.monotonic())


def _options(fixed: bool) -> list[tuple[str, int]]:
    return [*UNLIMITED, *([("grpc.http2.bdp_probe", 0)] if fixed else [])]


def _moved() -> tuple[int, int]:
    """Return the bytes that this namespace has received and sent over its line, IP headers included."""
    text = Path("/proc/self/net/dev").read_text(encoding="utf-8")
    numbers = next(row for row in text.splitlines() if row.strip().startswith("line:")).split(":")[1].split()
    return int(numbers[0]), int(numbers[8])


@contextmanager
def shaped(rate: float, trip: float) -> Iterator[tuple[list[spaces.Host], Any]]:
    """Make the hosts of a server and a client, of Cubic, and carry their packets meanwhile; and what the line saw."""
    hosts = [spaces.host(f"10.9.0.{number + 1}", spaces.settings(True)) for number in range(2)]
    for host in hosts:
        with spaces.inside(host):
            route = f"route replace 10.9.0.0/16 dev line src {host.address} congctl cubic"
            subprocess.run(["ip", *route.split()], check=True)
    links = [line.Queue(rate * 1e6 / 8, rate * 1e6 / 8) for _ in range(2)]
    free = [line.Queue(math.inf, math.inf) for _ in range(2)]
    star = line.Star(
        [host.device for host in hosts], [line.Access(*links, trip / 2000, 0.0, 0.0)], *free, line.chance(0)
    )
    stop, end = os.pipe()
    there, here = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_carry, args=(star, stop, there))
    process.start()
    try:
        yield hosts, here
    finally:
        os.write(end, b"x")
        process.join(10)
        process.kill()
        for host in hosts:
            os.close(host.device)
            os.close(host.space)


def _carry(star: line.Star, stop: int, there: Any) -> None:
    line.serve(star, stop)
    there.send(
        (star.late / max(1, star.packets), sum(link.dropped for link in (star.clients[0].up, star.clients[0].down)))
    )


def carried_out(python: str, rate: float, trip: float, fixed: bool, messages: list[Any]) -> tuple[list[Any], Any]:
    """Return the rows of real messages, and the share of packets that were late and the number dropped."""
    command = [python, str(Path(__file__)), "--end"]
    with shaped(rate, trip) as (hosts, seen):
        with spaces.inside(hosts[0]):
            serving = subprocess.Popen([*command, json.dumps([hosts[0].address, fixed])], stdout=subprocess.PIPE)
        try:
            if serving.stdout is None or not serving.stdout.readline():
                raise RuntimeError("the server has not started: has this Python grpcio and protobuf?")
            with spaces.inside(hosts[1]):
                given = json.dumps([hosts[0].address, {"messages": messages}])
                ended = subprocess.run([*command, given], stdout=subprocess.PIPE, text=True, check=True, timeout=600)
        finally:
            serving.kill()
            serving.wait()
    return [json.loads(row) for row in ended.stdout.splitlines()], seen.recv()


def simulated(rate: float, trip: float, case: str, upload: bool, nbytes: int) -> tuple[float, float]:
    """Return the seconds and wire bytes of the message in simulation."""
    import simpy

    from fedsim.core import seeds
    from fedsim.core.record import SERVER, TransferRow
    from fedsim.net.channels.connection import ConnectionPolicy
    from fedsim.net.message import Message
    from fedsim.net.network import SimulatedNetwork
    from fedsim.net.node import Nodes
    from fedsim.net.transports.grpc import Grpc
    from fedsim.net.transports.tcp import Tcp

    transports = {
        "plain": Tcp(), "grpc": Grpc(), "fixed": Grpc(window=SIXTY_FOUR),
        "stream": Grpc(window=SIXTY_FOUR, renewed="bytes"),
    }  # fmt: skip
    kind, _, when = case.partition(" ")
    env, rows = simpy.Environment(), list[TransferRow]()
    buffers = {name: [rate * 1e6 / 8] for name in ("up_buffer", "down_buffer")}
    nodes = Nodes([trip / 2000], [rate * 1e6], [rate * 1e6], **buffers)
    network = SimulatedNetwork(
        env, nodes, rng=partial(seeds.generator, 0), record=rows.append, connections=ConnectionPolicy("kept"),
        transport=transports[kind],
    )  # fmt: skip
    ends = (0, SERVER) if upload else (SERVER, 0)

    def sending() -> Any:
        for size in {"fresh": [nbytes], "kept": [1, nbytes], "again": [1, nbytes, nbytes]}[when]:
            yield network.send(Message.sized(*ends, "message", size))
            yield env.timeout(trip / 2000 if upload else 0.0)  # the reply to an upload

    env.process(sending())
    env.run()
    return rows[-1].arrived - rows[-1].sent, float(rows[-1].wire_bytes)


def measure(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each real message."""
    rows = []
    for rate, trip in SETTINGS:
        for number in range(given.repeat):
            for fixed in (False, True):
                kinds = ["fixed", "stream"] if fixed else ["plain", "grpc"]
                messages = [
                    (kind, upload, nbytes)
                    for kind in kinds
                    for upload in (True, False)
                    for nbytes in SIZES
                    if upload or kind != "stream"
                ]
                found, (late, dropped) = carried_out(given.python, rate, trip, fixed, messages)
                print(f"{rate:g} Mbit/s, {trip:g} ms, run {number}: {late:.1%} late, {dropped} dropped", flush=True)
                names = ("case", "upload", "nbytes", "seconds", "wire")
                link = {"rate": rate, "trip": trip, "run": number, "late": late}
                rows += [{**link, **dict(zip(names, row, strict=True))} for row in found]
    return rows


def compared(rows: Any) -> Any:
    """Return a row for each message: median and shortest real seconds, the simulated ones, and errors in percent."""
    keys = ["rate", "trip", "case", "upload", "nbytes"]
    own = rows[rows["late"] <= BUSY].groupby(keys, sort=False)
    named = {"median": ("seconds", "median"), "least": ("seconds", "min"), "runs": ("seconds", "size")}
    table = own.agg(**named, wire=("wire", "median")).reset_index()
    found = [simulated(*row) for row in table[keys].itertuples(index=False)]
    table["simulated"] = [seconds for seconds, _ in found]
    table["error"] = (table["simulated"] / table["median"] - 1) * 100
    table["of least"] = (table["simulated"] / table["least"] - 1) * 100
    table["wire error"] = ([wire for _, wire in found] / table["wire"] - 1) * 100
    settings = zip(table["rate"], table["trip"], strict=True)
    table["half"] = ["open" if setting in SETTINGS[:OPEN] else "held out" for setting in settings]
    return table


def report(rows: Any) -> None:
    """Print each message, and errors by case."""
    import pandas as pd

    table = compared(rows)
    with pd.option_context("display.width", 200, "display.max_rows", 500, "display.max_columns", 20):
        print(table.round(4).to_string(index=False), "\n")
        by = table.groupby(["case", "half"], sort=False)
        print(by[["error", "of least", "wire error"]].agg(["median", "min", "max"]).round(2).to_string())


def main() -> int:
    """Run the command; return 0 where namespaces cannot be made, after saying why."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python that has grpcio and protobuf")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("grpc_calls.csv"), help="the real messages (grpc_calls.csv)")
    parser.add_argument(
        "--measured", type=Path, nargs="+", help="compare with the real messages of these files, send none"
    )
    parser.add_argument("--end", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.end:
        address, rest = json.loads(given.end)
        client(address, rest) if isinstance(rest, dict) else server(address, rest)
        return 0
    import pandas as pd

    if given.measured:
        report(pd.concat([pd.read_csv(path) for path in given.measured]))
        return 0
    if reason := spaces.refusal():
        print(f"skipped: {reason}")
        return 0
    rows = pd.DataFrame(measure(given))
    rows.to_csv(given.out, index=False)
    report(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
