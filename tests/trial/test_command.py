"""`--try` from the command line: its exit codes, its words for algorithms, and a report of 80 columns."""

import sys

import pytest
from own_algorithms import HEAD, OPTION, here, write

import algorithms
from fedsim import __main__ as command_line
from fedsim.scenario.part import Part
from fedsim.trial import command, files, promises, protocols, resumed
from fedsim.trial.trial import Finding, broken


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Call the command in an empty folder; gives exit code, output and messages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    before = {*sys.modules}

    def call(*words):
        try:
            code = command_line.main(words)
        except SystemExit as exit:
            code = exit.code
        output = capsys.readouterr()
        assert "Traceback" not in output.out + output.err
        return code, output.out, output.err

    yield call
    for name in {*sys.modules} - before:
        if name.partition(".")[0] in ("tried", "lab_of_mine"):
            del sys.modules[name]


@pytest.fixture
def quick(monkeypatch):
    """Leave out what runs whole points."""
    slow = resumed.check, protocols.check
    kept = [promise for promise in promises.PROMISES if promise.check not in slow]
    monkeypatch.setattr(promises, "PROMISES", kept)


@pytest.mark.long
def test_what_comes_with_fedsim_keeps_every_promise(call):
    code, out, err = call("--try", "fedavg")
    assert (code, err) == (0, "")
    assert "BROKEN" not in out
    assert "runs under buffered, deadline, gossip, hierarchical, isolated, one_shot, sync" in " ".join(out.split())
    assert out.endswith(f"All {1 + len(promises.PROMISES)} promises hold.\n")
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.usefixtures("quick")
def test_a_file_a_module_and_options(call, tmp_path):
    folder = tmp_path / "lab_of_mine"
    folder.mkdir()
    write(folder, OPTION)
    code, out, _ = call("--try", "lab_of_mine/mine.py")
    assert (code, out.splitlines()[0]) == (0, "Mine (lab_of_mine/mine.py)")
    assert out.endswith("All 9 promises hold.\n")
    code, out, _ = call("--try", "lab_of_mine.mine", "factor=0.5", "stays=true")
    assert (code, out.splitlines()[0]) == (1, "Mine (lab_of_mine/mine.py) factor=0.5 stays=True")
    line = here(folder).rpartition(":")[2]
    assert f"          at lab_of_mine/mine.py:{line}\n" in out
    assert out.endswith("1 of 9 promises is broken.\n")
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.usefixtures("quick")
def test_a_file_outside_of_every_package(call, tmp_path):
    write(tmp_path, "def work(self, job):\n    return {1: 2}\n    yield\n")
    code, out, _ = call("--try", "mine.py")
    assert code == 1
    assert out.startswith("Mine (mine.py)\n")
    (tmp_path / "other").mkdir()
    write(tmp_path / "other", "def start(self):\n    return {}[0]  # HERE\n")
    code, out, _ = call("--try", "./other/mine.py")
    assert code == 1
    assert "BROKEN    work, updates and training run to the end\n          it raises KeyError: 0\n" in out
    line = here(tmp_path / "other").rpartition(":")[2]
    assert f"at other/mine.py, line {line}\n" in out
    assert out.endswith("It does not run, so nothing else was tried.\n")


@pytest.mark.usefixtures("quick")
def test_what_fails_in_a_cohort_alone_is_reported(call, tmp_path):
    body = """
    def loss(self, params, data, given):
        assert len(data["sizes"]) == 1
        return super().loss(params, data, given)
    """
    write(tmp_path, body)
    code, out, _ = call("--try", "mine.py")
    assert code == 1
    assert "with every client trained by itself it works" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fedagv"], "did you mean 'fedavg'?"),
        (["mine.py"], "there is no such file"),
        (["no.such.module"], "there is no module of that name"),
        (["fedavg", "mu"], "write it as KEY=VALUE, as in mu=0.1"),
        (["fedprox", "nu=1"], "has no option 'nu'"),
        (["fedprox", "mu=high"], "mu"),
        (["traffic"], "needs the option"),
        (["traffic", "up=1 kB", "down=1 kB"], "trains nothing"),
        (["fedavg", "--set", "a=1"], "leave --set out"),
        (
            ["faulty.py"],
            "cannot be imported: ZeroDivisionError: integer division or modulo by zero (faulty.py, line 20)",
        ),
        (["broken.py"], "broken.py cannot be imported: invalid syntax"),
    ],
)
def test_bad_input_is_one_message(call, tmp_path, words, message):
    (tmp_path / "faulty.py").write_text(f"{HEAD}    x: int = 1 // 0\n", "utf-8")
    (tmp_path / "broken.py").write_text("class\n", "utf-8")
    code, out, err = call("--try", *words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.usefixtures("quick")
def test_what_rests_on_a_broken_promise_is_not_tried(call, tmp_path):
    body = """
    def work(self, job):  # HERE
        noise = float(torch.rand(1))
        return {**(yield from super().work(job)), "noise": noise}
    """
    write(tmp_path, body)
    code, out, _ = call("--try", "mine.py")
    assert code == 1
    assert f"at {here(tmp_path).rpartition('/')[2]}\n" in out
    assert "untried   the same seed gives the same result\n          until this holds: nothing draws from" in out
    assert "untried   a cohort learns" in out
    assert out.endswith("\n2 of 9 promises are broken; 3 not tried.\n")


def test_a_scenario_beside_it_is_refused(call):
    code, out, err = call("first.yaml", "--try", "fedavg")
    assert (code, out) == (2, "")
    assert "leave a scenario out" in err


def test_a_file_is_a_module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "own" / "many"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", "utf-8")
    assert files.module("own/many") == files.module("own/many/__init__.py") == "tried.many"
    monkeypatch.syspath_prepend(str(tmp_path))
    assert files.module("own/many") == "own.many"
    assert files.module(algorithms.__path__[0] + "/fedavg.py") == "fedavg"


def test_values_of_options_are_read_as_yaml():
    part = command.named(["fedprox", "mu=0.5", "names=[a, b]", "weight_by=train"])
    assert part == Part(name="fedprox", options={"mu": 0.5, "names": ["a", "b"], "weight_by": "train"})


def test_a_report_in_words():
    sections = [
        ("it holds", []),
        ("it holds, with a remark", [Finding("note", "look here")]),
        ("it may hold", [Finding("untried", "until that holds")]),
        ("it does not", [broken("this is so", "mine.py:3", "do that"), broken("and this is " + "odd " * 20)]),
    ]
    lines = [line for section in sections for line in command.report(section)]
    assert lines[:9] == [
        "holds     it holds",
        "holds     it holds, with a remark",
        "          look here",
        "untried   it may hold",
        "          until that holds",
        "BROKEN    it does not",
        "          this is so",
        "          at mine.py:3",
        "          -> do that",
    ]
    assert max(map(len, lines)) <= 80
    assert command.summary(sections) == "1 of 4 promises is broken; 1 not tried."
