"""A federation on this machine: Flower's processes, the app that they run, and a run that is submitted to them.

There is a SuperLink, and a SuperNode for each client, as processes that end with a block.  The app is a folder that
names the two halves in `flower.py`, as `flwr run` wants it.  The server's process runs on the SuperLink's machine and
writes its tables into the folder that it is given, so the command that submits a run belongs there, too.

Flower's own files go to a folder of their own, so that nothing of the user's Flower is touched.  Not modelled: links;
messages cross the loopback.  `benchmarks/netns/deployed.py` shapes links in network namespaces.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError, installing
from fedsim.core.progress import BEGUN, ReportProgress
from fedsim.deploy import channel, package
from fedsim.deploy.run import packages
from fedsim.point.build.parts import Parts
from fedsim.scenario.schema import Point
from fedsim.scenario.text.yaml_file import dump

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
        raise UserError(f"deploying needs Flower: {installing('flower')}")
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


FlowerProcess = subprocess.Popen[bytes]


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
        for number, (package, node_port) in enumerate(zip(packages, ports, strict=True)):
            node = [command("flower-supernode"), "--insecure", "--superlink", f"{places.address}:{port}"]
            node += ["--port", str(node_port), "--node-config", f'package="{package}"']
            home = environment(work / f"home-{number}")
            with places.of(1 + number):
                stack.enter_context(_running(node, home, logs / f"supernode-{number}.log"))
        config = CONFIG.format(name=NAME, address=f"{places.address}:{port}")
        (work / "home" / "config.toml").write_text(config, "utf-8")
        yield NAME


@contextmanager
def _running(words: Sequence[str], variables: Mapping[str, str] | None, log: Path) -> Iterator[FlowerProcess]:
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


def _await(address: str, port: int, process: FlowerProcess, log: Path) -> None:
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
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


APP = {"flower_app.toml": "pyproject.toml", "flower_app.txt": "fedsim_deployed/app.py"}  # where each goes
LOOK = 0.5  # seconds between two looks at what has come of it


def submit(
    point: Point, folder: Path, data: Path, clients: int, progress: ReportProgress, *,
    connection: str, work: Path, logs: Path, beside: Sequence[Path], variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a point through a SuperLink that Flower's configuration names, and return its row.

    `work` is a folder for the app, `logs` one for the command's log, which is kept, `beside` are those of the user's
    own modules, `variables` those of Flower's commands.
    Raises UserError for a mistake, `channel.Failed` for a failure of the server's process.
    """
    channel.clear(folder)
    (folder / channel.POINT).write_text(dump(point.scenario), encoding="utf-8", newline="")
    for name, place in APP.items():
        path = work / "app" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((files(__package__) / name).read_text("utf-8"), encoding="utf-8", newline="")
    given = {
        "folder": str(folder.resolve()), "data": str(data.resolve()), "clients": clients,
        "beside": json.dumps([str(each.resolve()) for each in beside]),
    }  # fmt: skip
    config = work / "run.toml"
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items()), "utf-8")
    words = [command("flwr"), "run", str(work / "app"), connection, "--run-config", str(config), "--stream"]
    try:
        with _running(words, variables, logs / "run.log") as process:
            return _awaited(process, folder, logs / "run.log", progress)
    finally:
        channel.clear(folder)


def _awaited(process: FlowerProcess, folder: Path, log: Path, progress: ReportProgress) -> dict[str, Any]:
    shown, last = 0, BEGUN
    while True:
        ended = process.poll() is not None
        for line in channel.news(folder, shown):
            progress(replace(last, doing=line))
            shown += 1
        if (row := channel.outcome(folder)) is not None:
            return row
        if ended:
            what = f"Flower ended the run before it was done; its log is {log}, and ends with:"
            raise UserError("\n".join([what, *last_lines(log)]))
        if (now := channel.progress(folder)) is not None:
            last = now
            progress(now)
        time.sleep(LOOK)


def deployed(
    point: Point, folder: Path, data: Path, progress: ReportProgress, *,
    superlink: str | None = None, beside: Sequence[Path] = (),
) -> dict[str, Any]:  # fmt: skip
    """Deploy a point, write its tables into the folder, and return its row.

    Without a SuperLink's name, one is started here, with a SuperNode for each client; its logs are in the point's
    folder as `flower/`.  Raises UserError for a mistake of the user.
    """
    logs, variables = folder.parent / "flower" / point.id, None
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="fedsim-deploy-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        work = Path(name)
        if superlink is None:
            contents = packages(point.scenario, data)
            places = [work / f"client-{content.client}" for content in contents]
            for content, place in zip(contents, places, strict=True):
                package.write(place, point.scenario, content)
            superlink, variables = stack.enter_context(local(places, work, logs)), environment(work / "home")
        return submit(
            point, folder, data, Parts(point.scenario).count, progress,
            connection=superlink, work=work, logs=logs, beside=beside, variables=variables,
        )  # fmt: skip
