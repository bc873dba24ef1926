"""Defaults as scenarios write them: spelled out, they build the same parts, read back, and make no other point."""

import dataclasses
import math
import sys
import textwrap
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml
from pydantic import TypeAdapter
from scenario_texts import SMALL
from test_find import lab

from fedsim.core import units
from fedsim.scenario.part import Part
from fedsim.scenario.parts import defaults, find, lookup, options, source
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import yaml_file

__all__ = ["lab"]  # a fixture
SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
KINDS = [(kind, name) for kind in find.KINDS for name in find.names(kind)]


@pytest.mark.parametrize(("kind", "name"), KINDS, ids=lambda value: value)
def test_every_default_of_the_project_can_be_written_in_a_scenario(kind, name):
    cls = find.find(kind, Part(name=name), kind)
    told = options.spelled_out(kind, Part(name=name)).options
    own = {field.name: defaults.default(field) for field in source.option_fields(cls)}
    assert told.keys() == {key for key, default in own.items() if default is not dataclasses.MISSING}
    assert [*told] == [key for key in own if key in told]  # in the order of the class
    for key, written in told.items():
        assert defaults.same(written, defaults.plain(own[key])) or _read(cls, key, written) == own[key]


def _read(cls, key, written):
    """What a class makes of an option as a scenario writes it."""
    return TypeAdapter(get_type_hints(cls, include_extras=True)[key]).validate_python(written)


@pytest.mark.long
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_resolved_points_of_the_project_read_back_to_the_same(path, tmp_path):
    with lookup.within_reach(path.parent):
        points = [*yaml_file.load(path)[0].points()]
        for point in points[:: max(1, len(points) - 1)]:  # the first and the last
            file = tmp_path / "scenario.yaml"
            file.write_text(yaml_file.dump(point.scenario), encoding="utf-8")
            read, _ = yaml_file.load(file)
            assert read == point.scenario
            assert read.id() == point.id
            [again] = read.points()
            assert again.id == point.id
            for kind, key, part in point.scenario.parts():
                assert find.check(kind, part, key) == []
                assert options.spelled_out(kind, part) == part
                bare = options.spelled_out(kind, options.bare(kind, part))
                assert units.canonical(bare.options) == units.canonical(part.options)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("algorithm: fedavg", "algorithm: {name: fedavg, weight_by: period}\naggregation: mean"),
        ("{name: gcn, hidden: 8}", "{name: gcn, hidden: 8, layers: 2, dropout: 50 %}"),
        ("{name: loss, rate: 1 %}", "{name: diurnal, peak_at: 0 min, day: 24 h, every: 3600}"),
        ("dataset: digits", "dataset: {name: arriving, of: {name: digits, neighbours: 10}, growth: 90 %}"),
    ],
)
def test_a_default_that_is_written_out_makes_no_other_point(old, new):
    first = {"{name: loss, rate: 1 %}": "diurnal", "dataset: digits": "dataset: {name: arriving, of: digits}"}
    one, other = (
        Scenario.model_validate(yaml.safe_load(SMALL.replace(old, text))) for text in (first.get(old, old), new)
    )
    [point], [same] = one.points(), other.points()
    assert one.id() == other.id() == point.id == same.id


OPTIONS = """
    import math
    from dataclasses import dataclass, field
    from fedsim.core import units
    from fedsim.net.effect import Effect
    from fedsim.core.units import Bytes, Clock, Count, Rate, Seconds, SecondsDraw, SECONDS, Updates
    from {values} import SIZES

    HOUR = 60 * 60.0
    TWICE = 1
    TWICE = 2

    @dataclass(frozen=True)
    class Fog(Effect):
        number: float = -1.5
        power: int = 2**10
        wait: Seconds = HOUR / 2
        rate: "Rate | None" = 2e6
        size: units.Bytes = 64_000
        every: Clock = Updates(3)
        gap: SecondsDraw = SECONDS.draw("uniform(1 s, 2 s)")
        sizes: tuple[int, ...] = SIZES
        none: list[int] = field(default_factory=list)
        word: str = field(default="a b")
        count: Count = 0
        twice: int = TWICE
        computed: float = math.sqrt(2.0)
        endless: float = float("inf")
        shown: int = field(default=1, init=False)
"""


def test_defaults_are_written_as_scenarios_write_them(lab):
    values = lab("values", "SIZES = (1, 2)\n")
    name = lab("fog", textwrap.dedent(OPTIONS).format(values=values))
    told = options.spelled_out("effect", Part(name=name, options={"number": 3, "unknown": 1})).options
    assert told == {
        "number": 3, "power": 1024, "wait": "30 min", "rate": "2 Mbit/s", "size": "64 kB", "every": "3 updates",
        "gap": "uniform(1 s, 2 s)", "sizes": [1, 2], "none": [], "word": "a b", "count": 0, "twice": 2,
        "computed": math.sqrt(2.0), "unknown": 1,
    }  # fmt: skip
    del told["unknown"]
    built, bare = (find.build("effect", Part(name=name, options=given)) for given in (told, {"number": 3}))
    assert built == bare
    assert options.bare("effect", Part(name=name, options=told | {"wait": "1800 s"})).options == {"number": 3}


@pytest.mark.parametrize(
    ("default", "another"), [("1", "2"), ("LEAST", "LEAST + 1"), ("field(default=1)", "field(default=2)")]
)
def test_a_point_s_id_changes_with_a_default(lab, default, another):
    text = """
        from dataclasses import dataclass, field
        from fedsim.net.effect import Effect
        LEAST = 1
        @dataclass(frozen=True)
        class Fog(Effect):
            depth: int = {}
    """

    def scenario(name, **options):
        effects = {"effects": [{"name": name, **options}]}
        raw = yaml.safe_load(SMALL)
        return Scenario.model_validate(raw | {"network": raw["network"] | effects})

    name = lab("fog", text.format(default))
    before, [point] = scenario(name).id(), [*scenario(name).points()]
    assert before == scenario(name, depth=1).id() != scenario(name, depth=2).id()
    path = lookup.file_of(name)
    path.write_text(textwrap.dedent(text.format(another)) + "# longer\n")
    del sys.modules[name]  # as in another process
    assert scenario(name).id() == scenario(name, depth=2).id() != before
    [changed] = scenario(name).points()
    assert changed.written == point.written  # by which the old one is known


def test_what_the_class_alone_says_is_not_held_against_its_types(lab):
    text = """
        from dataclasses import dataclass
        from fedsim.net.effect import Effect
        @dataclass(frozen=True)
        class Fog(Effect):
            depth: int = None
    """
    part = Part(name=lab("fog", text))
    told = options.spelled_out("effect", part).options
    assert told == {"depth": None}
    assert find.build("effect", Part(name=part.name, options=told)).depth is None
