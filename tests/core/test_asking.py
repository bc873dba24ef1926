"""Questions whose answers are kept within a block, and asked anew outside of it."""

import sys

import pytest

from fedsim.core.asking import asking_once, once


@pytest.fixture
def ask():
    """A question whose answers are counted."""
    asked = []

    @once
    def question(name, *, loud=False):
        asked.append(name)
        if name == "bad":
            raise ValueError(name)
        return name.upper() if loud else name

    question.asked = asked
    return question


def test_without_a_block_each_question_is_asked(ask):
    assert [ask("a"), ask("a")] == ["a", "a"]
    assert ask.asked == ["a", "a"]


def test_within_a_block_each_is_asked_once_and_blocks_within_it_share_its_answers(ask):
    with asking_once():
        assert [ask("a"), ask("b"), ask("a"), ask("a", loud=True)] == ["a", "b", "a", "A"]
        with asking_once():
            assert ask("b") == "b"
        assert ask("b") == "b"
    assert ask.asked == ["a", "b", "a"]
    ask("a")
    assert ask.asked == ["a", "b", "a", "a"]


def test_another_path_of_pythons_is_another_question(ask, monkeypatch, tmp_path):
    with asking_once():
        ask("a")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        ask("a")
    assert ask.asked == ["a", "a"]


def test_errors_are_raised_each_time_and_end_the_block(ask):
    with asking_once(), pytest.raises(ValueError, match="bad"):
        ask("bad")
    with pytest.raises(ValueError, match="bad"), asking_once():
        ask("bad")
    assert ask.asked == ["bad", "bad"]
    ask("c")
    ask("c")
    assert ask.asked[2:] == ["c", "c"]
