"""What FedAvg sends, counted by hand: numbers times 4 bytes, their names and shapes, and the envelope."""

import pytest
import small_points

from fedsim.core.record import SERVER

FEATURES, HIDDEN, CLASSES = 10, 6, 4
CLIENTS, ROUNDS = 5, 4

# One byte says the length of a short text, map or list; a number in the tree takes a mark of one byte and 8 raw ones.
NUMBER = 1 + 8
LENGTH_OF_SKELETON = 4


def text(word):
    return 1 + len(word)


def array(*shape):
    """A list of a mark (-2), the dtype, and each length (one byte below 128); then 4 bytes a number."""
    numbers = 1
    for length in shape:
        assert length < 128
        numbers *= length
    return 1 + 1 + text("float32") + len(shape) + 4 * numbers


def layer(inputs, outputs):
    return 1 + text("weight") + array(inputs, outputs) + text("bias") + array(outputs)


MODEL = 1 + text("layer1") + layer(FEATURES, HIDDEN) + text("layer2") + layer(HIDDEN, CLASSES)
ENVELOPE = (
    LENGTH_OF_SKELETON
    + 1
    + (text("src") + NUMBER)
    + (text("dst") + NUMBER)
    + (text("kind") + text("train"))
    + (text("version") + NUMBER)
)
DOWN = ENVELOPE + LENGTH_OF_SKELETON + 1 + text("model") + MODEL
UP = ENVELOPE + LENGTH_OF_SKELETON + 1 + text("update") + MODEL + text("samples") + NUMBER


def test_the_sums_by_hand():
    assert ENVELOPE == 4 + 1 + (4 + 9) + (4 + 9) + (5 + 6) + (8 + 9) == 59
    floats = FEATURES * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
    assert floats == 94
    names = 1 + 2 * (7 + 1 + 7 + 5) + 2 * (10 + 2) + 2 * (10 + 1)
    assert 4 * floats + names == MODEL


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox"])
@pytest.mark.parametrize("network", ["fluid", "naive"])
def test_a_round_takes_the_model_down_and_up_for_every_client(algorithm, network, tmp_path):
    row = small_points.run_in(
        tmp_path / "run",
        algorithm=algorithm,
        network__model=network,
        protocol={"name": "sync", "rounds": ROUNDS, "clients": CLIENTS},
    )
    assert row["bytes_down"] == ROUNDS * CLIENTS * DOWN
    assert row["bytes_up"] == ROUNDS * CLIENTS * UP
    transfers = small_points.table(tmp_path / "run", "transfers")
    for version in range(ROUNDS):
        ours = [r for r in transfers if r["version"] == version]
        assert sorted(r["nbytes"] for r in ours if r["src"] == SERVER) == [DOWN] * CLIENTS
        assert sorted(r["nbytes"] for r in ours if r["dst"] == SERVER) == [UP] * CLIENTS
    # the naive network moves the messages alone; TCP adds a header of 52 bytes a packet of 1448
    header = 0 if network == "naive" else 52
    assert row["bytes_wasted"] == header * 2 * ROUNDS * CLIENTS
    assert {r["wire_bytes"] - r["nbytes"] for r in transfers} == {header}
