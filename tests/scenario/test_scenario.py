# ruff: noqa: E501 -- a table of mistakes and their messages reads best in lines
import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scenario_texts import SMALL

from fedsim.core.errors import UserError
from fedsim.point.checks import check
from fedsim.scenario.part import Part
from fedsim.scenario.parts import lookup
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import yaml_file, yaml_text

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


def changed(old, new):
    assert old in SMALL
    return SMALL.replace(old, new)


def test_a_scenario_without_a_grid_is_one_point(load):
    [point] = load(SMALL)
    assert point.axes == {}
    assert point.scenario.training.lr == 0.005
    assert point.scenario.network.latency.values == (0.05,)
    assert point.scenario.network.effects == [Part(name="loss", options={"rate": "1 %", "up": None, "down": None})]
    assert point.scenario.data.stream == Part(name="static", options={"numbered": False})


def test_the_grid_is_a_product_in_the_order_of_the_file(load):
    points = load(SMALL + "grid: {network.latency: [1 s, 2 s], seed: [5, 6], algorithm: [fedavg, fedprox]}\n")
    assert [tuple(p.axes.values()) for p in points][:3] == [
        ("1 s", 5, "fedavg"),
        ("1 s", 5, "fedprox"),
        ("1 s", 6, "fedavg"),
    ]
    assert [*points[0].axes] == ["network.latency", "seed", "algorithm"]
    assert len({p.id for p in points}) == len(points) == 8
    assert all(p.scenario.grid == {} for p in points)
    assert {(p.scenario.network.latency.values[0], p.scenario.seed, p.scenario.algorithm.name) for p in points} == {
        (latency, seed, name) for latency in (1.0, 2.0) for seed in (5, 6) for name in ("fedavg", "fedprox")
    }


@pytest.mark.parametrize(
    ("axis", "read", "values"),
    [
        ("protocol.rounds: [2, 7]", lambda s: s.protocol.options["rounds"], [2, 7]),
        ("network.effects.0.rate: [0.1, 0.2]", lambda s: s.network.effects[0].options["rate"], [0.1, 0.2]),
        ("network.effects: [[], [{name: jitter, most: 1 s}]]", lambda s: len(s.network.effects), [0, 1]),
        ("network.server.ingress: [null, 1 Mbit/s]", lambda s: s.network.server.ingress, [None, 1e6]),
        ("model.layers: [2, 3]", lambda s: s.model.options["layers"], [2, 3]),
        ("algorithm: [{name: fedprox, mu: 0.1}, fedavg]", lambda s: s.algorithm.name, ["fedprox", "fedavg"]),
        ("data.partition: [random, louvain]", lambda s: s.data.partition.name, ["random", "louvain"]),
        ("measure.every: [2 updates, 3 s]", lambda s: str(s.measure.every), ["2 updates", "3.0"]),
    ],
)
def test_any_dotted_key_can_be_an_axis(load, axis, read, values):
    assert [read(point.scenario) for point in load(f"{SMALL}grid: {{{axis}}}\n")] == values


def test_options_are_laid_over_a_part_that_is_an_axis_too(load):
    points = load(SMALL + "grid: {algorithm.mu: [1, 2], algorithm: [{name: fedprox, mu: 9}]}\n")
    assert [point.scenario.algorithm.options["mu"] for point in points] == [1, 2]


def test_a_key_that_the_grid_gives_may_be_missing_outside(load):
    text = (
        changed("algorithm: fedavg\n", "")
        .replace("participation: 0.5", "clients: 2")
        .replace("latency: 50 ms", "tls_rtts: 1")
    )
    assert len(load(text + "grid: {algorithm: [fedavg, fedprox], network.latency: [1 s]}\n")) == 2


def test_files_on_an_axis_are_labelled_without_their_folders_where_that_tells_them_apart(load, tmp_path):
    for rate, name in enumerate(("one/fast.csv", "one/slow.csv", "two/fast.csv"), 1):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"client,uplink_mbps\n0,{rate}\n")

    def labels(key, *values):
        return [point.axes[key] for point in load(f"{SMALL}grid: {{{key}: [{', '.join(values)}]}}\n")]

    assert labels("clients.table", "one/fast.csv", "one/slow.csv") == ["fast.csv", "slow.csv"]
    assert labels("clients.table", "one/fast.csv", "two/fast.csv") == [
        str((tmp_path / folder / "fast.csv").resolve()) for folder in ("one", "two")
    ]


