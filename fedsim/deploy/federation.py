"""A federation on this machine: a SuperLink, and a SuperNode for each client, as processes that end with this block.

Flower's own files go to a folder of their own, so that nothing of the user's Flower is touched.  Not modelled: links;
messages cross the loopback.  `benchmarks/netns/deployed.py` shapes links in network namespaces.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from fedsim.core.errors import UserError

HOST = "127.0.0.1"
UP = 60.0  # seconds for the SuperLink to listen
SHOWN = 5  # lines of a log in a message
PATIENCE = 10.0  # seconds for a process to end by itself
NAME = "fedsim"  # of the connection in Flower's configuration
CONFIG = '[superlink]\ndefault = "{name}"\n\n[superlink.{name}]\naddress = "{address}"\ninsecure = true\n'


def command(name: str) -> str:
    """Return the path of one of Flower's commands.  Raises UserError if Flower is not installed."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise UserError("deploying needs Flower: pip install -c constraints.txt -e '.[flower]'")
    return str(path)


def environment(home: Path) -> dict[str, str]:
    """Return the variables for Flower's processes, with a home of their own.

    Flower starts commands of its own by name: they must be found where this Python's are, activated or not.
    """
    home.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Places:
    """Where the processes run: the server's address for its clients, and a context in which each is started.

    `inside` are those of the server and then of the clients; without any, all are on this host.
    """

    address: str = HOST
    inside: Sequence[Callable[[], AbstractContextManager[object]]] = ()

    def of(self, number: int) -> AbstractContextManager[object]:
        """Return the context of the server (0) or of a client (from 1)."""
        return self.inside[number]() if self.inside else nullcontext()


@contextmanager
def local(packages: Sequence[Path], work: Path, logs: Path, places: Places = Places()) -> Iterator[str]:
    """Start a SuperLink and a SuperNode for each package; yield the name of the connection.

    Flower's homes go to `work`, logs to `logs`.  Raises UserError if the SuperLink does not come up.
    """
    port, *ports = _free(1 + len(packages))
    with ExitStack() as stack:
        link = [command("flower-superlink"), "--insecure", "--disable-runtime-dependency-installation"]
        log = logs / "superlink.log"
        link += ["--host", places.address, "--port", str(port)]
        with places.of(0):
            process = stack.enter_context(_running(link, environment(work / "home"), log))
            _await(places.address, port, process, log)
        for number, (package, own) in enumerate(zip(packages, ports, strict=True)):
            node = [
                command("flower-supernode"),
                "--insecure",
                "--superlink",
                f"{places.address}:{port}",
                "--port",
                str(own),
            ]
            node += ["--node-config", f'package="{package}"']
            home = environment(work / f"home-{number}")
            with places.of(1 + number):
                stack.enter_context(_running(node, home, logs / f"supernode-{number}.log"))
        config = CONFIG.format(name=NAME, address=f"{places.address}:{port}")
        (work / "home" / "config.toml").write_text(config, "utf-8")
        yield NAME


@contextmanager
def _running(words: Sequence[str], variables: Mapping[str, str], log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a command, and end it when the block ends; Flower's commands end the processes that they have started."""
    with log.open("wb") as where:
        process = subprocess.Popen(words, env=variables, stdout=where, stderr=where)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await(address: str, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + UP
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.1)
    raise UserError("\n".join(["Flower's SuperLink does not come up; the last lines of its log:", *last_lines(log)]))


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a log, for a message."""
    return log.read_text("utf-8", "replace").strip().splitlines()[-SHOWN:]


def _free(count: int) -> list[int]:
    """Return that many free ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]
