"""Small scenarios as texts, and a fixture that reads such texts and returns their points."""

import pytest

from fedsim.core.errors import ScenarioError
from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file

SMALL = """\
name: small
data: {dataset: digits, partition: random}
model: {name: gcn, hidden: 8}
training: {optimiser: adam, lr: 5e-3}
clients: {count: 4, speed: 2 GFLOP/s}
network:
  latency: 50 ms
  uplink: lognormal(5 Mbit/s, 1.0)
  downlink: 20 Mbit/s
  effects: [{name: loss, rate: 1 %}]
protocol: {name: sync, rounds: 3, participation: 0.5}
algorithm: fedavg
"""

TRAFFIC = """\
name: traffic
clients: {count: 6, speed: 1 GFLOP/s}
network: {latency: 30 ms, uplink: "lognormal(5 Mbit/s, 1.0)", downlink: 20 Mbit/s}
protocol: {name: sync, rounds: 3, clients: 3}
algorithm: {name: traffic, down: 20 kB, up: 50 kB, operations: 1e8}
grid: {seed: [0, 1]}
"""


@pytest.fixture
def load(tmp_path):
    """Read a scenario from text, with flags, and check its points without torch's files."""

    def load(text, *flags):
        path = tmp_path / "small.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        scenario, document = yaml_file.load(path, flags)
        try:
            points = [*scenario.points()]
        except ScenarioError as error:
            raise document.error(error.problems) from None
        if wrong := check.points(points):
            raise document.error(wrong)
        return points

    return load
