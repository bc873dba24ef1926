"""The rig of real runs (benchmarks/netns): its line by hand, and how recorded runs compare with simulated ones."""

import contextlib
import importlib.util
import math
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RIG = ROOT / "benchmarks" / "netns"
SCENARIOS = sorted((ROOT / "scenarios" / "validation").glob("*.yaml"))


def module(name):
    spec = importlib.util.spec_from_file_location(f"netns_{name}", RIG / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


line, compare, spaces = (module(name) for name in ("line", "compare", "spaces"))


def command(*words, **options):
    return subprocess.run([sys.executable, str(RIG), *map(str, words)], capture_output=True, text=True, **options)


def small(folder, **changes):
    """Write a scenario of one client, 20 kB each way over 2 Mbit/s and 40 ms."""
    scenario = {
        "name": "small",
        "clients": {"count": 1, "speed": "1 GFLOP/s"},
        "network": {"latency": "20 ms", "uplink": "2 Mbit/s", "downlink": "2 Mbit/s"},
        "protocol": {"name": "sync", "rounds": 2, "participation": 1},
        "algorithm": {"name": "traffic", "down": "20 kB", "up": "20 kB", "operations": 1e8},
        **changes,
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(scenario))
    return folder / "small.yaml"


def test_a_packet_leaves_a_queue_after_those_before_it_and_is_dropped_where_there_is_no_room():
    queue = line.Queue(1000.0, 2000.0)
    assert queue.leaves(5.0, 1500) == pytest.approx(6.5)
    assert queue.leaves(5.5, 1500) == pytest.approx(8.0)
    assert queue.leaves(5.5, 1500) is None  # 2500 bytes are before it, of which 1000 are being sent
    assert queue.dropped == 1
    assert queue.leaves(20.0, 1500) == pytest.approx(21.5)
    assert line.Queue(math.inf, 0.0).leaves(3.0, 1500) == 3.0


def test_a_bucket_lets_as_much_pass_at_once_as_has_been_saved_up():
    queue = line.Queue(1000.0, 2000.0, 3000.0)
    assert [queue.leaves(5.0, 1500) for _ in range(5)] == pytest.approx([5.0, 5.0, 6.5, 8.0, None])
    assert queue.leaves(9.0, 1500) == pytest.approx(9.5)
    assert queue.leaves(11.0, 1500) == pytest.approx(11.0)  # 1.5 s of tokens
    assert queue.leaves(11.0, 1500) == pytest.approx(12.5)


def packet(receiver, number=0, nbytes=100):
    """Return the bytes that matter of an IPv4 packet to 10.9.0.(receiver)."""
    return bytes([0x45]) + bytes(15) + bytes([10, 9, 0, receiver, number]) + bytes(nbytes - 21)


@pytest.fixture
def hosts():
    """Three pairs of sockets in place of devices: what the line reads and writes, and the hosts' own ends."""
    with contextlib.ExitStack() as closing:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
        for device, own in pairs:
            closing.enter_context(device).setblocking(False)
            closing.enter_context(own).settimeout(20)
        yield pairs


def test_the_line_delays_loses_and_hands_packets_to_whom_they_are_for(hosts):
    """No packet arrives before its delay; losses are those drawn; what is not IPv4, or for nobody, is ignored."""
    draws = iter([0.9, 0.4, 0.9])
    star = line.Star(
        [device.fileno() for device, _ in hosts],
        [line.Access(*(line.Queue(1e6, 64_000.0) for _ in range(2)), 0.05, 0.5, 0.0) for _ in range(2)],
        line.Queue(1e6, 64_000.0), line.Queue(math.inf, math.inf), lambda: next(draws),
    )  # fmt: skip
    hold, release = os.pipe()
    thread = threading.Thread(target=star.run, args=(hold,), daemon=True)
    thread.start()
    server, first, second = (own for _, own in hosts)
    begun = time.monotonic()
    second.send(b"\x60" + bytes(60))
    server.send(packet(77))
    second.send(packet(1, 7))  # 0.9: passes
    assert server.recv(2000) == packet(1, 7)
    assert time.monotonic() - begun >= 0.05 + 2 * 100 / 1e6
    second.send(packet(1, 8))  # 0.4: lost
    while not star.lost:
        time.sleep(0.001)
    server.send(packet(2, 9))
    assert first.recv(2000) == packet(2, 9)
    os.close(release)
    thread.join(20)
    assert not thread.is_alive()
    assert (star.packets, star.lost) == (2, 1)
    os.close(hold)


def test_errors_spreads_and_coverage_of_cases_by_hand():
    real = pd.DataFrame(
        [["a", "s", "cubic", "open", value, (9.0, 10.0, 10.5)] for value in (10.0, 8.0, 12.0)]
        + [["b", "s", "cubic", "open", 20.0, (22.0,)]],
        columns=["case", "scenario", "control", "half", "real", "simulated"],
    )
    rows = compare.rows(real)
    assert rows["error"].tolist() == pytest.approx([0.0, 0.1])
    assert rows["real_spread"].tolist() == pytest.approx([0.4, 0.0])
    assert rows["simulated_spread"].tolist() == pytest.approx([0.15, 0.0])
    assert rows["covered"].tolist() == pytest.approx([1 / 3, 0.0])
    group = compare.groups(rows).iloc[0]
    assert (group["median"], group["least"], group["most"]) == pytest.approx((5.0, 0.0, 10.0))


def test_agreement_counts_pairs_that_can_be_told_apart():
    assert compare.agreement([1, 2, 3], [10, 20, 30]) == 1
    assert compare.agreement([1, 2, 3], [10, 30, 20]) == pytest.approx(1 / 3)
    assert compare.agreement([1, 1.01, 3], [10, 5, 20]) == 1
    assert math.isnan(compare.agreement([1, 1.01], [2, 1]))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"algorithm": "fedavg"}, "learns by 'fedavg'"),
        *(
            pytest.param(changes, why, marks=pytest.mark.long)
            for changes, why in (
                ({"protocol": {"name": "one_shot", "participation": 1}}, "protocol is 'one_shot'"),
                (
                    {"network": {"latency": "1 ms", "uplink": "1 Mbit/s", "downlink": "1 Mbit/s", "tls_rtts": 1}},
                    "encryption",
                ),
                (
                    {
                        "clients": {"count": 3, "speed": "1 GFLOP/s"},
                        "protocol": {"name": "sync", "rounds": 1, "clients": 2},
                    },
                    "2 of 3",
                ),
            )
        ),
    ],
)
def test_what_the_rig_cannot_do_is_one_message(changes, why, tmp_path):
    ended = command(small(tmp_path, **changes), "--measured", RIG / "measured.csv", cwd=tmp_path)
    assert ended.returncode == 2
    assert why in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.long
