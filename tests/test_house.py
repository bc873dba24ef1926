"""The rules of the house, held against the sources: floors, circles, torch, names, docstrings."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import yaml

from fedsim import find, scenario_file, source

ROOT = Path(__file__).resolve().parents[1]

# An arrow may only go down, or stay within one entry.  The first entry that fits a module is its floor.
FLOORS: list[tuple[int, str, str]] = [
    (14, "fedsim.__main__ fedsim.analysis", "the command line"),
    (13, "fedsim.simulation", "the same from Python"),
    (12, "fedsim.result", "what has come of a sweep"),
    (12, "fedsim.notebook", "how it goes, in a notebook"),
    (2, "fedsim.lock fedsim.whole_files", "who may write, and how"),
    (2, "fedsim.plot", "its scores as a chart"),
    (9, "fedsim.objects", "what Python gives in place of texts"),
    (1, "fedsim.cells", "the source of a class"),
    (13, "fedsim.tune", "sweeps in search of options"),
    (13, "fedsim.observed", "sweeps that loggers hear of"),
    (13, "fedsim.explain", "what a scenario will run"),
    (13, "fedsim.arguments", "the flags"),
    (12, "fedsim.preview", "what a point will take"),
    (3, "fedsim.listing", "what there is to name"),
    (2, "fedsim.options", "the options of a part in words"),
    (2, "fedsim.starter", "a study to start from"),
    (11, "fedsim.stale", "which results are out of date"),
    (12, "fedsim.sweep fedsim.engines fedsim.display fedsim.final_table", "many points, and how they are shown"),
    (12, "fedsim.attempt", "one point in a worker"),
    (11, "fedsim.run", "one point"),
    (11, "fedsim.point_folders", "where its results lie"),
    (10, "fedsim.learning", "its learning half"),
    (10, "fedsim.checkpoint", "what it holds at a moment"),
    (10, "algorithms", "what is computed and sent"),
    (10, "fedsim.protocols", "when, and with whom"),
    (9, "fedsim.learn", "torch"),
    (9, "fedsim.secure_sum", "a round masked"),
    (9, "fedsim.quorum", "what a round waits for"),
    (8, "fedsim.budget", "what ends a run"),
    (8, "fedsim.data", "torch"),
    (8, "fedsim.protocol", "their contract"),
    (8, "fedsim.partitions", "the work of partitions on the clock"),
    (7, "fedsim.world", "what a protocol may touch"),
    (6, "fedsim.hosts", "the server"),
    (6, "fedsim.ledger", "whether the books balance"),
    (6, "fedsim.views", "what clients have received"),
    (6, "fedsim.taped", "who is asked over the tape"),
    (6, "fedsim.check", "whether a scenario can be run"),
    (5, "fedsim.wave", "the asks of a whole cohort"),
    (5, "fedsim.masked", "work under secure aggregation"),
    (5, "fedsim.tape", "what crosses between its halves"),
    (4, "fedsim.clients fedsim.plain", "the clients, and work that trains nothing"),
    (4, "fedsim.rehearsal fedsim.private", "whether its parts can meet"),
    (4, "fedsim.checkpoints fedsim.cores fedsim.unread", "a server's saved states, computing, and replies"),
    (4, "fedsim.guard", "who makes private what it folds"),
    (3, "fedsim.algorithm", "the contract, without torch"),
    (3, "fedsim.fleet fedsim.scenario_file", "what a scenario's files say"),
    (3, "fedsim.stamp", "what decides a point's numbers"),
    (2, "fedsim.net", "messages and links"),
    (2, "fedsim.scenario fedsim.combinations fedsim.grid", "what a scenario may say"),
    (2, "fedsim.samplers", "who is asked"),
    (1, "fedsim.sampler", "their contract"),
    (1, "fedsim.record", "the tables"),
    (1, "fedsim.find fedsim.source fedsim.defaults fedsim.wording fedsim.elsewhere", "from a name to a class"),
    (1, "fedsim.imports fedsim.provenance", "what a module needs, and where a point was run"),
    (1, "fedsim.table fedsim.paths", "files that a scenario names"),
    (1, "fedsim.yaml_text", "YAML as plain data"),
    (1, "fedsim.units fedsim.seeds fedsim.errors fedsim.progress fedsim.logbook fedsim.span fedsim.amounts", "values"),
    (1, "analysis", "reads the tables"),
    (0, "fedsim", "the version"),
    (-1, "fedsim.shipped", "where its two other packages are"),
]
# Floor 1 has an order of its own: an entry may use those after it.
WITHIN_FLOOR_1 = [
    "fedsim.yaml_text",
    "fedsim.elsewhere",
    "fedsim.find",
    "fedsim.defaults",
    "fedsim.imports",
    "fedsim.source",
    "fedsim.wording",
    "fedsim.cells",
    "fedsim.table",
    "fedsim.units",
    "fedsim.errors",
]
TORCH = ("fedsim.learn", "fedsim.learning", "fedsim.data", "algorithms")  # all that may import it
ALGORITHMS_USE = (
    "fedsim.algorithm",
    "fedsim.learn",
    "fedsim.data.graph",
    "fedsim.net.wire",
    "fedsim.errors",
    "fedsim.seeds",
    "fedsim.span",
    "fedsim.units",
)
OUTER_NAMES = {"numpy", "simpy", "msgpack", "fedsim"}  # all that net/ may use beside the standard library
FORBIDDEN_FILES = {"utils", "common", "base", "manager", "handler", "helpers", "misc"}


@cache
def modules() -> dict[str, Path]:
    """Every module of the three packages by its dotted name."""
    found = {}
    for package in ("fedsim", "algorithms", "analysis"):
        for path in (ROOT / package).rglob("*.py"):
            steps = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(steps[:-1] if steps[-1] == "__init__" else steps)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """What a module imports, wherever it does so, but for the type checker; names of modules where they are ours."""
    return frozenset(_imports(tree(module)))


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, "imports are absolute"
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in modules() else str(child.module)
        else:
            yield from _imports(child)


def ours(module: str) -> list[str]:
    return sorted(name for name in imports(module) if name in modules())


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def entry(module: str) -> tuple[int, str]:
    """The floor of a module and the entry of the table that says so."""
    for floor, entries, _ in FLOORS:
        for name in entries.split():
            if within(module, name) and (name != "fedsim" or module == "fedsim"):
                return floor, name
    raise AssertionError(f"{module} has no floor: give it one in tests/test_house.py")


def may_use(upper: str, lower: str) -> bool:
    (from_floor, from_entry), (to_floor, to_entry) = entry(upper), entry(lower)
    if from_entry == to_entry or from_floor > to_floor:
        return True
    if {from_entry, to_entry} <= {"fedsim.scenario", "fedsim.combinations", "fedsim.grid"}:
        return True
    if from_floor == to_floor == 12:
        return to_entry in ("fedsim.engines", "fedsim.attempt")  # which use none of that floor
    if from_floor == to_floor == 1 and {from_entry, to_entry} <= set(WITHIN_FLOOR_1):
        return WITHIN_FLOOR_1.index(from_entry) < WITHIN_FLOOR_1.index(to_entry)
    return False


@pytest.mark.parametrize("module", sorted(modules()))
def test_arrows_go_down(module):
    wrong = [name for name in ours(module) if not may_use(module, name)]
    assert not wrong, f"{module} (floor {entry(module)[0]}) imports {wrong}"


def test_the_table_holds_no_module_that_is_gone():
    named = [name for _, entries, _ in FLOORS for name in entries.split()]
    assert len(named) == len(set(named))
    assert all(name in modules() for name in named)


def test_there_are_no_circles():
    graph = {module: set(ours(module)) - {module} for module in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_torch_is_imported_by_learning_data_and_algorithms_only():
    users = {module for module in modules() if any(within(name, "torch") for name in imports(module))}
    assert users
    assert not [module for module in users if not any(within(module, allowed) for allowed in TORCH)]
    geometric = [m for m in modules() if any(within(name, "torch_geometric") for name in imports(m))]
    assert not [module for module in geometric if not within(module, "fedsim.data")]


def test_without_learning_torch_is_not_even_loaded():
    light = [m for m in sorted(modules()) if not any(within(m, package) for package in TORCH)]
    light.remove("fedsim.__main__")  # imports run.py when it is told to run something
    assert {"fedsim.hosts", "fedsim.world", "fedsim.protocols.deadline", "fedsim.scenario", "fedsim.record"} <= set(
        light
    )
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    code += "    assert not {'torch', 'torch_geometric'} & set(sys.modules), name\n"
    done = subprocess.run([sys.executable, "-c", code, *light], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_network_could_be_lifted_out():
    for module in modules():
        if within(module, "fedsim.net"):
            foreign = {name.split(".")[0] for name in imports(module)} - set(sys.stdlib_module_names)
            assert foreign <= OUTER_NAMES, module
            inner = [name for name in ours(module) if not within(name, "fedsim.net")]
            assert set(inner) <= {"fedsim.record", "fedsim.units", "fedsim.seeds", "fedsim.table", "fedsim.errors"}, (
                module
            )


def test_analysis_imports_nothing_of_fedsim():
    wrong = {m: ours(m) for m in modules() if within(m, "analysis") and any(not within(n, "analysis") for n in ours(m))}
    assert wrong == {}


def test_nothing_but_the_run_imports_both_halves():
    for module in modules():
        network = any(within(name, "fedsim.net") and name != "fedsim.net.wire" for name in ours(module))
        learning = any(within(name, "fedsim.learn") or within(name, "fedsim.data") for name in ours(module))
        assert not (network and learning) or module == "fedsim.run", module


def algorithms() -> list[str]:
    return [f"algorithms.{name}" for name in find.names("algorithm")]


@pytest.mark.parametrize("module", algorithms())
def test_an_algorithm_uses_little_of_the_library_and_one_other_at_most(module):
    others = [name for name in ours(module) if within(name, "algorithms") and not within(name, module)]
    assert len(others) <= 1
    for other in others:
        assert not [name for name in ours(other) if within(name, "algorithms")], "one level deep"
    rest = [name for name in ours(module) if not within(name, "algorithms")]
    assert not [name for name in rest if not any(within(name, allowed) for allowed in ALGORITHMS_USE)]


def rooms() -> list[str]:
    """The modules beside an algorithm's class, in its folder."""
    return [module for module in modules() if within(module, "algorithms") and module.count(".") > 1]