def test_constants_of_the_transfer_model_are_an_axis(load):
    points = load(SMALL + "grid: {network.tcp.initial_window: [10, 20]}\n")
    assert [point.scenario.network.tcp for point in points] == [{"initial_window": 10}, {"initial_window": 20}]
    with pytest.raises(UserError, match=r"grid\.network\.tcp\.initial_windw\.0: .* did you mean 'initial_window'"):
        load(SMALL + "grid: {network.tcp.initial_windw: [10, 20]}\n")


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_a_part_s_numbers_are_finite(load, number):
    with pytest.raises(UserError, match=r"line 11: protocol: option 'over' is -?(nan|inf): a number must be finite"):
        load(changed("{name: sync, rounds: 3, participation: 0.5}", f"{{name: deadline, over: {number}}}"))


def test_a_share_that_is_wrong_is_not_reported_as_a_text_as_well(load):
    with pytest.raises(UserError) as caught:
        load(changed("latency: 50 ms", "profile: {fibre: 2}"))
    assert "network.profile.fibre: 2 is not a fraction" in str(caught.value)
    assert "text" not in str(caught.value)


def test_an_entry_of_an_empty_list_cannot_be_set(load):
    with pytest.raises(UserError, match=r"--set network.effects.0.rate=5: .*'0' is not one of the 0 entries"):
        load(SMALL.replace("  effects: [{name: loss, rate: 1 %}]\n", ""), "network.effects.0.rate=5")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ("[fedavg, {name: fedprox, mu: 1}]", ["fedavg", "fedprox"]),
        ("[{name: fedprox, mu: 1}, {name: fedprox, mu: 2}]", ["fedprox(mu=1)", "fedprox(mu=2)"]),
        ("[fedprox, {name: fedprox, mu: 2}]", ["fedprox", "fedprox(mu=2)"]),
    ],
)
def test_parts_are_labelled_by_what_tells_them_apart(load, values, labels):
    assert [point.axes["algorithm"] for point in load(f"{SMALL}grid: {{algorithm: {values}}}\n")] == labels


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("latency: 50 ms", "latency: 0.05 s"),
        ("latency: 50 ms", "latency: 5e-2 s"),
        ("rate: 1 %", "rate: 0.01"),
        ("{name: sync, rounds: 3, participation: 0.5}", "{participation: 50 %, rounds: 3, name: sync}"),
        ("name: small", "name: other\ndescription: text"),
        ("name: small", "name: small\ndevice: cpu\nthreads: 3\ncohort: {memory: 2 GiB}"),
        ("algorithm: fedavg", "algorithm: {name: fedavg}"),
        ("name: small", "seed: 0\nname: small"),
    ],
)
def test_the_id_is_that_of_the_meaning(load, old, new):
    assert load(SMALL)[0].id == load(changed(old, new))[0].id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("latency: 50 ms", "latency: 51 ms"),
        ("name: small", "name: small\nseed: 1"),
        ("rate: 1 %", "rate: 2 %"),
        ("fedavg", "fedprox"),
        ("count: 4", "count: 5"),
        ("name: small", "name: small\ncohort: loop"),
    ],
)
def test_another_meaning_has_another_id(load, old, new):
    assert load(SMALL)[0].id != load(changed(old, new))[0].id


def test_the_id_is_the_same_in_every_process(load, tmp_path):
    [point] = load(SMALL)
    code = (
        "from pathlib import Path; from fedsim.scenario.text import yaml_file\n"
        "print(yaml_file.load(Path('small.yaml'))[0].id(), end='')"
    )
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, check=True)
        assert done.stdout.decode() == point.id
    assert len(point.id) == 12
    assert int(point.id, 16) >= 0


