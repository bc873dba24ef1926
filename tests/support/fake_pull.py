"""An algorithm of one number that clients pull towards their own: what it comes to can be told by hand."""

from dataclasses import dataclass

from fake_world import Number

from fedsim.core.wire import Spec


@dataclass(frozen=True, eq=False)
class Pull(Number):
    """Client k pulls the model halfway to k + 1; an update adds the mean pull, where wanted by k + 1 examples."""

    by_examples: bool = False

    def work(self, job):
        job.memory["jobs"] = job.memory.get("jobs", 0) + 1
        pull = (job.client + 1 - job.download["model"]) / 2
        samples = job.client + 1 if self.by_examples else 1
        return {"update": pull, "samples": samples, "ballast": Spec((self.up,), "uint8")}

    def mass(self, reply):
        return reply.upload["samples"]

    def update(self, state, replies, step):
        total = sum(map(self.mass, replies))
        pull = sum(reply.upload["update"] * self.mass(reply) for reply in replies) / total
        return {**state, "model": state["model"] + pull}


@dataclass(frozen=True, eq=False)
class Long(Pull):
    """The same; a share carries ballast."""

    def share(self, state):
        return {**super().share(state), "ballast": Spec((self.up,), "uint8")}
