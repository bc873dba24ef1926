"""What `--list` shows: every part in a line, and of one part each option with all there is to know of it."""

import re

import pytest

from fedsim.core.errors import UserError
from fedsim.scenario.parts import find, options
from fedsim.sweep import listing

EVERY = [(kind, name) for kind in find.KINDS for name in find.names(kind)]
FILE = re.compile(r"[\w/]+\.(?:md|txt)\b")


def test_the_list_names_everything_in_80_columns(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call("--list")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for kind, name in EVERY:
        assert any(line.startswith(f"  {name}:") for line in out.splitlines())
        assert listing.entry(kind, name)[0]
    only = call("--list", "protocol")[1]
    assert "McMahan" not in only
    assert call("--list", "protocols") == call("--list", "Protocol") == (0, only, "")
    assert call("--list", "all")[1] == out


def test_every_option_of_every_part_has_a_type_a_default_and_a_meaning():
    count = 0
    for kind, name in EVERY:
        for option in options.of(kind, name)[1]:
            assert option.meaning, f"{kind} {name}: write a comment beside {option.name}"
            assert option.default
            assert not re.search(r"\b(None|Literal|Optional|tuple|[A-Z]\w*Draw)\b|\[", option.type), option
            count += 1
    assert count > 300


def test_a_part_is_shown_with_source_options_defaults_units_and_spans(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call("--list", "algorithm", "power")
    flat = " ".join(out.split())
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "source: Zhu, Hu and Wu, KDD 2025" in flat
    assert "beta: share, such as 0.3 or 30 % (default 0.01; --tune searches 0.01 to 0.5, log) share of the new" in flat
    assert "preset: paper or official (default paper)" in flat
    outage = " ".join(call("--list", "effect", "outage")[1].split())
    assert "length: time above 0, such as 50 ms (required) mean length of an outage" in outage
    assert "window: time above 0, such as 50 ms (default 0.5 s)" in " ".join(
        call("--list", "effect", "trace")[1].split()
    )
    assert "It has no options." in call("--list", "codec", "bfloat16")[1]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_no_text_of_a_part_names_a_file_that_users_do_not_have(kind, name):
    text = "\n".join(listing.details(kind, name, 80))
    assert not [file for file in FILE.findall(text) if not file.startswith("docs/")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algoritm"], "there is no such kind; did you mean 'algorithm'?"),
        (["power"], "did you mean --list algorithm power?"),
        (["algorithm", "FedAvg"], "did you mean 'fedavg'?"),
        (["algorithm", "Fed-ERGNN"], "did you mean 'fed_ergnn'?"),
        (["algorithm", "fedavg", "powr"], "did you mean 'power'?"),
        (["algorithm", "../x"], "is not an algorithm"),
    ],
)
def test_a_wrong_word_gets_a_hint_and_2(call, words, message):
    code, out, told = call("--list", *words)
    assert (code, out) == (2, "")
    assert message in told


def test_several_parts_of_a_kind_are_shown_one_after_the_other(call):
    code, out, _ = call("--list", "effect", "loss", "trace")
    assert code == 0
    one, other = (call("--list", "effect", name)[1] for name in ("loss", "trace"))
    assert out == f"{one}\n{other}"


def test_every_kind_is_known_in_the_plural_and_by_its_key():
    plurals = {"topology": "topologies"}
    for kind, known in find.KINDS.items():
        for word in (kind, kind.upper(), plurals.get(kind, f"{kind}s"), known.key):
            assert listing.chosen([word]) == ([kind], [])
    with pytest.raises(UserError):
        listing.chosen(["parts"])


def test_a_part_of_the_user_s_own_is_shown_too(call, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lab_list").mkdir()
    (tmp_path / "lab_list" / "fog.py").write_text(
        '"""Fog over the links (Mist, 2024)."""\n'
        "from dataclasses import dataclass\nfrom fedsim.net.effect import Effect\nfrom fedsim.core.units import "
        "Seconds\n"
        "@dataclass(frozen=True)\nclass Fog(Effect):\n    depth: Seconds = 0.25  # of the fog\n"
    )
    code, out, told = call("--list", "effect", "lab_list.fog")
    assert (code, told) == (0, "")
    assert "Fog over the links" in out
    assert "source: Mist, 2024" in out
    assert "Fog(" not in out
    assert "depth: time, such as 50 ms (default 250 ms) of the fog" in " ".join(out.split())