@pytest.mark.parametrize(
    ("cohort", "flags", "mode", "memory"),
    [
        ("loop", [], "loop", 2**30),
        ("{memory: 2 GiB}", [], "union", 2**31),
        ("{mode: loop, memory: 20 kB}", [], "loop", 20_000),
        ("loop", ["cohort.memory=3 GiB"], "loop", 3 * 2**30),
        ("{memory: 2 GiB}", ["cohort.mode=loop"], "loop", 2**31),
        ("{memory: 2 GiB}", ["cohort=loop"], "loop", 2**30),
    ],
)
def test_a_cohort_is_a_mode_a_memory_or_both(load, cohort, flags, mode, memory):
    [point] = load(f"{SMALL}cohort: {cohort}\n", *flags)
    assert (point.scenario.cohort.mode, point.scenario.cohort.memory) == (mode, memory)
    assert load(yaml_file.dump(point.scenario))[0].scenario == point.scenario


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cohort: unoin", r"line 13: cohort\.mode: 'unoin' is not one of 'union' or 'loop'; did you mean 'union'"),
        ("cohort: 2", r"line 13: cohort: 2: write its mode, or a mapping with the keys mode, memory"),
        ("cohort: {memory: 2 GiBB}", r"line 13: cohort\.memory: '2 GiBB'"),
        ("cohort: {memroy: 2 GiB}", r"line 13: cohort\.memroy: there is no such key; did you mean 'memory'"),
        ("cohort_memory: 2 GiB", r"line 13: cohort_memory: there is no such key"),
        ("grid: {cohort.memory: [1 GiB, 2 GiB]}", r"'cohort\.memory' changes no result and cannot be an axis"),
        ("grid: {cohort: [union, {memory: 2 GiB}]}", "two runs are the same"),
    ],
)
def test_a_cohort_that_is_wrong_is_reported_with_its_remedy(load, line, message):
    with pytest.raises(UserError, match=message):
        load(f"{SMALL}{line}\n")


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
OPTION = st.one_of(st.integers(), st.booleans(), st.none(), TEXT, st.floats(allow_nan=False, allow_infinity=False))
TRICKY = st.sampled_from(
    ["5e-4", "off", "no", "1_000", "0o17", "2024-01-01", "1:30", "~", "", "null", "0x1F", "=", "<<", "1e5"]
)


@pytest.mark.long
@given(
    latency=st.floats(0, 1e6),
    rate=st.floats(1e-3, 1e15),
    lr=st.floats(1e-12, 1e6),
    seed=st.integers(0, 2**63),
    description=st.one_of(TEXT, TRICKY),
    options=st.dictionaries(st.from_regex(r"[a-m]{1,6}", fullmatch=True), st.one_of(OPTION, TRICKY, st.lists(OPTION))),
    updates=st.integers(1, 10**6),
)
def test_a_resolved_scenario_reads_back_to_the_same_point(
    tmp_path_factory, latency, rate, lr, seed, description, options, updates
):
    raw = yaml.safe_load(SMALL)
    raw["network"] |= {"latency": f"{latency!r} s", "uplink": f"{rate!r} bit/s"}
    raw |= {"seed": seed, "description": description, "measure": {"every": f"{updates} updates"}}
    raw["training"]["lr"] = lr
    raw["algorithm"] = {"name": "fedavg", **options}
    [point] = Scenario.model_validate(raw).points()
    path = tmp_path_factory.mktemp("round") / "scenario.yaml"
    path.write_text(yaml_file.dump(point.scenario), encoding="utf-8")
    read, _ = yaml_file.load(path)
    assert read == point.scenario
    assert read.id() == point.id
    assert Scenario.model_validate(yaml.safe_load(path.read_text("utf-8"))).id() == point.id


@pytest.mark.long
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_of_the_project_is_sound_and_points_editors_at_the_schema(path):
    scenario, _ = yaml_file.load(path)
    with lookup.within_reach(path.parent):
        assert check.points([*scenario.points()]) == []
    assert scenario.name == path.stem
    assert path.read_text("utf-8").startswith("# yaml-language-server: $schema=schema.json\n")


# ---- what is wrong, where, and the mend

