"""docs/own_data.md, run from its first line to its last, in an empty folder."""

import pages
import pytest

pytestmark = pytest.mark.long

TEXT = pages.text_of("own_data")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pages.run("own_data", tmp_path_factory.mktemp("own_data")) as names:
        yield names


def test_no_block_is_left_out():
    assert len([*pages.BLOCK.finditer(TEXT)]) == TEXT.count("\n```") / 2


def test_the_command_line_has_made_the_report(found):
    assert (found["folder"] / "runs" / "images" / "report" / "report.html").is_file()


def test_the_line_is_learned_by_either_loss(found):
    assert found["vitals"].runs["score"][0] > 0.9
    assert found["absolute"].runs["score"][0] > 0.5
    assert {*found["absolute"].scores["metric"]} == {"r2", "mae"}
