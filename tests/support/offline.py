"""Tests reach nobody: whoever asks for a connection to another machine, or for its address, is refused and noted.

Python tells its audit hooks of connections and look-ups of names; a hook that raises prevents them.  This machine is
allowed under all of its addresses, since Ray and browsers talk to themselves.  Not seen: other processes, and what
libraries do below Python.  CI therefore takes the network away as well, where it may.
"""

import ipaddress
import socket
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

attempts: list[str] = []  # what has been refused since it was last looked at


class Refused(OSError):  # noqa: N818 - it says what has happened
    """As where there is no network, so that the code under test goes on as it would there."""


@cache
def install() -> None:
    """Refuse connections to other machines from now on; a hook cannot be taken away again."""
    sys.addaudithook(_hook)


def _hook(event: str, args: Sequence[Any]) -> None:
    if event == "socket.connect" and args[0].type == socket.SOCK_STREAM and isinstance(args[1], tuple):
        _hold(f"connect to {args[1][0]}, port {args[1][1]}", args[1][0])
    elif event == "socket.getaddrinfo" and args[0]:
        _hold(f"look up {args[0]!r}", args[0])


def _hold(what: str, host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else str(host)
    if not is_here(name):
        attempts.append(what)
        raise Refused(f"tests are offline; this one tried to {what}")


def is_here(name: str) -> bool:
    """Return whether a name or an address is this machine's."""
    if name in ("localhost", "localhost.localdomain", _own_name()):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False  # a name, which only a name server knows
    return address.is_loopback or address.is_unspecified or _is_bound_here(address)


@cache
def _own_name() -> str:
    return socket.gethostname()


@cache
def _is_bound_here(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:  # an address of another machine cannot be bound
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
