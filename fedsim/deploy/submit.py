"""Submit a run to a SuperLink, and wait for what comes of it.

The server's process runs on the SuperLink's machine and writes its tables into the folder that it is given, so this
command belongs there, too.
"""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.deploy import app, channel
from fedsim.deploy.federation import command, last_lines
from fedsim.scenario.schema import Point
from fedsim.scenario.yaml_file import dump

LOOK = 0.5  # seconds between two looks at what has come of it


def submit(
    point: Point, folder: Path, data: Path, clients: int, progress: Callable[[Progress], None], *,
    connection: str, work: Path, logs: Path, beside: Sequence[Path], variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a point through a SuperLink that Flower's configuration names, and return its row.

    `work` is a folder for the app, `logs` one for the command's log, which is kept, `beside` are those of the user's
    own modules, `variables` those of Flower's commands.
    Raises UserError for a mistake, `channel.Failed` for a failure of the server's process.
    """
    channel.clear(folder)
    (folder / channel.POINT).write_text(dump(point.scenario), encoding="utf-8", newline="")
    app.write(work / "app")
    given = {
        "folder": str(folder.resolve()), "data": str(data.resolve()), "clients": clients,
        "beside": json.dumps([str(one.resolve()) for one in beside]),
    }  # fmt: skip
    config = work / "run.toml"
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items()), "utf-8")
    words = [command("flwr"), "run", str(work / "app"), connection, "--run-config", str(config), "--stream"]
    with (logs / "run.log").open("wb") as log:
        process = subprocess.Popen(words, env=variables, stdout=log, stderr=log)
        try:
            return _awaited(process, folder, logs / "run.log", progress)
        finally:
            process.terminate()
            process.wait()
            channel.clear(folder)


def _awaited(
    process: "subprocess.Popen[bytes]", folder: Path, log: Path, progress: Callable[[Progress], None]
) -> dict[str, Any]:
    told, last = 0, Progress(0.0, 0.0, None, 0)
    while True:
        ended = process.poll() is not None
        for line in channel.news(folder, told):
            progress(replace(last, doing=line))
            told += 1
        if (row := channel.outcome(folder)) is not None:
            return row
        if ended:
            what = f"Flower ended the run before it was done; its log is {log}, and ends with:"
            raise UserError("\n".join([what, *last_lines(log)]))
        if (now := channel.progress(folder)) is not None:
            last = now
            progress(now)
        time.sleep(LOOK)