BAD = [
    ("unknown key", changed("count: 4", "cout: 4"), "line 5: clients.cout: there is no such key; did you mean 'count'?"),
    ("missing key", changed("count: 4, ", ""), "line 5: clients.count: is missing and has no default"),
    ("unknown section", SMALL + "protcol: x\n", "line 13: protcol: there is no such key; did you mean 'protocol'?"),
    ("wrong unit", changed("50 ms", "50 Mbit/s"), "line 7: network.latency: '50 Mbit/s' is not a time: 'Mbit/s' is a unit of rate"),
    ("misspelt unit", changed("20 Mbit/s", "20 Mbits"), "line 9: network.downlink: '20 Mbits' is not a rate: 'Mbits' is not a unit known here; did you mean 'Mbit/s'?"),
    ("negative rate", changed("20 Mbit/s", "-20 Mbit/s"), "line 9: network.downlink: '-20 Mbit/s' is not a rate: it must be more than zero"),
    ("distribution", changed("lognormal", "lognorm"), "line 8: network.uplink: 'lognorm' is not a distribution; did you mean 'lognormal'?"),
    ("participation", changed("0.5", "1.5"), "line 11: protocol.participation: 1.5 is not a fraction: it must lie between 0 and 1"),
    ("both", changed("0.5", "0.5, clients: 2"), "line 11: protocol: give either 'participation'"),
    ("neither", changed(", participation: 0.5", ""), "line 11: protocol: give either 'participation'"),
    ("no gradient", changed("5e-3", "5e-3, clip: 0"), "line 4: training.clip: 0: must be more than 0"),
    ("negative learning rate", changed("5e-3", "-1"), "line 4: training.lr: -1: must be more than 0"),
    ("text for a number", changed("5e-3", "fast"), "line 4: training.lr: 'fast': must be a number"),
    ("choice", changed("adam", "adma"), "line 4: training.optimiser: 'adma' is not one of 'adam' or 'sgd', nor a class such as 'torch.optim.AdamW'; did you mean 'adam'?"),
    ("count", changed("count: 4", "count: 2.5"), "line 5: clients.count: 2.5 is not a count: it must be a whole number"),
    ("every", SMALL + "measure: {every: 20}\n", "line 13: measure.every: 20 could be updates or seconds: write '20 updates' or '20 s'"),
    ("until", SMALL + "measure: {until: 0 s}\n", "line 13: measure.until.time: '0 s': must be more than 0"),
    ("metric", SMALL + "measure: {metrics: [acuracy]}\n", "line 13: measure.metrics.0: 'acuracy' is not a metric: there is no fedsim/learn/metrics/acuracy.py, nor metrics/acuracy.py beside the scenario; did you mean 'accuracy'?"),
    ("metric of another task", SMALL + "measure: {metrics: [mrr]}\n", "line 13: measure.metrics.0: 'mrr' is not a metric of the task 'node_classification'. There are: accuracy, macro_f1, micro_f1"),
    ("option of a split", SMALL + "measure: {splits: [{name: test, most: 2}]}\n", "line 13: measure.splits.0: a metric or a split has no options: write its name"),
    ("no metric", SMALL + "measure: {metrics: []}\n", "line 13: measure.metrics: []: needs at least 1 entry"),
    ("model twice", SMALL + "measure: {models: [local, local]}\n", "line 13: measure.models: ['local', 'local'] names something twice"),
    ("split", changed("partition: random}", "partition: random, split: {train: 0.5}}"), "line 2: data.split: train + val + test is 1.3: it must be 1"),
    ("no training", changed("partition: random}", "partition: random, split: {train: 0}}"), "line 2: data.split: train is 0"),
    ("section as value", changed("{count: 4, speed: 2 GFLOP/s}", "4"), "line 5: clients: 4: must be a mapping"),
    ("device", SMALL + "device: gpu\n", "line 13: device: 'gpu' is not a device; write auto, cpu, cuda or cuda:0"),
    ("name", changed("name: small", "name: a/b"), "line 1: name: 'a/b' cannot name a folder"),
    ("empty name", changed("name: small", "name: ''"), "line 1: name: '' cannot name a folder"),
    ("dots", changed("name: small", "name: .."), "line 1: name: '..' cannot name a folder"),
    ("number as name", changed("name: small", "name: 5"), "line 1: name: 5: must be a text"),
    ("unnamed part", changed("{name: gcn, hidden: 8}", "{hidden: 8}"), "line 3: model: lacks the key 'name'"),
    ("nothing", changed("protocol: {name: sync, rounds: 3, participation: 0.5}", "protocol:"), "line 11: protocol: nothing: must be the name of a file"),
    ("algorithm", changed("fedavg", "fedavgg"), "line 12: algorithm: 'fedavgg' is not an algorithm: there is no algorithms/fedavgg.py, nor one beside the scenario; did you mean 'fedavg'?"),
    ("effect", changed("name: loss", "name: los"), "line 10: network.effects.0: 'los' is not an effect: there is no fedsim/net/effects/los.py, nor effects/los.py beside the scenario; did you mean 'loss'?"),
    ("option", changed("hidden: 8", "hiden: 8"), "line 3: model.hiden: 'gcn' has no option 'hiden' (fedsim/learn/models/gcn.py); did you mean 'hidden'?"),
    ("protocol's option", changed("rounds: 3", "rounds: 3, timeout: 5 s"), "line 11: protocol.timeout: 'sync' has no option 'timeout' (fedsim/clock/protocols/sync.py)"),
    ("missing option", changed("rounds: 3, ", ""), "line 11: protocol: 'sync' needs the option 'rounds' (fedsim/clock/protocols/sync.py)"),
    ("effect's value", changed("rate: 1 %", "rate: 1 s"), "line 10: network.effects.0.rate: '1 s' is not a fraction: it has no unit 's'"),
    ("empty axis", SMALL + "grid:\n  seed: []\n", "line 14: grid.seed: the axis has no values"),
    ("axis as value", SMALL + "grid:\n  seed: 3\n", "line 14: grid.seed: 3: must be a list"),
    ("unknown axis", SMALL + "grid:\n  network.latancy: [1 s]\n", "line 14: grid.network.latancy: there is no key 'network.latancy'; did you mean 'latency'?"),
    ("axis too deep", SMALL + "grid:\n  seed.first: [1]\n", "line 14: grid.seed.first: there is no key 'seed.first': 'seed' has no keys of its own"),
    ("axis past the end", SMALL + "grid:\n  network.effects.1.rate: [1]\n", "line 14: grid.network.effects.1.rate: network.effects has 1 entries, counted from 0; '1' is none of them"),
    ("axis of labels", SMALL + "grid:\n  device: [cpu, auto]\n", "line 14: grid.device: 'device' changes no result and cannot be an axis"),
    ("value twice", SMALL + "grid:\n  network.latency: [50 ms, 1 s, 0.05 s]\n", "line 14: grid.network.latency.2: the axis has 0.05 s twice; keep one"),
    ("value of an axis", SMALL + "grid:\n  network.latency: [1 s, 2 kB]\n", "line 14: grid.network.latency.1: '2 kB' is not a time"),
    ("seed of an axis", SMALL + "grid:\n  seed: [1, x]\n", "line 14: grid.seed.1: 'x': must be a whole number"),
    ("name of an axis", SMALL + "grid:\n  algorithm:\n    - fedavg\n    - pwer\n", "line 16: grid.algorithm.1: 'pwer' is not an algorithm"),
    ("option for all", SMALL + "grid:\n  algorithm.mu: [1]\n  algorithm: [fedavg, fedprox]\n", "line 14: grid.algorithm.mu.0: 'fedavg' has no option 'mu' (algorithms/fedavg.py)"),
    ("same points", SMALL + "grid:\n  protocol: [sync, {name: sync}]\n", "line 13: grid: two runs are the same (protocol: sync and protocol: sync); keep one"),
    ("key twice", SMALL + "seed: 1\nseed: 2\n", "line 14: seed: the key appears twice (first in line 13); keep one"),
    ("inner key twice", changed("count: 4", "count: 4, count: 5"), "line 5: clients.count: the key appears twice"),
    ("tab", changed("  latency", "\tlatency"), "line 7: a tab; YAML indents with spaces"),
    ("latin-1", SMALL.encode() + "description: caf\xe9\n".encode("latin-1"), "line 13: not UTF-8 text; save the file as UTF-8"),
    ("unclosed", changed("lr: 5e-3}", "lr: 5e-3"), "line 5: not YAML"),
    ("two documents", SMALL + "---\n" + SMALL, "line 13: a second document begins here"),
    ("list", "- a\n- b\n", "the file is a list; a scenario is a mapping"),
    ("value", "hello\n", "the file is a single value; a scenario is a mapping"),
    ("empty", "# nothing\n", "the file is empty; a scenario is a mapping"),
    ("tag", changed("small", "!!python/name:os.system small"), "line 1: the tag 'tag:yaml.org,2002:python/name:os.system' is not used in scenarios"),
    ("key is a number", SMALL + "5: x\n", "line 13: '5' cannot be a key"),
    ("itself", SMALL + "grid: &g {seed: [*g]}\n", "line 13: grid.seed.0 contains itself"),
    ("control", SMALL + "description: \"a\x07\"\n", "line 13: not YAML text"),
    ("seed of the grid", SMALL + "grid: {seed: [-1, 0]}\n", "line 13: grid.seed.0: -1: must be at least 0"),
    ("target of the grid", SMALL + "measure: {every: 1 update}\ngrid: {measure.target: [2]}\n", "line 14: grid.measure.target.0: 2"),
    ("colon", changed("50 ms", "50 ms: 3"), "line 7: a ':' where no key can stand"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), [pytest.param(text, message, id=name) for name, text, message in BAD])
