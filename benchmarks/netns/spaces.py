"""Namespaces: hosts of their own on one machine, each with a TUN device whose other end is a file of this process.

A socket belongs to the namespace in which it was opened, so one process can hold all ends of all connections.  Nothing
has a name outside this process: when it ends, however it ends, the kernel removes namespaces, devices and routes.
It needs Linux and root.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
SET_DEVICE, PLAIN_PACKETS = 0x400454CA, 0x1001  # TUNSETIFF; IFF_TUN | IFF_NO_PI
OWN, TUN = Path("/proc/self/ns/net"), Path("/dev/net/tun")
SYSCTL = Path("/proc/sys/net/ipv4")
LARGEST = 64 * 2**20  # bytes of a socket's buffers: more than any path here holds, so that they never limit a flow


@dataclass(frozen=True)
class Host:
    """A namespace with an address, and the file from which what it sends is read and to which it receives."""

    address: str
    space: int
    device: int


def refusal() -> str | None:
    """Return why namespaces cannot be made here, None if they can."""
    if sys.platform != "linux":
        return "it needs Linux's network namespaces"
    if os.geteuid() != 0:
        return "it needs root, to make network namespaces"
    if not TUN.exists():
        return f"this kernel has no {TUN}"
    return None


def host(address: str, settings: dict[str, str]) -> Host:
    """Return a new host on the network 10.9.0.0/16 with these settings of TCP (their names below net.ipv4)."""
    here = os.open(OWN, os.O_RDONLY)
    try:
        _call("unshare", NEW_NETWORK)
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, SET_DEVICE, struct.pack("16sH22x", b"line", PLAIN_PACKETS))
        for words in (
            f"addr add {address}/16 dev line",
            "link set lo up",
            "link set line mtu 1500 txqueuelen 20000 up",
        ):
            subprocess.run(["ip", *words.split()], check=True)
        for name, value in settings.items():
            (SYSCTL / name).write_text(value)
        return Host(address, os.open(OWN, os.O_RDONLY), device)
    finally:
        _call("setns", here, NEW_NETWORK)
        os.close(here)


@contextlib.contextmanager
def inside(host: Host) -> Iterator[None]:
    """Have sockets that are opened meanwhile belong to this host."""
    here = os.open(OWN, os.O_RDONLY)
    _call("setns", host.space, NEW_NETWORK)
    try:
        yield
    finally:
        _call("setns", here, NEW_NETWORK)
        os.close(here)


def opened(host: Host, control: str) -> socket.socket:
    """Return a new TCP socket of this host that does not block; those that it accepts have its congestion control."""
    with inside(host):
        found = socket.socket()
    found.setblocking(False)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def settings(idle_restart: bool) -> dict[str, str]:
    """Return the settings of a host of the model: connections know nothing of earlier ones."""
    sizes = f"4096 {2**20} {LARGEST}"
    return {
        "tcp_slow_start_after_idle": str(int(idle_restart)), "tcp_no_metrics_save": "1",
        "tcp_rmem": sizes, "tcp_wmem": sizes,
    }  # fmt: skip


def _call(name: str, *numbers: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*numbers):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
