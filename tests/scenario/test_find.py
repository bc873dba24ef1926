import sys
import textwrap

import pytest
import simpy

from fedsim.core.errors import ScenarioError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, source

EFFECT = """
    from dataclasses import dataclass
    from typing import ClassVar
    from fedsim.net.effect import Effect
    from fedsim.core.units import Fraction, Seconds

    @dataclass(frozen=True)
    class Fog(Effect):
        most: Seconds
        rate: Fraction = 0.1
        kind: ClassVar[str] = "x"

        def __post_init__(self):
            if self.most > 10:
                raise ValueError("most: the fog lifts after 10 s")
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Write modules of a package that this process has never seen, and return its name."""
    package = f"lab_{abs(hash(str(tmp_path)))}"
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
        return f"{package}.{name}"

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


def messages(kind, part):
    return [str(problem) for problem in find.check(kind, part)]


def build_error(kind, part):
    with pytest.raises(ScenarioError) as caught:
        find.build(kind, part)
    return str(caught.value)


def test_a_part_is_built_with_its_options_in_si(lab):
    fog = find.build("effect", Part(name=lab("fog", EFFECT), options={"most": "500 ms"}))
    assert (type(fog).__name__, fog.most, fog.rate) == ("Fog", 0.5, 0.1)


def test_options_of_base_classes_in_other_files_are_known(lab):
    above = lab("fog", EFFECT)
    below = lab(
        "thick_fog",
        f"""
        import dataclasses
        from {above} import Fog as Thin

        @dataclasses.dataclass(frozen=True)
        class ThickFog(Thin):
            depth: int = 2
            cache: dict = dataclasses.field(init=False, default_factory=dict)
        """,
    )
    assert find.check("effect", Part(name=below, options={"most": "1 s", "depth": 3})) == []
    [wrong] = messages("effect", Part(name=below, options={"most": "1 s", "dept": 3}))
    assert "has no option 'dept'" in wrong
    assert wrong.endswith("did you mean 'depth'? Its options: most, rate, depth")
    assert find.build("effect", Part(name=below, options={"most": "1 s", "depth": 3})).depth == 3


@pytest.mark.parametrize("look", [messages, build_error])
def test_an_unknown_option_names_key_file_and_the_nearest(lab, look):
    part = Part(name=lab("fog", EFFECT), options={"most": "1 s", "rat": 0.2})
    text = "".join(look("effect", part))
    assert text.startswith("network.effects.rat: 'fog' has no option 'rat' (")
    assert text.endswith("/fog.py); did you mean 'rate'? Its options: most, rate")


@pytest.mark.parametrize("look", [messages, build_error])
def test_a_missing_option_is_named(lab, look):
    assert "'fog' needs the option 'most'" in "".join(look("effect", Part(name=lab("fog", EFFECT))))


@pytest.mark.parametrize("look", [messages, build_error])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "jiter",
            "there is no fedsim/net/effects/jiter.py, nor effects/jiter.py beside the scenario; did you mean 'jitter'",
        ),
        ("nowhere.fog", "there is no module of that name"),
        ("../jitter", "is not an effect"),
        ("_hidden", "is not an effect"),
        ("", "is not an effect"),
    ],
)
def test_an_unknown_name_is_reported(look, name, message):
    assert message in "".join(look("effect", Part(name=name)))


def test_a_misspelt_module_is_told_its_neighbours_and_a_file_of_data_how_it_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "fogs.py").write_text("x = 1\n")
    assert messages("effect", Part(name="mylab.fog"))[0].endswith("did you mean 'mylab.fogs'? There are: mylab.fogs")
    assert messages("dataset", Part(name="g.npz"))[0].endswith("this folder; a file is {name: file, file: g.npz}")
    assert messages("effect", Part(name="nowhere.fog"))[0].endswith("seen from this folder")


@pytest.mark.parametrize("look", [messages, build_error])
def test_a_file_without_its_class_or_with_two_is_reported(lab, look):
    assert "defines no Effect" in "".join(look("effect", Part(name=lab("empty", "x = 1"))))
    two = EFFECT + "\n    class Haze(Fog):\n        pass\n\n    class Mist(Fog):\n        pass\n"
    assert "defines 3 of the kind Effect (Fog, Haze, Mist)" in "".join(look("effect", Part(name=lab("weather", two))))


def test_of_several_the_one_called_like_the_file_is_taken(lab):
    two = EFFECT + "\n    class Haze(Fog):\n        pass\n"
    part = Part(name=lab("haze", two), options={"most": "1 s"})
    assert find.check("effect", part) == []
    assert type(find.build("effect", part)).__name__ == "Haze"


@pytest.mark.parametrize("look", [messages, build_error])
def test_a_file_that_is_not_python_is_reported(lab, look):
    told = "".join(look("effect", Part(name=lab("broken", "def f(:\n"))))
    assert "broken.py" in told


def test_a_file_that_misses_a_package_is_reported(lab):
    part = Part(name=lab("needy", "import no_such_package_here\n" + textwrap.dedent(EFFECT)), options={"most": "1 s"})
    assert "cannot be imported: No module named 'no_such_package_here'" in build_error("effect", part)


@pytest.mark.parametrize(
    "line", ["from analysis import words", "import analysis.words", "from analysis.words import A"]
)
def test_a_package_that_is_called_like_one_of_fedsims_is_named(lab, line):
    part = Part(name=lab("wordy", f"{line}\n" + textwrap.dedent(EFFECT)), options={"most": "1 s"})
    assert "'analysis' is a package of fedsim: rename yours, or import with a dot" in build_error("effect", part)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"most": "1 Mbit/s"}, "network.effects.most: '1 Mbit/s' is not a time: 'Mbit/s' is a unit of rate"),
        ({"most": "1 s", "rate": 3}, "network.effects.rate: 3 is not a fraction: it must lie between 0 and 1"),
        ({"most": "11 s"}, "network.effects.most: the fog lifts after 10 s ("),
    ],
)
def test_wrong_values_are_reported_in_plain_words(lab, options, message):
    assert message in build_error("effect", Part(name=lab("fog", EFFECT), options=options))


def test_an_abstract_class_is_reported(lab):
    text = "from fedsim.clock.protocol import Protocol\n\nclass Half(Protocol):\n    pass\n"
    assert "Half in " in (told := build_error("protocol", Part(name=lab("half", text))))
    assert "lacks run" in told


@pytest.mark.parametrize("kind", sorted(find.KINDS))
def test_every_file_of_a_kind_is_recognised_without_being_imported(kind):
    for name in find.names(kind):
        assert source.defines(f"{find.KINDS[kind].package}.{name}", find.KINDS[kind].contract), name
    other = "effect" if kind != "effect" else "codec"
    assert not source.defines(f"{find.KINDS[other].package}.{find.names(other)[0]}", find.KINDS[kind].contract)


def test_an_error_in_a_line_is_its_class_and_the_line_that_says_something():
    def process(env):
        yield 5

    env = simpy.Environment()
    env.process(process(env))
    with pytest.raises(RuntimeError) as caught:
        env.run()
    assert source.in_a_line(caught.value) == 'RuntimeError: Invalid yield value "5"'
    assert source.in_a_line(ValueError("one\ntwo")) == "ValueError: one"
    assert source.in_a_line(KeyError()) == "KeyError: "