def test_a_mistake_is_reported_with_file_line_key_and_remedy(load, text, message):
    with pytest.raises(UserError) as caught:
        load(text)
    told = str(caught.value)
    assert message in told
    assert "small.yaml" in told
    assert "pydantic" not in told
    assert "Value error" not in told


def test_points_that_mean_the_same_are_refused(load):
    text = (
        SMALL
        + "grid: {protocol: [{name: sync, rounds: 2, clients: 2}, {name: sync, rounds: 3, clients: 2}], protocol.rounds: [4]}"
    )
    with pytest.raises(UserError, match="two runs are the same"):
        load(text)


def test_all_mistakes_are_reported_at_once_up_to_five(load):
    text = changed("count: 4", "count: 0").replace("50 ms", "x").replace("20 M", "0 M").replace("lr: 5e-3", "lr: 0")
    text = text.replace("name: small", "name: a b").replace("lognormal", "l") + "seed: -1\n"
    with pytest.raises(UserError) as caught:
        load(text)
    assert len(str(caught.value).splitlines()) == 6
    assert str(caught.value).endswith("... and 2 more")


@pytest.mark.parametrize(
    ("name", "message"), [("smal.yaml", "did you mean"), ("no/where.yaml", "there is no such file")]
)
def test_a_file_that_is_not_there(tmp_path, name, message):
    (tmp_path / "small.yaml").write_text(SMALL)
    with pytest.raises(UserError, match=message):
        yaml_file.load(tmp_path / name)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    with pytest.raises(UserError, match=r"is a folder; name a scenario file \(small.yaml\)"):
        yaml_file.load(tmp_path)