@pytest.mark.parametrize("module", rooms())
def test_what_lies_in_an_algorithms_folder_is_its_own(module):
    algorithm = module.rpartition(".")[0]
    assert not [name for name in ours(module) if within(name, "algorithms") and not within(name, algorithm)]
    rest = [name for name in ours(module) if not within(name, "algorithms")]
    assert not [name for name in rest if not any(within(name, allowed) for allowed in (*ALGORITHMS_USE, "fedsim.data"))]
    users = [name for name in modules() if module in ours(name)]
    assert users
    assert not [name for name in users if not within(name, algorithm)]


def test_mathematics_of_one_algorithm_lives_with_it():
    """A module of fedsim/learn that serves algorithms alone serves two, or FedAvg, which most descend from."""
    parts = {name for name in modules() if name.startswith(("fedsim.learn.models.", "fedsim.learn.tasks."))}
    reached = _reached(
        parts | {name for name in modules() if within(name, "fedsim") and not within(name, "fedsim.learn")}
    )
    served = {name: _algorithms_over(name) for name in modules() if within(name, "fedsim.learn")}
    alone = {name: users for name, users in served.items() if name not in reached and len(users) == 1}
    assert alone == {"fedsim.learn.robust": {"algorithms.fedavg"}}


def _reached(roots: set[str]) -> set[str]:
    wanted, seen = [*roots], set[str]()
    while wanted:
        module = wanted.pop()
        if module not in seen:
            seen.add(module)
            wanted += ours(module)
    return seen