def test_simulated_runs_are_as_long_as_the_recorded_ones():
    """Medians of errors in percent by scenario, congestion control and half; what docs/validation.md says."""
    ended = command(*SCENARIOS, "--measured", RIG / "measured.csv")
    assert ended.returncode == 0, ended.stderr
    table = [row.rsplit(maxsplit=7) for row in ended.stdout.split("\n\n")[0].splitlines()[1:]]
    found = {tuple(row[0].split()[:3]): [float(value) for value in row[1:]] for row in table}
    assert len(found) == 16
    most = {
        ("own_links", "cubic"): 1, ("own_links", "bbr"): 1, ("protocols", "cubic"): 2, ("protocols", "bbr"): 1,
        ("lossy_links", "cubic"): 5, ("lossy_links", "bbr"): 7, ("full_server", "cubic"): 15,
        ("full_server", "bbr"): 6,
    }  # fmt: skip
    for (scenario, control, half), (median, *_, covered) in found.items():
        assert abs(median) <= most[scenario, control], (scenario, control, half)
        if (scenario, control) == ("lossy_links", "cubic"):
            assert covered >= 60
    said = [
        tuple(
            math.ceil(max(error(row) for (name, of, _), row in found.items() if name in names and of == control))
            for control in ("cubic", "bbr")
        )
        for names, error in (
            (("own_links", "protocols"), lambda row: abs(row[0])),  # medians
            (("lossy_links",), lambda row: max(map(abs, row[1:3]))),  # the least and the most
            (("full_server",), lambda row: max(map(abs, row[1:3]))),
        )
    ]
    own, lossy, full = (f"{cubic} % (Cubic) or {bbr} % (BBR)" for cubic, bbr in said)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"last as long as simulated to {own} in the median" in text
    assert f"Under loss the worst is off by {lossy}, and where the server's link is full by {full}." in text
    taus = [float(row.rsplit(maxsplit=1)[1]) for row in ended.stdout.splitlines() if row.startswith("Kendall")]
    assert taus[0] >= 0.75
    assert taus[1] >= 0.95


