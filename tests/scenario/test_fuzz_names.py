"""Names that point elsewhere, or that a system does not take: nothing is written outside the folder of results."""

import json
import sys

import bounded_runs
import homes
import pytest

from fedsim.scenario.text import yaml_text

pytestmark = pytest.mark.long

TRAFFIC = {
    "name": "names", "clients": {"count": 2, "speed": "1 GFLOP/s"},
    "network": {"latency": "1 ms", "uplink": "1 Mbit/s", "downlink": "1 Mbit/s"},
    "protocol": {"name": "sync", "rounds": 1, "clients": 1},
    "algorithm": {"name": "traffic", "down": "1 kB", "up": "1 kB"},
}  # fmt: skip
NAMES = [
    "../../x", "..", ".", "/etc/fedsim", "a/b", "a\\..\\b", "~/x", "$HOME", "x" * 300, "a\0b", "CON", "nul.txt", "a:b",
    "-rf", "a b", "a\nb", "\u202e..", "é", "*", "...", "", " ", "a.", "<b>", "%2e%2e%2f", "report", "summary.csv",
    "\ud800", "x" * 300 + "/y", "/" + "x" * 300, "\x1b[2J", "/", "../", "x" * 2000,
]  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder that commands are run in, which is the user's own; above it is what must stay as it is."""
    home = tmp_path / "above" / "home"
    home.mkdir(parents=True)
    homes.move(monkeypatch, home)
    return home


def write(home, data):
    (home / "names.yaml").write_bytes(yaml_text.text_of(data).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_name_stays_in_the_folder_of_runs(name, home):
    write(home, TRAFFIC | {"name": name})
    ended = bounded_runs.run(["names.yaml", "--jobs", "1", "--no-report"], home, home / "runs", name)
    folders = [path.name for path in (home / "runs").glob("*")]
    assert (ended.code, folders) in [(0, [name]), (2, [])]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows takes fewer names, and which is not fedsim's to say")
@pytest.mark.parametrize("name", [name for name in NAMES if ".." not in name and name.strip(" /")])
def test_results_lie_where_they_are_asked_for_or_nowhere(name, home):
    write(home, TRAFFIC)
    out = home / "inner" / name.strip("/").replace("\0", "?").replace("\ud800", "?")  # which no command line has
    ended = bounded_runs.run(["names.yaml", "--jobs", "1", "--no-report", "--out", str(out)], home, out, name)
    assert ended.code == (2 if max(map(len, out.parts)) > 255 else 0)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_names_of_parts_and_files_lead_nowhere_else(name, home):
    places = [
        "algorithm", "network.topology", "clients.sampler", "clients.table", "data.dataset", "network.profile",
        "protocol.transfers", "grid.algorithm", "grid.clients.table", "device", "network.effects", "description",
    ]  # fmt: skip
    for place in places:
        write(home, TRAFFIC)
        words = ["names.yaml", "--jobs", "1", "--no-report", "--out", "out", "--set"]
        value = json.dumps([name] if place.startswith("grid") or place.endswith("effects") else name)
        bounded_runs.run([*words, f"{place}={value}"], home, home / "out", f"{place}={value}")
        for path in (home / "out").glob("points/*/error.log"):
            path.unlink()
