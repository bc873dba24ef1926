"""Splits as tables of nodes, for any data set: who is listed is there, and the others share the rest."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_points import scenario

from fedsim.core.errors import UserError
from fedsim.data.graph import MASKS, graph_of
from fedsim.data.graphs.split import SplitOptions, split_all
from fedsim.point.build import learning
from fedsim.point.build.parts import Parts

DIGITS = {"dataset": "digits", "partition": {"name": "random"}, "stream": {"name": "static", "numbered": True}}


def table(path, rows):
    path.write_text("node\n" + "".join(f"{row}\n" for row in rows))
    return str(path)


def masks_of(split, **data):
    """The rows of the whole graph in each split."""
    made = learning.made(Parts(scenario(data={**DIGITS, **data, "split": split})), None)
    found = {name: set() for name in MASKS}
    for own in made.periods:
        for name in MASKS:
            rows = own[0].graph["node"][own[0].graph[name]].tolist()
            assert not found[name] & {*rows}
            found[name] |= {*rows}
    return found


def test_a_table_is_the_test_set_and_the_rest_is_divided(tmp_path):
    test = {*range(0, 1797, 7)}
    found = masks_of({"train": 0.6, "val": 0.2, "test": table(tmp_path / "ids.csv", test)})
    assert found["test"] == test
    assert found["train"] | found["val"] == {*range(1797)} - test
    assert not found["train"] & found["val"]
    assert len(found["train"]) / (1797 - len(test)) == pytest.approx(0.75, abs=0.03)  # rounded down in each class


def test_all_three_tables_leave_everybody_else_out(tmp_path):
    listed = {"train": range(300), "val": range(300, 350), "test": range(900, 1000)}
    assert masks_of({name: table(tmp_path / f"{name}.csv", rows) for name, rows in listed.items()}) == {
        name: {*rows} for name, rows in listed.items()
    }


def test_a_table_to_train_on_and_shares_of_the_rest(tmp_path):
    found = masks_of({"train": table(tmp_path / "ids.csv", range(500)), "val": 0.5, "test": 0.5})
    assert found["train"] == {*range(500)}
    assert len(found["val"]) == pytest.approx(len(found["test"]), abs=50)
    assert found["val"] | found["test"] == {*range(500, 1797)}


def test_ids_are_those_of_the_data_set(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"v{n},v{n + 1}\n" for n in range(39)))
    (tmp_path / "nodes.csv").write_text("id,label,a\n" + "".join(f"v{n},{n % 2},{n}\n" for n in range(40)))
    own = {"name": "file", "file": str(tmp_path / "edges.csv"), "nodes": str(tmp_path / "nodes.csv")}
    found = masks_of({"test": table(tmp_path / "ids.csv", ["v3", "v7"])}, dataset=own)
    assert found["test"] == {3, 7}


def test_a_changed_table_is_another_point(tmp_path):
    path = table(tmp_path / "ids.csv", [1, 2])
    (one,) = scenario(data={**DIGITS, "split": {"test": path}}).points()
    table(tmp_path / "ids.csv", [1, 2, 3])
    (other,) = scenario(data={**DIGITS, "split": {"test": path}}).points()
    assert one.id != other.id


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_every_labelled_node_is_in_one_mask(data):
    n = data.draw(st.integers(1, 60))
    y = torch.tensor(data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)))
    place = np.array(data.draw(st.lists(st.sampled_from(["train", "test", ""]), min_size=n, max_size=n)))
    listed = data.draw(st.sampled_from([("test",), ("train",), ("test", "train")]))
    graph = graph_of(torch.zeros(n, 2), torch.zeros(2, 0), y, *(torch.tensor(place == name) for name in MASKS))
    if not bool(((place == "train") & (y.numpy() >= 0)).any()):
        return
    how = {
        "by": data.draw(st.sampled_from(["class", "client"])),
        "rounding": data.draw(st.sampled_from(["sum", "each"])),
    }
    options = SplitOptions(0.3, 0.3, test=0.4, listed=listed, **how)
    try:
        (done,) = split_all([graph], options, lambda name: np.random.default_rng(0))
    except UserError:
        assert "train" not in listed  # too few are left
        return
    known, masks = y >= 0, {name: done[name] for name in MASKS}
    for name in listed:
        assert torch.equal(masks[name], torch.tensor(place == name) & known)
    assert torch.equal(sum(mask.long() for mask in masks.values()), known.long())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([3, 1797], r"ids\.csv, line 3: column 'node': there is no node '1797' in the data set"),
        ([3, 4, 3], r"ids\.csv, line 4: the node '3' is in .*ids\.csv, line 2, too"),
        (range(1797), "no labelled node that a client owns is left to train on"),
    ],
)
def test_a_table_that_does_not_fit_names_the_line(tmp_path, rows, message):
    with pytest.raises(UserError, match=message):
        masks_of({"test": table(tmp_path / "ids.csv", rows)})


def test_a_node_is_in_one_table(tmp_path):
    with pytest.raises(UserError, match=r"b\.csv, line 2: the node '5' is in .*a\.csv, line 2, too"):
        masks_of({"val": table(tmp_path / "a.csv", [5]), "test": table(tmp_path / "b.csv", [5])})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"by": "given"}, "both say which nodes are in a split"),
        ({"numpy_seed": 1}, "both say which nodes are in a split"),
        ({"test": "absent.csv"}, "there is no such file"),
        ({"test": 1.5}, "is not a fraction"),
    ],
)
def test_what_contradicts_a_table_is_refused(tmp_path, more, message):
    with pytest.raises(ValueError, match=message):
        scenario(data={**DIGITS, "split": {"test": table(tmp_path / "ids.csv", [1]), **more}})


def test_a_stream_that_divides_nothing_takes_no_table(tmp_path):
    data = {
        "dataset": {"name": "drifting"},
        "stream": {"name": "snapshots", "every": "1 update", "steps": 4, "scored": "ahead"},
    }
    with pytest.raises(UserError, match="divides no nodes"):
        learning.made(
            Parts(scenario(data={**data, "partition": "random", "split": {"test": table(tmp_path / "i.csv", [1])}})),
            None,
        )
