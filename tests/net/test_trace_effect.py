"""Rates that vary: traces are read, dealt out and followed, and bytes under way feel it."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from netlab import down, up, world
from pydantic import TypeAdapter, ValidationError

from fedsim.core.errors import UserError
from fedsim.net.effects.outage import Outage
from fedsim.net.effects.trace import Trace
from fedsim.net.measurements import traces
from fedsim.net.model import NetworkModel


def write(folder, text, name="one.txt"):
    path = folder / name
    path.write_text(text)
    return path


def mean_rate(trace):
    """The mean rate over the period of a trace in bit/s."""
    return float(trace.rates @ np.diff(trace.times, append=trace.period)) / trace.period


@pytest.fixture(scope="module")
def collected():
    """The folder of collected traces."""
    given = os.environ.get("FEDSIM_DATA")
    folder = Path(given) / "traces" if given else None
    if folder is None or not folder.is_dir():
        pytest.skip("FEDSIM_DATA is not set or has no folder traces: no collected traces to read")
    return folder


def test_seconds_and_megabits_are_read_from_the_first_sample_on(tmp_path):
    trace = traces.read(write(tmp_path, "# a comment\n10\t2.5\n11.5 0\n\n12.0\t1e1\n"))
    assert trace.times.tolist() == [0.0, 1.5, 2.0]
    assert trace.rates.tolist() == [2.5e6, 0.0, 10e6]
    assert trace.period == 2.5  # the last is held as long as the one before
    assert mean_rate(trace) == pytest.approx((2.5e6 * 1.5 + 10e6 * 0.5) / 2.5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=200).filter(any), st.sampled_from([0.1, 0.25, 0.5, 3.0]))
def test_packets_are_counted_once_each(tmp_path_factory, gaps, window):
    stamps = np.cumsum(gaps)
    path = write(tmp_path_factory.mktemp("packets"), "".join(f"{stamp}\n" for stamp in stamps))
    trace = traces.read(path, window)
    width = trace.period / len(trace.times)
    assert trace.period == stamps[-1] / 1000
    assert np.diff(trace.times) == pytest.approx(width)
    assert mean_rate(trace) * trace.period == pytest.approx(len(stamps) * 12_000)
    if len(trace.times) > 1:
        assert window * 2 / 3 <= width <= window * 4 / 3
    for time, rate in zip(trace.times, trace.rates, strict=True):
        inside = (stamps / 1000 > time + 1e-9) & (stamps / 1000 <= time + width + 1e-9) | (stamps == 0) & (time == 0)
        assert rate * width / 12_000 == pytest.approx(inside.sum())


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1 2\n2 x\n", 2, "'2 x' is not two numbers"),
        ("1 2\n2 nan\n", 2, "'2 nan' is not two numbers"),
        ("1 2\n\n3\n", 3, "1 words where the lines before have 2"),
        ("1 2\n1 3\n", 2, "1 s does not come after 1 s; sort by time"),
        ("1 2\n0.5 3\n", 2, "0.5 s does not come after 1 s"),
        ("1 -2\n", 1, "a rate of -2 Mbit/s; it must not be negative"),
        ("1\n2\n2.5\n", 3, "2.5 is not a millisecond"),
        ("1\n-2\n", 2, "-2 is not a millisecond"),
        ("5\n4\n", 2, "4 ms comes before 5 ms; sort by time"),
        ("1 2 3\n", 1, "a line is either one millisecond or seconds and Mbit/s"),
        ("client,time_s,uplink_mbps\n0,1,2\n", 1, "a table with commas belongs to the option 'rates'"),
    ],
)
def test_what_is_no_trace_is_reported_with_its_line(tmp_path, text, line, message):
    path = write(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        Trace(trace=path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")


def test_files_and_folders_that_hold_no_trace_are_reported(tmp_path):
    for text, message in [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("0\n0\n", "longer than 0 ms"),
    ]:
        with pytest.raises(UserError, match=message):
            traces.read_all(write(tmp_path, text))
    (tmp_path / "one.txt").write_bytes(b"1 2\n\xff\xfe\n")
    with pytest.raises(UserError, match="line 2: not text"):
        traces.read_all(tmp_path)
    (tmp_path / "one.txt").rename(tmp_path / ".hidden")
    with pytest.raises(UserError, match="holds no file"):
        traces.read_all(tmp_path)


def followed(effect, times, clients=1, row="downlink", seed=0):
    """Return the rates of all clients in Mbit/s at these times, (times, K)."""
    here, found = world(clients=clients, effects=[effect], seed=seed), []
    for time in times:
        here.env.run(until=time)
        found.append(getattr(here.nodes, row) / 1e6)
    return np.array(found)


STEPS = "0 1\n1 1\n2 2\n4 0\n"  # 1 Mbit/s for 2 s, 2 for 2 s, none for 2 s


def test_a_trace_is_followed_and_starts_over(tmp_path):
    path, times = write(tmp_path, STEPS), np.arange(0.5, 20.0)
    looped = followed(Trace(trace=path, shift=False), times)[:, 0]
    assert looped.tolist() == [[1, 1, 2, 2, 0, 0][int(time) % 6] for time in times]
    once = followed(Trace(trace=path, shift=False, loop=False), times)[:, 0]
    assert once.tolist() == [1, 1, 2, 2, *[0] * 16]
    assert (followed(Trace(trace=path), times, row="uplink") == 8).all()
    both = Trace(trace=path, shift=False, direction="both", scale=3.0, least=2e6)
    for row in ("uplink", "downlink"):
        assert followed(both, times[:6], row=row)[:, 0].tolist() == [3, 3, 6, 6, 2, 2]


def test_shifted_clients_are_anywhere_in_the_trace(tmp_path):
    """A third of the time each rate, at any time (5 sigma of 600 clients)."""
    path = write(tmp_path, STEPS)
    seen = followed(Trace(trace=path), [1e-9, 3.3, 50.0], clients=600)
    for rates in seen:
        for rate in (0, 1, 2):
            assert np.mean(rates == rate) == pytest.approx(1 / 3, abs=5 * math.sqrt(2 / 9 / 600))
    np.testing.assert_array_equal(seen, followed(Trace(trace=path), [1e-9, 3.3, 50.0], clients=600))
    assert (seen != followed(Trace(trace=path), [1e-9, 3.3, 50.0], clients=600, seed=1)).any()


def test_a_folder_is_dealt_out(tmp_path):
    for number in range(3):
        write(tmp_path, f"0 {number + 1}\n1 {number + 1}\n", f"{number}.txt")
    (tmp_path / "more").mkdir()
    assert followed(Trace(trace=tmp_path, assign="in_order"), [5.0], clients=7)[0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    dealt = followed(Trace(trace=tmp_path), [5.0], clients=300)[0]
    assert {1.0, 2.0, 3.0} == set(dealt)
    assert dealt.tolist() != sorted(dealt)


def test_a_constant_trace_costs_nothing_as_time_goes_by(tmp_path):
    here = world(effects=[Trace(trace=write(tmp_path, "".join(f"{time} 3\n" for time in range(1000))))])
    here.env.run()
    assert here.env.now == 0
    assert here.nodes.downlink.tolist() == [3e6]


def test_a_table_names_clients(tmp_path):
    path = write(tmp_path, "time_s,client,uplink_mbps,downlink_mbps\n5,1,2,\n1,1,1,10\n3,2,,20\n8,1,,0\n", "rates.csv")
    times = [0.5, 1.5, 5.5, 8.5]
    ups = followed(Trace(rates=path), times, clients=3, row="uplink")
    downs = followed(Trace(rates=path), times, clients=3)
    assert ups.T.tolist() == [[8] * 4, [8, 1, 2, 2], [8] * 4]
    assert downs.T.tolist() == [[8] * 4, [8, 10, 10, 0], [8, 8, 20, 20]]
    assert followed(Trace(rates=path, scale=2.0, least=1e6), times, clients=3)[:, 1].tolist() == [8, 20, 20, 1]


def test_wrong_tables_of_rates_are_reported_by_their_line(tmp_path):
    for text, message in [
        ("client,time_s,uplink_mbps\n0,1,2\n0,1,3\n", r"line 3: client 0 has rates for 1 s already \(line 2\)"),
        ("client,time_s\n0,1\n", "line 1: no rates; add a column 'uplink_mbps'"),
        ("client,time_s,uplink_mbps\n0,1,-2\n", "line 2: column 'uplink_mbps': -2 is out of range"),
    ]:
        with pytest.raises(UserError, match=message):
            Trace(rates=write(tmp_path, text, "rates.csv"))
    path = write(tmp_path, "client,time_s,uplink_mbps\n0,1,2\n4,1,2\n", "rates.csv")
    with pytest.raises(UserError, match="line 3: there is no client 4; there are 4 clients"):
        world(clients=4, effects=[Trace(rates=path)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a table of 'rates' or a 'trace'"),
        ({"rates": Path("a"), "trace": Path("b")}, "one of them"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Trace(**options)


def test_options_come_from_a_scenario(tmp_path):
    path = write(tmp_path, STEPS)
    read = TypeAdapter(Trace).validate_python
    assert read({"trace": str(tmp_path), "least": "1 Mbit/s", "window": "1 s"}) == Trace(
        trace=tmp_path, least=1e6, window=1.0
    )
    with pytest.raises(ValidationError, match="there is no such file; did you mean"):
        read({"trace": str(path.with_name("on.txt"))})
    with pytest.raises(ValidationError, match="is a folder"):
        read({"rates": str(tmp_path)})


def arrival(changes, nbytes, start=0.0):
    """When so many bytes have gone at the rates (bit/s) that hold from these times on."""
    left, now = 8.0 * nbytes, start
    for (time, rate), (end, _) in zip(changes, [*changes[1:], (math.inf, 0)], strict=True):
        begin = max(now, time)
        if end > begin:
            if rate * (end - begin) >= left:
                return begin + left / rate
            left, now = left - rate * (end - begin), end
    return math.inf


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0, 0.5, 1, 3, 7.3, 20])), min_size=1, max_size=8),
    st.integers(1, 4_000_000),
)
@example([(32, 1), (40, 0.5), (30, 0.5), (18, 0)], 4_000_000)
def test_bytes_under_way_feel_every_change(tmp_path_factory, steps, nbytes):
    """Against the integral of the rate; the last rate is high enough for the rest."""
    times = np.cumsum([gap for gap, _ in steps]) / 10
    changes = [(0.0, 8e6), *((float(time), rate * 1e6) for time, (_, rate) in zip(times, steps, strict=True))]
    changes.append((float(times[-1]) + 1, 10e6))
    rows = "".join(f"0,{time!r},{rate / 1e6!r}\n" for time, rate in changes[1:])
    path = write(tmp_path_factory.mktemp("rates"), f"client,time_s,uplink_mbps\n{rows}", "rates.csv")
    here = world(latency=0.0, effects=[Trace(rates=path)], model=NetworkModel())
    here.network.send(up(0, nbytes))
    here.env.run()
    # rounding decides whether a message that ends just when the rate falls to 0 ends before that or after the pause
    first, last = (arrival(changes, nbytes * part) for part in (1 - 1e-12, 1 + 1e-12))
    assert first - 1e-6 <= here.rows[0].arrived <= last + 1e-6
    assert here.network.meters(True)[0] == pytest.approx(nbytes, rel=1e-9)


def test_a_transfer_that_begins_without_any_rate_waits(tmp_path):
    path = write(tmp_path, "client,time_s,downlink_mbps\n0,0,0\n0,5,8\n", "rates.csv")
    here = world(effects=[Trace(rates=path)])
    here.env.run(until=1)
    here.network.send(down(0, 1_000_000))
    here.env.run()
    assert [row.fate for row in here.rows] == ["delivered"]
    assert 6.0 < here.rows[0].arrived < 6.2


def test_a_trace_and_outages_on_one_client_do_not_undo_one_another(tmp_path):
    effects = [Trace(trace=write(tmp_path, STEPS), shift=False), Outage(every=5.0, length=4.0, times="fixed")]
    here = world(effects=effects)
    for time in np.arange(0.5, 60.0):
        here.env.run(until=time)
        expected = [1, 1, 2, 2, 0, 0][int(time) % 6] * (time % 9 < 5)
        assert here.nodes.downlink[0] == expected * 1e6


@pytest.mark.data
@pytest.mark.parametrize(("folder", "files", "median"), [("fcc", 127, 1.07), ("hsdpa", 80, 1.32)])
def test_collected_traces_are_read(collected, folder, files, median):
    """Medians in Mbit/s as numpy finds them in the same files."""
    found = traces.read_all(collected / folder)
    assert len(found) == files
    assert np.median([np.median(trace.rates) for trace in found]) / 1e6 == pytest.approx(median, abs=0.01)
    for trace, path in zip(found, sorted((collected / folder).iterdir()), strict=True):
        raw = np.loadtxt(path, ndmin=2)
        assert trace.rates.tolist() == (raw[:, 1] * 1e6).tolist()
        assert trace.times.tolist() == (raw[:, 0] - raw[0, 0]).tolist()
    here = world(clients=20, effects=[Trace(trace=collected / folder)])
    here.env.run(until=60)
    assert (here.nodes.downlink != 8e6).all()