# ---- --set


@pytest.mark.parametrize(
    ("flags", "read", "value"),
    [
        (["clients.count=5"], lambda s: s.clients.count, 5),
        (["network.latency=1 s"], lambda s: s.network.latency.values[0], 1.0),
        (["algorithm={name: fedprox, mu: 2}"], lambda s: s.algorithm.options["mu"], 2),
        (["algorithm=fedprox", "algorithm.mu=3"], lambda s: s.algorithm.options["mu"], 3),
        (["data.stream=static"], lambda s: s.data.stream.name, "static"),
        (["measure.target=80 %"], lambda s: s.measure.target, 0.8),
        (["network.server.ingress=1 Gbit/s"], lambda s: s.network.server.ingress, 1e9),
        (["network.effects=[]"], lambda s: s.network.effects, []),
        (["network.effects.0.rate=0.5"], lambda s: s.network.effects[0].options["rate"], 0.5),
        (["description=a = b"], lambda s: s.description, "a = b"),
        (["training.weight_decay=5e-4"], lambda s: s.training.weight_decay, 5e-4),
        (["training.clip=1"], lambda s: s.training.clip, 1.0),
        (["training.schedule=cosine"], lambda s: s.training.schedule, "cosine"),
    ],
)
def test_set_changes_any_key(load, flags, read, value):
    assert read(load(SMALL, *flags)[0].scenario) == value


def test_set_replaces_an_axis_and_gives_one(load):
    text = SMALL + "grid: {seed: [1, 2], network.latency: [1 s, 2 s]}\n"
    assert [p.scenario.seed for p in load(text, "seed=7")] == [7, 7]
    assert [p.scenario.seed for p in load(text, "grid.seed=[7]", "network.latency=1 s")] == [7]
    assert len(load(text, "grid={}")) == 1
    assert len(load(SMALL, "grid.seed=[0,1,2]")) == 3


