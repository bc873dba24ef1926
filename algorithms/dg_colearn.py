"""DG-CoLearn: incremental learning on snapshots, with an exchange of embeddings over cut edges (Au et al., 2026).

Each client trains on what the last change reaches (`learn/affected.py`), on top of the states that a recurrent model
keeps of every vertex; the server averages by edges.  When the schedule says so the clients send rows of vertices at
the cut, and the server, which knows the whole graph, sends back what they lack (`learn/exchange.py`):

- `exact`: δ and r of A X and A² X, two vectors a vertex as in the paper, but without the term that its Eq. 6 forgets;
- `paper`: Eqs. 5 and 6 as printed, for vertices at the cut only;
- `layerwise`: each layer's sums over cut neighbours, one exchange a layer: exact for nonlinear layers too;
- `full_graph`: `exact`, for every vertex at the cut and not only those that a change has reached;
- `fedgcn`: (A X) in place of the features, refreshed where something changed (incremental FedGCN, appendix F.1.2);
- `none`.

The paper does not say what becomes of the corrected embeddings.  Here δ is added to the first layer's sums before the
weight, r to the second layer's, carried through the first layer's weight, as if that were linear; so corrected, the
states are stored and go into the next snapshot.  Under `exact` and `layerwise` vertices beside the cut are corrected
through their neighbours.

`privacy: paper` exchanges rows of vertices at the cut only, which tells a client which these are; `strict` exchanges a
row for every vertex that a change has reached at its owner, with zeros where there is nothing to say.  `k_min` drops
corrections that are sums over fewer vertices: a sum over one is that vertex's own features.

It does not model clients that talk with each other, features that nobody may see in sums, and EvolveGCN's unrolling.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from algorithms.fedavg import FedAvg
from fedsim.algorithm import Fit
from fedsim.data.graph import as_dense, with_keys
from fedsim.errors import Problem, ScenarioError
from fedsim.learn import affected, tree
from fedsim.learn.convolution import aggregate
from fedsim.learn.overseer import Overseer
from fedsim.learn.snapshots import dressed, joined, places, spread, states_after, whole
from fedsim.net.wire import Spec
from fedsim.units import Count

Exchange = Literal["none", "exact", "paper", "layerwise", "full_graph", "fedgcn"]
TWO_LAYERS = ("exact", "paper", "full_graph")  # exchanges that are made of A X and A² X
LAYERS = 8  # that a layerwise exchange may have
FIRST, REST = (0, 1), (1, None)  # of the local steps


@dataclass(frozen=True)
class DGCoLearn(FedAvg):
    """See the module's docstring."""

    prepares = frozenset({"first", "embed", "correct", *(f"layer{i}" for i in range(2, LAYERS + 1))})

    exchange: Exchange = "exact"  # what crosses the cuts
    schedule: Literal[1, 2, 3, 4] = 3  # after the first epoch of all rounds, the last of all, of round 1, of the middle
    rounds: Count = 10  # R, rounds a snapshot, of which schedule 4 takes the middle one
    privacy: Literal["paper", "strict"] = "paper"  # rows at the cut only, or of every affected vertex
    k_min: Count = 1  # fewest vertices that a correction sums over
    retrain: Literal["incremental", "full"] = "incremental"  # train on what a change reaches, or on the whole graph
    halo: bool = True  # read the states of the vertices around; without them sums at the rim lack terms

    def start(self):
        """Return the first model.  Raises ScenarioError where there is nothing to exchange, or no model for it."""
        if self.exchange != "none":
            self._check()
        return {"model": self.task.init(), "period": 0, "round": 0, "seen": None, "moved": {}, "heard": {}}

    def _check(self):
        widths, wrong = self.task.model.delta_widths(self.task.features, self.task.outputs), None
        if self.overview is None:
            wrong = "needs a graph that changes, under the stream 'snapshots'; or say exchange: none"
        elif not widths:
            wrong = "needs a model whose sums can be corrected, such as {name: roland}; or say exchange: none"
        elif len(widths) != 2 and self.exchange in TWO_LAYERS:
            wrong = f"is defined for two layers, and the model has {len(widths)}; take layerwise"
        elif self.exchange == "layerwise" and not self._states():
            wrong = "needs a model that keeps states, such as {name: roland}; take exact"
        if wrong:
            raise ScenarioError([Problem("algorithm.exchange", f"{self.exchange!r} {wrong}")])

    # ---- when

    def steps(self, state):
        """Exchange before the last epochs where that is wanted after the first one."""
        if self.schedule == 1 and self.exchange != "none":
            return ("first", "train")
        return ("train",)

    def more(self, state, step):
        """Exchange once it is due, unless nothing was cut."""
        due = {
            1: step == "first",
            2: step == "train",
            3: step == "train" and state["round"] == 1,
            4: step == "train" and state["round"] == -(-self.rounds // 2),
        }[self.schedule]
        if self.exchange == "none" or not due or not self._crosses(state["seen"]):
            return ()
        layers = self.task.model.layers if self.exchange == "layerwise" else 1
        return ("embed", *(f"layer{i}" for i in range(2, layers + 1)), "correct")

    def _crosses(self, seen):
        return seen.shared and (self.privacy == "strict" or bool(seen.cut.border.any()))

    # ---- server

    def download(self, state, client, step):
        """Send the model; in an exchange, what the client is to answer with, or corrections."""
        if step in ("train", "first"):
            moved = state["moved"].get(client)
            sent = {"model": state["model"], "period": state["period"], "round": state["round"]}
            return sent if moved is None else {**sent, "moved": moved}
        seen, at = state["seen"], {"period": state["period"]}
        if step == "embed":
            asked = seen.vertices(client, seen.due if self.privacy == "strict" else seen.due & seen.cut.border)
            sent = {**at, "ids": asked.int(), "heard": state["heard"].get(client, 0)}
            own = seen.vertices(client, seen.cut.owner >= 0)
            return sent if seen.norm == "sum" else {**sent, "degree": seen.cut.degree[own].int()}
        ids = seen.vertices(client, seen.around if self.privacy == "strict" else seen.around & seen.cut.border)
        layer = self.task.model.layers if step == "correct" else int(step.removeprefix("layer")) - 1
        rows = seen.corrections(self.exchange, layer, self.k_min)
        return {**at, "ids": ids.int(), **{key: value[ids] for key, value in rows.items()}}

    def update(self, state, replies, step):
        """Average models by edges; keep the rows that clients have sent."""
        if step in ("train", "first"):
            state = self._met(state, replies)
        if step == "first":
            return state
        if step != "train":
            seen, heard = state["seen"], state["heard"]
            for reply in replies:
                heard = {**heard, reply.client: reply.upload.get("turn", heard.get(reply.client, 0))}
            return {**state, "seen": self._noted(seen, [reply.upload for reply in replies]), "heard": heard}
        return {**super().update(state, replies, step), "round": state["round"] + 1}

    def _met(self, state, replies):
        """Return the state in the period that the clients tell of, with states of vertices that have new owners."""
        period = max(reply.upload["period"] for reply in replies)
        came = {reply.client for reply in replies if "moved" in reply.download}
        moved = {client: rows for client, rows in state["moved"].items() if client not in came}
        for reply in replies:
            if "left" in reply.upload:
                moved = self._forwarded(moved, reply.upload["left"], self.overview.owners[reply.upload["period"]])
        state = {**state, "moved": moved}
        if self.overview is None or (state["seen"] is not None and period <= state["period"]):
            return state
        seen = state["seen"] or self._overseer()
        return {**state, "seen": seen.at(period), "period": period, "round": 0}

    def _overseer(self):
        """Return the first view; degrees that `mean` and `sym` tell of tell of changes at the cut anyway."""
        hops = None if self.exchange == "full_graph" else self._hops()
        return Overseer(self.overview, 0, hops, self._norm(), self.privacy == "strict" and self._norm() == "sum")

    def _forwarded(self, moved, left, owners):
        owner = torch.from_numpy(owners)[left["ids"].long().cpu()]
        for client in sorted(set(owner[owner >= 0].tolist())):
            own = (owner == client).to(left["ids"].device)
            rows = left["ids"][own].long(), left["states"][own]
            if client in moved:
                rows = joined((moved[client]["ids"].long(), moved[client]["states"]), rows)
            moved = {**moved, client: {"ids": rows[0].int(), "states": rows[1]}}
        return moved

    def _noted(self, seen, uploads):
        """Return the view with the rows of all uploads, no two of which are of the same vertex."""
        for name in dict.fromkeys(name for upload in uploads for name in upload if name.startswith("h")):
            told = [upload for upload in uploads if name in upload]
            ids = torch.cat([upload["fresh" if name == "h0" else "ids"].long().cpu() for upload in told])
            seen = seen.noted(name, ids, torch.cat([upload[name].cpu() for upload in told]))
        fresh = [upload["ids"].long().cpu() for upload in uploads if "turn" in upload]
        return seen.noted("known", torch.cat(fresh), torch.ones(sum(map(len, fresh)), 1)) if fresh else seen

    def server_flops(self, state, replies, step):
        """Return as much as ever, and a multiply-add for each number that crosses the cut."""
        crossed = 0.0
        if step not in ("train", "first") and state["seen"] is not None:
            widths = [upload.shape[1] for upload in replies[0].upload.values() if getattr(upload, "ndim", 0) == 2]
            crossed = 2.0 * state["seen"].cut.crossing.shape[1] * sum(widths)
        return super().server_flops(state, replies, step) + crossed

    # ---- client

    def work(self, job):
        """Train on what has changed; or answer with rows; or take corrections."""
        if job.step not in ("train", "first"):
            if job.memory.get("period") != job.download["period"]:  # its training was broken off, or it never trained
                return {"ids": torch.zeros(0, dtype=torch.int32)} if job.step != "correct" else {}
            return self._embedded(job) if job.step == "embed" else self._told(job)
        left = self._enter(job)
        if "moved" in job.download and job.memory.get("states") is not None:
            came = job.download["moved"]
            job.memory["states"] = joined(job.memory["states"], (came["ids"].long(), came["states"]))
        trained = yield from self._trained(job)
        if job.step == "first":
            job.memory["early"] = job.period, job.download["round"], trained
            return {"period": job.period}
        update = tree.sub(trained, job.download["model"])
        upload = {"update": update, "samples": self._edges(job.data), "period": job.period}
        return upload if left is None else {**upload, "left": left}

    def _enter(self, job):
        """Close the period before, if this is another one; return states of vertices that the client has no more."""
        memory, left = job.memory, None
        if memory.get("period") == job.period:
            return memory.pop("left", None) if job.step == "train" else None
        if "graph" in memory and "vertex" in job.data:
            memory["before"] = whole(memory, memory["graph"], self._hops())
        if self._states() and memory.get("local") is not None and "vertex" in job.data:
            states = states_after(self.task.model, memory["local"], memory, self._hops())
            memory["states"] = states
            gone = _gone(memory, job.data)
            if len(gone):
                rows = states[1][places(states[0], gone)[0]]
                left = {"ids": gone.int(), "states": rows}
        if "vertex" in job.data and memory.get("sent") is not None:  # who comes back may have changed elsewhere
            mine = places(job.data["vertex"], memory["sent"][0])[1]
            memory["sent"] = memory["sent"][0][mine], memory["sent"][1][mine]
        nobody = job.data["edges"].new_zeros(0)
        memory.update(period=job.period, graph=job.data, told=None, asked=nobody)
        memory.pop("optimiser.model", None)  # a new optimiser every snapshot
        if job.step != "train" and left is not None:
            memory["left"], left = left, None
        return left

    def _trained(self, job):
        model, memory = job.download["model"], job.memory
        early = memory.get("early")
        if job.step == "train" and early is not None and early[:2] == (job.period, job.download["round"]):
            start = early[2]
        else:
            start = self._turned(job)
        data = self._data(job)
        trained = start
        if self.task.examples(data, "train"):
            trained = yield Fit(start, self.loss, given={"received": model}, data=data, steps=self._epochs(job))
        memory["local"] = trained
        return trained

    def _turned(self, job):
        """Return the model as this period begins with it: weights that evolve have turned since the one before."""
        model, before = job.download["model"], job.memory.get("before")
        if before is None or job.period <= job.download["period"]:
            return model
        return tree.at(self.task.model.turn(tree.stack([model]), before), 0)

    def _epochs(self, job):
        if self.schedule != 1 or self.exchange == "none":
            return 0, None
        return FIRST if job.step == "first" else REST

    def _data(self, job):
        """Return what the client trains on, the same object as long as it knows the same: unions of it are kept."""
        if "vertex" not in job.data:
            return job.data
        memory = job.memory
        knows = memory.get("states"), memory.get("told")
        known = memory.get("data")
        if known is None or known[0] is not knows[0] or known[1] is not knows[1] or known[2] != job.period:
            part = job.data
            if self._hops() is not None:
                part = affected.part(job.data, self._hops(), halo=self.halo)[0]
            memory["data"] = known = (*knows, job.period, dressed(memory, part))
        return known[3]

    def _embedded(self, job):
        """Send rows of what was asked for: sums over local neighbours, and features not sent like this before."""
        memory, graph = job.memory, job.memory["graph"]  # not job.data: the next period may have come already
        own = graph["vertex"].device
        if "degree" in job.download:
            degree = graph["vertex"], job.download["degree"].to(own).float()
            memory["told"] = {**(memory["told"] or {}), "degree": degree}
        vertices = memory["asked"] = job.download["ids"].long().to(own)
        place = places(graph["vertex"], vertices)[0]
        x = as_dense(graph["x"])[place]
        known = memory.get("sent") if memory.get("turn", 0) == job.download["heard"] else None  # else one was lost
        fresh = _fresh(known, vertices, x)
        memory.update(
            sent=(vertices, x) if known is None else joined(known, (vertices, x)), turn=job.download["heard"] + 1
        )
        upload = {"ids": vertices.int(), "fresh": vertices[fresh].int(), "h0": x[fresh], "turn": memory["turn"]}
        return {**upload, "h1": self._sums(memory)[place]} if self.exchange in TWO_LAYERS else upload

    def _sums(self, memory):
        """Return L X (n, F) of all of the client's vertices."""
        graph = memory["graph"]
        return aggregate(as_dense(graph["x"]), dressed({"told": memory["told"]}, graph), self._norm())

    def _told(self, job):
        """Take corrections; where another layer follows, send what it needs of this one."""
        memory, graph = job.memory, job.memory["graph"]
        came = {key: part.to(graph["vertex"].device) for key, part in job.download.items() if key != "period"}
        ids = came.pop("ids").long()
        rows = {key: (ids, part) for key, part in came.items()}
        if "x" in rows:  # FedGCN: the whole sums take the features' place
            rows["x"] = ids, self._sums(memory)[places(graph["vertex"], ids)[0]] + rows["x"][1]
        if self.exchange == "paper" and "far" in rows:  # layers carry δ to neighbours, which Eq. 6 does not
            first, far = (spread(graph["vertex"], rows[key]) for key in ("delta1", "far"))
            carried = aggregate(first, dressed({"told": memory["told"]}, graph), self._norm())
            rows["far"] = graph["vertex"], far - carried
        memory["told"] = {**(memory["told"] or {}), **rows}
        if job.step == "correct":
            return {}
        layer = int(job.step.removeprefix("layer"))
        model = self.task.model
        after = states_after(model, memory["local"], memory, self._hops())[1]
        at = sum(model.layer_state(inputs) for inputs in model.widths(self.task.features, 0)[: layer - 2])
        wide = model.delta_widths(self.task.features, self.task.outputs)[layer - 1]
        vertices = memory["asked"]
        return {"ids": vertices.int(), f"h{layer - 1}": after[places(graph["vertex"], vertices)[0], at : at + wide]}

    def sees(self, memory, graph):
        """Return the graph with the client's states: before its own period, or after it for a later graph."""
        if "vertex" not in graph or "graph" not in memory:
            return graph
        if graph["edges"] is memory["graph"]["edges"]:
            return whole(memory, graph, self._hops())
        if not self._states():
            return dressed({}, graph)
        after = states_after(self.task.model, memory["local"], memory, self._hops())
        seen = dressed({"states": after}, graph)
        if self._hops() is None:
            return seen
        stays = ~affected.near(graph, self._hops()) & places(after[0], graph["vertex"])[1]
        return with_keys(seen, {"halo": stays})  # what a later change does not reach keeps its states there, too

    def upload_like(self, job):
        """Return a tree as large as the upload; only the answers of an exchange are known no sooner than made."""
        if job.step == "first":
            return {"period": 0}
        if job.step != "train":
            return None
        like, memory, count = {**super().upload_like(job), "period": 0}, job.memory, 0
        if memory.get("period") != job.period and self._states() and memory.get("local") is not None:
            count = len(_gone(memory, job.data))
        elif memory.get("left") is not None:
            count = len(memory["left"]["ids"])
        width = self.task.model.state_width(self.task.features, self.task.outputs)
        left = {"ids": Spec((count,), "int32"), "states": Spec((count, width), "float32")}
        return {**like, "left": left} if count else like

    def effort(self, job):
        """Return the share of the whole graph's training that the affected part takes; none in an exchange."""
        return self._share(job) if job.step == "train" else 0.0

    def extra_steps(self, job):
        """Return a forward pass for an answer, which is a third of a step; the first epoch is taken from the rest."""
        if job.step == "correct":
            return 0.0
        apart = self.schedule == 1 and self.exchange != "none"
        return self._share(job) * {"first": 1.0, "train": -1.0 * apart}.get(job.step, 1 / 3)

    def _share(self, job):
        if self._hops() is None or "vertex" not in job.data:
            return 1.0
        part = affected.part(job.data, self._hops(), halo=self.halo)[0]
        return self.task.flops(part) / max(1.0, self.task.flops(job.data))

    def _edges(self, data):
        """Return the undirected edges that the client trains on, its weight in the average."""
        if self._hops() is None or "vertex" not in data:
            return data["edges"].shape[1] // 2
        source, target = data["edges"]
        own = affected.near(data, self._hops())
        return int((own[source] & own[target]).sum()) // 2

    def _states(self):
        return self.task.model.state_width(self.task.features, self.task.outputs) > 0

    def _hops(self):
        return None if self.retrain == "full" else self.task.model.layers

    def _norm(self):
        return getattr(self.task.model, "norm", "sum")


def _gone(memory, data):
    """Return the vertices, ascending, that the client had in its last period and has no more."""
    before = memory["graph"].get("vertex")
    return before[~places(data["vertex"], before)[1]] if before is not None else torch.zeros(0, dtype=torch.long)


def _fresh(sent, vertices, x):
    """Return which rows x (m, F) differ from what was sent of these vertices last."""
    if sent is None:
        return torch.ones(len(vertices), dtype=torch.bool, device=x.device)
    return ~places(sent[0], vertices)[1] | (spread(vertices, sent) != x).any(1)