def test_the_page_says_how_many_packets_a_full_link_has_dropped():
    """Of messages of 500 kB, down and up, in four rounds of six and of five clients."""
    measured = pd.read_csv(RIG / "measured.csv")
    rows = measured[measured["case"].str.startswith("full_server")]
    sent = rows["case"].str.contains("six").map({True: 6, False: 5}) * 4 * 2 * math.ceil(500_000 / 1448)
    text = " ".join((ROOT / "docs" / "validation.md").read_text(encoding="utf-8").split())

    def said(control, kind):
        share = (100 * rows["overflown"] / sent)[rows["case"].str.contains(f"{control}, kind={kind}")]
        low, high = f"{share.min():.0f}", f"{share.max():.0f}"
        return f"{low} %" if low == high else f"{low} to {high} %"

    new, kept = ([said(control, kind) for control in ("cubic", "bbr")] for kind in ("fresh", "kept"))
    assert f"{new[0]} of them under Cubic on new connections and {kept[0]} on kept ones, {new[1]} and {kept[1]}" in text


def test_messages_beside_a_bulk_flow_take_as_long_as_the_recorded_ones(monkeypatch):
    """In percent; docs/validation.md has these rows, and README the medians of those that nothing was fitted to."""
    monkeypatch.syspath_prepend(RIG)
    beside = module("beside")
    measured = pd.read_csv(RIG / "beside.csv")
    found = dict(beside.errors(measured).iterrows())
    text = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")

    def said(row):
        size = f"{row['cases']:.0f} | {row['median']:.1f} | {row['least']:.1f} to {row['most']:.1f}"
        return f"| {size} | {row['absolute']:.1f} |"

    for size in (10_000, 50_000, 200_000):
        assert f"| Cubic, {size // 1000} kB {said(found['held out', 'cubic', size])}" in text
    assert f"| Cubic, all {said(found['held out', 'cubic'])}" in text
    assert f"| BBR, all but those held out {said(found['open', 'bbr'])}" in text
    assert f"| BBR, held out {said(found['held out', 'bbr'])}" in text
    cubic, bbr = (round(found["held out", control]["absolute"]) for control in ("cubic", "bbr"))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"messages beside a bulk flow off by {cubic} % or {bbr} % in the median" in readme
    assert f"beside.csv` has {len(measured)} of them" in text


def test_uploads_that_share_a_short_queue_take_as_long_as_the_recorded_ones(monkeypatch):
    """In percent; docs/validation.md has these rows."""
    monkeypatch.syspath_prepend(RIG)
    measured = pd.read_csv(RIG / "sharing.csv")
    found = dict(module("sharing").errors(measured).iterrows())
    text = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    for (group, control, *apart), row in found.items():
        if apart:
            kind = "one after another" if apart[0] else "at once"
            who = f"{ {'cubic': 'Cubic', 'bbr': 'BBR'}[control] }, {kind}{', held out' * (group == 'held out')}"
            size = f"{row['flows']:.0f} | {row['median']:.1f} | {row['least']:.1f} to {row['most']:.1f}"
            assert f"| {who} | {size} | {row['absolute']:.1f} | {row['last']:.1f} |" in text
    assert f"`sharing.csv` has {len(measured):,} of them" in text


def test_messages_under_bbr_take_as_long_as_the_recorded_ones(monkeypatch):
    """In percent, by kind of connection, direction and turn; docs/validation.md has these rows."""
    monkeypatch.syspath_prepend(RIG)
    found = module("messages").errors(pd.read_csv(RIG / "bbr_messages.csv"))
    text = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    for (kind, upload, turn), row in found.iterrows():
        size = f"{row['cases']:.0f} | {row['median']:.1f} | {row['least']:.1f} to {row['most']:.1f}"
        where = f"{kind.replace('fresh', 'new')} | {'up' if upload else 'down'} | {turn + 1}"
        assert f"| {where} | {size} | {row['nine in ten']:.1f} |" in text
        assert row["absolute"] < 1.5
        assert row["nine in ten"] < (2.5 if turn == 0 and kind != "kept" else 12)


@pytest.mark.long
@pytest.mark.skipif(spaces.refusal() is not None, reason=str(spaces.refusal()))
def test_a_real_run_takes_at_least_as_long_as_its_links_do(tmp_path):
    """On a busy machine it may take longer, so that only this side is checked; its namespaces are gone afterwards."""
    before = os.listdir("/proc/self/ns"), os.readlink("/proc/self/ns/net")
    ended = command(small(tmp_path), "--repeat", 1, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    run = pd.read_csv(tmp_path / "netns.csv").iloc[0]
    wire = 2 * 2 * (20_000 + 52 * 14) / 250_000
    assert run["real"] > 0.98 * (wire + 2 * (0.1 + 0.08 + 0.06))
    assert run["lost"] == run["overflown"] == 0
    assert (os.listdir("/proc/self/ns"), os.readlink("/proc/self/ns/net")) == before
