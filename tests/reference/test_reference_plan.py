"""The plan: which cells there are, that every algorithm is in it or left out with a reason, and its mistakes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_plan import PLAN, cell_of, written

from fedsim.core.errors import UserError
from fedsim.point.checks import check
from fedsim.reference import build, trials
from fedsim.reference import plan as plans
from fedsim.reference.cell import GIVEN, HALVED, Cell
from fedsim.reference.trials import LR
from fedsim.scenario.measure import Until

ROOT = Path(__file__).parents[2]
SHIPPED = plans.read(ROOT / plans.FILE)
STEPS = st.from_regex(r"[a-z_0-9]+", fullmatch=True)


def test_cells_are_all_combinations_and_halved_ones_come_last(tmp_path):
    plan, _ = written(tmp_path)
    static = ["fedavg/sync", "prox/sync", "fedavg/buffered"]
    arriving = ["fedavg/sync", "fedavg/buffered"]
    expected = [f"office/small/static/{name}/given/{seed}" for name in static for seed in (0, 1)]
    expected += [f"office/small/arriving/{name}/given/{seed}" for name in arriving for seed in (0, 1)]
    expected += [f"office/small/static/{name}/halved/{seed}" for name in static for seed in (0, 1)]
    assert [str(cell) for cell in plan.cells()] == expected


def test_a_setting_can_run_a_protocol_with_some_methods_alone(tmp_path):
    plan, _ = written(tmp_path)
    some = plan.settings[0].model_copy(update={"methods": {"sync": ["prox"]}, "tasks": ["static"], "halved": {}})
    cells = [*plan.model_copy(update={"settings": [some]}).cells()]
    assert {(cell.method, cell.protocol) for cell in cells} == {("prox", "sync"), ("fedavg", "buffered")}


@given(STEPS, STEPS, STEPS, st.integers(0, 10**6))
def test_a_cell_is_read_back_from_its_name(deployment, method, protocol, seed):
    cell = Cell(deployment, "data", "task", method, protocol, HALVED, seed)
    assert cell_of(str(cell)) == cell
    assert cell.within(deployment)
    assert cell.within(str(cell))
    assert not cell.within(f"{cell}0")
    assert not cell.within(f"{deployment}_")


def test_every_algorithm_is_in_the_shipped_plan_or_left_out_with_a_reason():
    parts = [path for path in (ROOT / "algorithms").iterdir() if path.name[0] != "_" and path.suffix != ".typed"]
    algorithms = {path.stem for path in parts}
    used = {method.algorithm.name for method in SHIPPED.methods.values()}
    words = {word.strip(",") for one in SHIPPED.left_out for word in one.what.split()}
    assert algorithms - used <= words
    assert used <= algorithms
    assert all(len(one.why) > 10 for one in SHIPPED.left_out)


def test_every_method_of_the_shipped_plan_is_run_somewhere_with_all_seeds():
    found = {}
    for cell in SHIPPED.cells():
        found.setdefault(str(cell).rpartition("/")[0], set()).add(cell.seed)
    assert all(seeds == {0, 1, 2, 3, 4} for seeds in found.values())
    assert {name.split("/")[3] for name in found} == {*SHIPPED.methods}
    assert {name.split("/")[0] for name in found} == {"campus", "hospitals", "phones", "sensors"}
    assert not {*SHIPPED.trials.seeds} & {*SHIPPED.seeds}


@pytest.mark.parametrize("deployment", [*SHIPPED.deployments])
def test_the_cells_of_the_shipped_plan_can_be_run(deployment):
    own = [cell for cell in SHIPPED.cells() if cell.deployment == deployment and cell.seed == 0]
    some = {(cell.task, cell.method, cell.protocol): cell for cell in own}.values()
    chosen = trials.chosen(trials.read(ROOT / "scenarios/reference" / trials.FILE))
    made = [build.point(SHIPPED, ROOT / "scenarios/reference", cell, chosen) for cell in some]
    assert check.points(made, whole=True) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("deployment: office, data: small, tasks", "deployment: shop, data: small, tasks", "there is no 'shop'"),
        ("data: small, tasks", "data: big, tasks", "settings.0.data: there is no 'big'"),
        ("protocols: [sync, buffered], bytes", "protocols: [sync, gossip], bytes", "settings.0.protocols"),
        ("halved: {static", "halved: {moving", "settings.0.halved: there is no 'moving'"),
        ("[sync, buffered]}", "[gossip]}", "settings.0.halved.static: there is no 'gossip'"),
        ("halved: {static", "methods: {gossip", "settings.0.methods: there is no 'gossip'"),
        (
            "halved: {static: [sync, buffered]}",
            "methods: {sync: [poxy]}",
            "settings.0.methods.sync: there is no 'poxy'",
        ),
        ("seeds: [0, 1]", "seeds: []", "seeds: []: needs at least 1 entry"),
        ("bytes: 1 MB", "bytes: 1000", "write '1000 B'"),
        ("methods:", "metods:", "there is no such key"),
        ("tasks: [static], protocols: [sync], set", "tasks: [dynamic], protocols: [sync], set", "methods.prox.tasks"),
    ],
)
def test_a_mistake_in_a_plan_is_named(tmp_path, old, new, says):
    path = tmp_path / "plan.yaml"
    assert old in PLAN
    path.write_text(PLAN.replace(old, new), "utf-8")
    with pytest.raises(UserError) as error:
        plans.read(path)
    assert str(path) in str(error.value)
    assert says in str(error.value)


def test_a_plan_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.yaml cannot be read"):
        plans.read(tmp_path / "none.yaml")


def test_budgets_and_keys_of_a_cell_are_in_its_scenario(tmp_path):
    plan, place = written(tmp_path)
    chosen = {("small", "static", "prox", "sync"): {LR: 0.05, "options": {"mu": 0.25}}}
    cell = Cell("office", "small", "static", "prox", "sync", HALVED, 1)
    made = build.point(plan, place.plan, cell, chosen).scenario
    assert (made.seed, made.network.rate_factor, made.training.lr, made.training.local_steps) == (1, 0.5, 0.05, 2)
    assert made.algorithm.options["mu"] == 0.25
    assert made.measure.until == Until(bytes="1 MB", time="1 min", when="all")
    assert (made.protocol.name, made.measure.splits) == ("sync", ["test"])
    untuned = build.point(plan, place.plan, cell, {}).scenario
    assert (untuned.algorithm.options["mu"], untuned.training.lr) == (0.5, 0.01)


def test_a_protocol_without_trials_takes_what_another_one_of_the_method_has(tmp_path):
    plan, place = written(tmp_path)
    chosen = {("small", "static", "fedavg", "buffered"): {LR: 0.05}}
    for protocol, more, rate in [
        ("sync", {}, 0.05), ("buffered", {}, 0.05), ("sync", {("small", "static", "fedavg", "sync"): {}}, 0.01),
    ]:  # fmt: skip
        cell = Cell("office", "small", "static", "fedavg", protocol, GIVEN, 0)
        assert build.point(plan, place.plan, cell, {**chosen, **more}).scenario.training.lr == rate
    of_another_task = Cell("office", "small", "arriving", "fedavg", "sync", GIVEN, 0)
    assert build.point(plan, place.plan, of_another_task, chosen).scenario.training.lr == 0.01


def test_periods_arrive_by_the_clock_as_shares_of_the_time_budget(tmp_path):
    plan, place = written(tmp_path)
    cell = Cell("office", "small", "arriving", "fedavg", "sync", GIVEN, 0)
    for share, seconds in ((1.0, 15.0), (0.5, 7.5)):
        stream = build.scenario(plan, place.plan, cell, {}, share).data["data"]["stream"]
        assert stream == {"name": "class_incremental", "classes": 2, "every": f"{seconds} s"}


@pytest.mark.parametrize("name", ["office/small/static/other/sync/given/0", "shop/small/static/fedavg/sync/given/0"])
def test_a_cell_outside_of_the_plan_is_refused(tmp_path, name):
    plan, place = written(tmp_path)
    with pytest.raises(UserError, match=name.split("/")[3] if "other" in name else "shop"):
        build.point(plan, place.plan, cell_of(name), {})
