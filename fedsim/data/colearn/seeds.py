"""Seeds: vertices far apart, from which the parts grow.

The farthest pair comes first, then repeatedly the vertex whose nearest seed is farthest.  By default the pair is
that of a double sweep: the vertex farthest from the lowest one, and the vertex farthest from that; exact on trees, a
lower bound elsewhere.  All ties go to the lowest vertex.
"""

import numpy as np

from fedsim.data.colearn.web import Web


def seeds_of(web: Web, count: int, exact: bool = False) -> np.ndarray:
    """Return that many different seeds of a connected web, in the order in which they are found.

    Vertices without a neighbour are never chosen, so there may be fewer.  The cost is two searches and, for each
    further seed, one of what is nearest to it; where `exact`, a search from every vertex.
    """
    able = np.flatnonzero(web.degree > 0)
    count = min(count, len(able))
    if not count:
        return np.empty(0, dtype=np.int64)
    first = _end_of_diameter(web, able) if exact else _farthest(web.distances(int(able[0])))
    found, nearest = [first], web.distances(first)
    while len(found) < count:
        found.append(_farthest(nearest))
        nearest = web.nearer(found[-1], nearest)
    return np.array(found, dtype=np.int64)


def _farthest(distances: np.ndarray) -> int:
    return int(distances.argmax())  # unreachable vertices have -1


def _end_of_diameter(web: Web, able: np.ndarray) -> int:
    reach = [int(web.distances(int(vertex)).max()) for vertex in able]
    return int(able[int(np.argmax(reach))])
