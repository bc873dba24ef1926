"""Small graphs that hold events, and slow sure ways of reading them."""

import numpy as np
import torch

from fedsim.data.graph import graph_of, with_keys
from fedsim.learn.models.dygformer import DyGFormer
from fedsim.learn.task import bind
from fedsim.learn.tasks.event_prediction import EventPrediction

SMALL = {"hidden": 6, "channel": 3, "heads": 2, "time": 5, "length": 4, "padded": 7, "dropout": 0.0}


def graph_of_events(told, nodes, asked=(), *, features=2, message=0, fresh=None, seed=0):
    """A client's graph of events (a, b, second) that is asked about pairs (u, v, second); features are drawn."""
    told = sorted(told, key=lambda one: one[2])
    rng = np.random.default_rng(seed)
    ends = torch.tensor([one[:2] for one in told], dtype=torch.long).reshape(-1, 2).T
    x = torch.from_numpy(rng.standard_normal((nodes, features))).float()
    graph = graph_of(x, torch.zeros(2, 0, dtype=torch.long), torch.zeros(nodes, dtype=torch.long))
    times = torch.tensor([one[2] for one in told], dtype=torch.float64)
    return with_keys(
        graph,
        {
            "events": ends,
            "happened": times,
            "message": torch.from_numpy(rng.standard_normal((len(told), message))).float(),
            "fresh": torch.ones(len(told), dtype=torch.bool) if fresh is None else times >= fresh,
            "train": torch.full((nodes,), bool(told)),
            "pairs": torch.tensor([one[:2] for one in asked], dtype=torch.long).reshape(-1, 2).T,
            "moments": torch.tensor([one[2] for one in asked], dtype=torch.float64),
            "links": torch.arange(len(asked)) % 2 == 0,
            "asked": torch.full((len(asked),), 2, dtype=torch.int8),
        },
    )


def drawn_events(seed, nodes=9, count=60, asked=12, **more):
    """A graph of random events at whole seconds, several of them at once, asked about random pairs."""
    rng = np.random.default_rng(seed)

    def some(number):
        return [(*rng.choice(nodes, 2, replace=False).tolist(), float(rng.integers(40))) for _ in range(number)]

    return graph_of_events(some(count), nodes, some(asked), seed=seed, **more)


def events_of(graph):
    return list(zip(*graph["events"].tolist(), graph["happened"].tolist(), strict=True))


def task_of(features=2, batch=8, opposed=1, **options):
    return bind(EventPrediction(batch=batch, opposed=opposed), DyGFormer(**(SMALL | options)), features, 1, 3, "cpu")
