"""Packages that were written for another run are refused, whatever differs, and nothing else is."""

import pytest
import small_points
from deploy_here import deploy, packed

from fedsim.core.errors import UserError
from fedsim.deploy import package
from fedsim.deploy.run import packages

PLAIN = small_points.PLAIN


def described(folder, **changes):
    point = small_points.point(**changes)
    return [package.described(point.scenario, own) for own in packages(point.scenario, folder)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seed": 4}, "seed is 4 there and 3 here"),
        ({"data": {**PLAIN["data"], "partition": "louvain"}}, "data.partition"),
        ({"training": {**PLAIN["training"], "local_steps": 7}}, "training.local_steps is 7 there and 2 here"),
        ({"algorithm": {"name": "fedprox", "mu": 0.1}}, "algorithm"),
        ({"network": {**PLAIN["network"], "codec": {"up": "int8"}}}, 'network.codec.up is "int8" there and null here'),
    ],
)  # fmt: skip
def test_a_package_of_another_run_is_refused_with_what_differs(changes, says, tmp_path):
    (tmp_path / "old").mkdir()
    places = packed(tmp_path / "old", small_points.point(**changes))
    with pytest.raises(UserError, match=r"client 0 has the package of another run .*write the packages anew") as caught:
        deploy(tmp_path / "run", small_points.point(), places)
    assert says in str(caught.value)


def test_what_clients_do_not_need_may_differ(tmp_path):
    (tmp_path / "old").mkdir()
    protocol = {"name": "sync", "rounds": 1, "participation": 1.0}
    network = {"latency": "9 s", "uplink": "1 kbit/s", "downlink": "1 kbit/s"}
    point = small_points.point(protocol=protocol, network=network, name="other", device="auto", threads=2)
    row, _ = deploy(tmp_path / "run", small_points.point(), packed(tmp_path / "old", point))
    assert row["updates"] == 5


def test_other_data_under_the_same_name_are_another_package(tmp_path, monkeypatch):
    point = small_points.point()
    (own, *_) = packages(point.scenario, tmp_path)
    package.write(tmp_path / "client", point.scenario, own)
    scenario, read = package.read(tmp_path / "client")
    assert package.described(scenario, read) == package.described(point.scenario, own)
    read.periods[0].graph["y"][0] += 1
    differ = package.differences(package.described(scenario, read), package.described(point.scenario, own))
    assert differ == "the client's data"


def test_a_package_that_is_replaced_during_the_run_ends_it(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "run").mkdir()
    places = packed(tmp_path / "run", small_points.point())
    other = packed(tmp_path / "new", small_points.point(seed=4))

    def swap(number):
        if number == 8:  # 5 ask who they are, 3 are in the first round
            for name in (package.SCENARIO, package.DATA):
                for old, new in zip(places, other, strict=True):
                    (new / name).replace(old / name)

    with pytest.raises(UserError, match=r"client \d: the package .* is not the one with which this run began"):
        deploy(tmp_path / "results", small_points.point(), places, before=swap)


def test_a_part_of_the_users_counts_by_its_code(tmp_path):
    point = small_points.point()
    code = package.code(point.scenario)
    assert {"the code of algorithms.fedavg", "the code of fedsim.learn.models.gcn"} <= code.keys()
    assert not any("clock" in name or "net" in name.split(".") for name in code)  # these run at the server
    changed = {**code, "the code of algorithms.fedavg": "another"}
    assert package.differences(changed, code) == "the code of algorithms.fedavg"
    many = dict.fromkeys(code, "another")
    assert package.differences(many, code).endswith(f"and {len(code) - package.SHOWN} more")
