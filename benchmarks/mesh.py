"""How long flows over a tree of shared links take; progressive filling in the same run.

    python benchmarks/mesh.py [FLOWS] [EDGES] [TOTAL] [OTHER_TOTAL]

FLOWS flows at a time, TOTAL in all, go over the uplink of one of EDGES edges and the server's ingress; when one ends
the next begins.  The server is either wide (each edge is on its own) or narrow (all are connected).  The alternative
finds all rates again from nothing after every end, with numpy; both must end at the same time.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np
import simpy

from fedsim.core import seeds
from fedsim.net.links.mesh import Mesh

UPLINK, MEAN_BYTES, MEDIAN_CEILING = 50e6, 1e6, 10e6  # bytes/s, bytes, bytes/s


@dataclass
class Load:
    """What goes over the tree: an edge, bytes and a ceiling for each flow, so many of them at a time."""

    edges: np.ndarray
    sizes: np.ndarray
    ceilings: np.ndarray
    at_once: int


def load(flows: int, edges: int, total: int) -> Load:
    rng = seeds.generator(0, "benchmark")
    ceilings = rng.lognormal(np.log(MEDIAN_CEILING), 1.0, total)
    return Load(rng.integers(0, edges, total), rng.exponential(MEAN_BYTES, total), ceilings, flows)


def through_mesh(work: Load, edges: int, ingress: float) -> tuple[float, float]:
    """Return the seconds that it takes, and the simulated second in which the last flow ends."""
    env = simpy.Environment()
    mesh = Mesh(env)
    root = mesh.link(ingress)
    pools = [mesh.pool([mesh.link(UPLINK), root]) for _ in range(edges)]
    waiting, ends = iter(range(len(work.sizes))), [0.0]

    def go_on(_: object = None) -> None:
        ends[0] = env.now
        for flow in waiting:
            pools[work.edges[flow]].join(float(work.sizes[flow]), float(work.ceilings[flow]), go_on)
            return

    for _ in range(work.at_once):
        go_on()
    began = time.perf_counter()
    env.run()
    return time.perf_counter() - began, ends[0]


def through_filling(work: Load, edges: int, ingress: float) -> tuple[float, float]:
    """Return the same of progressive filling."""
    count = len(work.sizes)
    left, joined, now = np.zeros(count), min(work.at_once, count), 0.0
    left[:joined] = work.sizes[:joined]
    began = time.perf_counter()
    while True:
        here = np.flatnonzero(left > 0)
        if not len(here):
            return time.perf_counter() - began, now
        rates = fill(work.ceilings[here], work.edges[here], edges, ingress)
        step = (left[here] / rates).min()
        left[here] -= rates * step
        now += step
        ended = here[left[here] <= 1e-9 * work.sizes[here]]
        left[ended] = 0.0
        more = min(len(ended), count - joined)
        left[joined : joined + more] = work.sizes[joined : joined + more]
        joined += more


def fill(ceilings: np.ndarray, owners: np.ndarray, edges: int, ingress: float) -> np.ndarray:
    """Return the max–min rates: raise all alike, freeze those at their ceiling or on a full link, begin again."""
    rates, open_ = np.zeros(len(ceilings)), np.ones(len(ceilings), dtype=bool)
    while open_.any():
        used, rising = np.bincount(owners, rates, edges), np.bincount(owners[open_], minlength=edges)
        rooms = np.where(rising > 0, (UPLINK - used) / np.maximum(rising, 1), np.inf)
        root = (ingress - used.sum()) / rising.sum()
        step = min(rooms.min(), root, (ceilings - rates)[open_].min())
        rates[open_] += step
        full = rooms <= step * (1 + 1e-12)
        open_ &= (ceilings - rates > 1e-9 * ceilings) & ~full[owners] & (root > step * (1 + 1e-12))
    return rates


def main() -> None:
    given = [int(text) for text in sys.argv[1:]]
    flows, edges, total, other = given + [1000, 20, 20_000, 2_000][len(given) :]
    for name, ingress in (("wide", 2.0 * edges * UPLINK), ("narrow", 0.5 * edges * UPLINK)):
        work = load(flows, edges, total)
        seconds, _ = through_mesh(work, edges, ingress)
        print(f"server {name}, {flows} flows at a time: {total / seconds:.0f} flows/s")
        work = load(flows, edges, max(other, flows))
        (fluid, end), (filling, same) = (way(work, edges, ingress) for way in (through_mesh, through_filling))
        assert abs(end - same) < 1e-6 * end, (end, same)
        print(f"  {len(work.sizes)} flows: mesh {fluid:.2f} s, progressive filling {filling:.2f} s")


if __name__ == "__main__":
    main()