def _algorithms_over(module: str) -> set[str]:
    """The algorithms that a module serves, by itself or through others of fedsim/learn."""
    found, wanted, seen = set[str](), [module], set[str]()
    while wanted:
        name = wanted.pop()
        for user in (user for user in modules() if name in ours(user) and user not in seen):
            seen.add(user)
            if within(user, "algorithms"):
                found.add(".".join(user.split(".")[:2]))
            elif within(user, "fedsim.learn"):
                wanted.append(user)
    return found


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in find.KINDS for name in find.names(kind)])
def test_a_file_in_a_plural_folder_holds_one_class_named_like_it(kind, name):
    module = f"{find.KINDS[kind].package}.{name}"
    (only,) = source.outlines(module, find.KINDS[kind].contract)
    assert only.lower() == name.replace("_", "")
    (node,) = [node for node in tree(module).body if isinstance(node, ast.ClassDef) and node.name == only]
    assert ast.get_docstring(node)
    assert any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list), "a frozen dataclass"


def test_every_plural_folder_has_its_contract_beside_it():
    for kind in find.KINDS.values():
        path = modules()[kind.contract[0]]
        assert any(isinstance(n, ast.ClassDef) and n.name == kind.contract[1] for n in tree(kind.contract[0]).body), (
            path
        )
    assert all(find.names(kind) for kind in find.KINDS)


SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"))


@pytest.mark.long
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_name_in_a_scenario_resolves(path):
    scenario, _ = scenario_file.load(path)
    assert scenario.name == path.stem
    parts = [part for point in scenario.points() for part in point.scenario.parts()]
    assert parts
    distinct = {repr(part): part for part in parts}
    assert [problem for kind, key, part in distinct.values() for problem in find.check(kind, part, key)] == []


def test_there_are_scenarios_and_their_first_lines_say_what_they_ask():
    assert SCENARIOS
    for path in SCENARIOS:
        assert re.search(r"^# \S.*", path.read_text(encoding="utf-8"), re.MULTILINE), path
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["description"], path


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_says_what_it_is(module):
    text = ast.get_docstring(tree(module))
    assert text
    assert len(text.split()) > 3
    steps = set(module.split("."))
    assert not steps & FORBIDDEN_FILES
    assert not [step for step in steps if re.search(r"(_v\d+|_new|_old|manager|handler|utils?)$", step)]


def test_nothing_is_left_for_later():
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XXX)\b|NotImplementedError")
    left = [module for module, path in modules().items() if marks.search(path.read_text(encoding="utf-8"))]
    assert left == []