def test_set_reaches_the_parts_of_an_axis(load):
    text = (
        SMALL
        + "grid: {protocol: [{name: sync, rounds: 9, clients: 2}, {name: deadline, rounds: 8, clients: 1, wait: 1 s}]}\n"
    )
    assert [p.scenario.protocol.options["rounds"] for p in load(text, "protocol.rounds=2")] == [2, 2]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("clients.cout=5", "--set clients.cout=5: clients.cout: there is no such key; did you mean 'count'?"),
        ("clients.count=0", "--set clients.count=0: clients.count: 0 is not a count"),
        ("clients.count=1e308", "clients.count: 1e+308 is too large for a count: write 1,000,000,000 at most"),
        ("clients", "--set clients: write --set KEY=VALUE"),
        ("=5", "--set =5: write --set KEY=VALUE"),
        ("a..b=5", "write --set KEY=VALUE"),
        ("grid.seed=3", "--set grid.seed=3: an axis is a list, as in --set grid.seed=[3]"),
        ("grid.sed=[3]", "--set grid.sed=[3]: grid.sed: there is no key 'sed'; did you mean 'seed'?"),
        ("seed.x=1", "--set seed.x=1: "),
        ("network.effects.3.rate=1", "--set network.effects.3.rate=1: "),
        ("seed=[1", "--set seed=[1: not YAML"),
        ("protocol.wait=5 s", "--set protocol.wait=5 s: protocol.wait: 'sync' has no option 'wait'"),
        ("algorithm=power2", "--set algorithm=power2: algorithm: 'power2' is not an algorithm"),
    ],
)
def test_a_mistake_in_a_flag_names_the_flag(load, flag, message):
    with pytest.raises(UserError) as caught:
        load(SMALL, flag)
    assert message in str(caught.value)


def test_anchors_and_merge_keys_work(load):
    text = (
        SMALL + "grid:\n  protocol:\n    - &first {name: sync, rounds: 1, clients: 1}\n    - {<<: *first, rounds: 2}\n"
    )
    assert [p.scenario.protocol.options for p in load(text)] == [
        {"participation": None, "rounds": 1, "clients": 1, "least": 1, "longest_wait": None},
        {"participation": None, "rounds": 2, "clients": 1, "least": 1, "longest_wait": None},
    ]


def test_points_leaves_the_scenario_as_it_was():
    raw = yaml.safe_load(SMALL) | {"grid": {"network.effects.0.rate": [0.1, 0.2], "model.layers": [1, 2]}}
    given = copy.deepcopy(raw)
    scenario = Scenario.model_validate(raw)
    before = scenario.model_dump()
    assert len([*scenario.points()]) == 4
    assert scenario.model_dump() == before
    assert raw == given


def test_merged_keys_give_way_to_own_ones_and_to_earlier_ones():
    text = "b: &b {count: 3, speed: 1}\nc: {<<: [*b, {count: 5, z: 2}], z: 4, k: 1}\nd: {<<: *b}"
    assert yaml_text.read(text, "x", {}) == yaml.safe_load(text)
    assert list(yaml_text.read(text, "x", {})["c"]) == ["count", "speed", "z", "k"]


TENFOLD = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n".join(["a0: &a0 [x, x]", *TENFOLD]), "too many values; a scenario has 100,000 values at most"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested too deeply; a scenario has 40 levels at most"),
        ("a: " + "{a: " * 60 + "1" + "}" * 60, "x, line 1: nested too deeply; a scenario has 40 levels at most"),
        ("a: &a {<<: *a}", "x, line 1: a contains itself"),
        ("a: &a [*a]", "x, line 1: a.0 contains itself"),
        ("a: {<<: 3}", "x, line 1: '<<' takes a mapping, or a list of mappings"),
    ],
)
def test_yaml_that_stands_for_too_much_is_refused_at_once(text, message):
    with pytest.raises(UserError, match=re.escape(message)):
        yaml_text.read(text, "x", {})


def test_nested_merges_are_gone_through_once():
    text = "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 13))]
    )
    assert yaml_text.read(text, "x", {})["a12"] == {"x": 1}  # 10^12 mappings, one by one


def test_an_unknown_key_that_looks_like_a_type_is_reported(load):
    with pytest.raises(UserError, match=r"line 1: d\[ata: there is no such key"):
        load("d[ata: 1\n" + SMALL)
