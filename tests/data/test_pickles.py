"""Files that could run code are refused before anybody unpickles them; what arrays are made of is not."""

import collections
import os
import pickle

import homes
import numpy as np
import pytest
import scipy.sparse as sp

from fedsim.core.errors import UserError
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.files.pickles import refuse_code


class Evil:
    """Unpickling it makes a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


PLAIN = [
    {0: [1, 2], 5: [0]},
    collections.defaultdict(list, {1: [2]}),
    np.arange(6).reshape(2, 3),
    sp.csr_matrix(np.eye(3)),
]


@pytest.mark.parametrize("protocol", [0, 1, 2])
@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_what_graphs_are_made_of_may_be_read(tmp_path, value, protocol):
    path = tmp_path / "plain"
    path.write_bytes(pickle.dumps(value, protocol))
    refuse_code(path)


@pytest.mark.parametrize("protocol", range(6))
def test_any_other_name_is_refused_in_every_protocol(tmp_path, protocol):
    path = tmp_path / "evil"
    path.write_bytes(pickle.dumps([1, Evil(tmp_path / "made")], protocol))
    with pytest.raises(UserError, match=r"evil could run code when it is read: it requests .*; copy the file"):
        refuse_code(path)


def test_code_before_the_end_of_a_torn_pickle_is_seen(tmp_path):
    path = tmp_path / "torn"
    path.write_bytes(pickle.dumps(Evil(tmp_path / "made"), 2)[:-1])
    with pytest.raises(UserError, match="could run code"):
        refuse_code(path)


@pytest.mark.parametrize("number", ["I0x10", "L0x10"])  # read by C's rules
def test_code_behind_an_odd_number_is_seen(tmp_path, number):
    path, made = tmp_path / "hex", tmp_path / "made"
    path.write_bytes(f"{number}\n0cos\nmkdir\n(S'{made}'\ntR.".encode())
    with pytest.raises(UserError, match=r"could run code .* requests 'os.mkdir'; copy the file"):
        refuse_code(path)
    assert not made.exists()
    with path.open("rb") as file:
        pickle.load(file)
    assert made.is_dir()  # so it had to be refused


def test_what_is_no_pickle_is_refused(tmp_path):
    np.savez(tmp_path / "some.npz", fine=np.arange(3))
    with pytest.raises(UserError, match="no pickle that can be read completely"):
        refuse_code(tmp_path / "some.npz")


def test_a_data_set_with_such_a_file_is_refused_and_nothing_has_run(tmp_path, monkeypatch):
    homes.move(monkeypatch, tmp_path / "home")
    raw = tmp_path / "data" / "Cora" / "raw"
    raw.mkdir(parents=True)
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        (raw / f"ind.cora.{part}").write_bytes(pickle.dumps(Evil(tmp_path / "made"), 2))
    with pytest.raises(UserError, match="could run code when it is read"):
        Planetoid("Cora").load(tmp_path / "data", 0)
    assert not (tmp_path / "made").exists()
