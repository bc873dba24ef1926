"""Scores, and when they are taken, against scores found one graph at a time."""

from types import SimpleNamespace

import numpy as np
import pytest
import simpy
import torch
from learnlab import drawn, drawn_task
from metrics_by_name import built, splits

from fedsim.clock.observer import Observer
from fedsim.core.record import Recorder
from fedsim.core.seeds import Streams
from fedsim.core.units import Updates
from fedsim.data.graph import Period, induced, with_masks
from fedsim.learn.algorithm import Algorithm
from fedsim.learn.engine import tree
from fedsim.learner.client import AllClients
from fedsim.learner.live import Live
from fedsim.learner.scoring.scoring import Scoring
from fedsim.learner.scoring.split import Scene


class Guess:
    """An algorithm whose global and local models are given."""

    sees_more, sees = False, Algorithm.sees
    talks, learns, prepares = True, True, frozenset()
    steps, more = Algorithm.steps, Algorithm.more

    def __init__(self, shared, own):
        self.shared, self.own = shared, own

    def start(self):
        return {}

    def predictor(self, state, client, memory):
        return self.shared if self.shared is not None else dict(self.own[client])

    def personal(self, state, client, memory):
        return self.own[client]


class Rows:
    """A recorder that keeps rows as they come."""

    def __init__(self):
        self.rows = []

    def extend(self, table, columns):
        whole = np.broadcast_arrays(*columns.values())
        rows = zip(*(column.tolist() for column in whole), strict=True)
        self.rows += [table(**dict(zip(columns, row, strict=True))) for row in rows]


def periods_of(client):
    """Two graphs, then the second again with other masks, as when a class has arrived."""
    first, second = drawn(10 + client, client), drawn(14, 50 + client)
    third = with_masks(second, second["test"], second["train"], second["val"])
    return [Period(0, first), Period(1, second), Period(2, third)]


class Counted:
    """The clock's side of clients: how many periods have reached each."""

    def __init__(self, held):
        self._held = held

    @property
    def met(self):
        return np.array([len(client.seen) for client in self._held.values()])

    def catch_up(self):
        """Nothing is ever trained here."""


class Watched:
    """A world as one observer sees it: with a learner of its own, which scores the clients that all have in common."""

    def __init__(self, world, learner):
        self._world, self.learner = world, learner
        self._state = learner.start()

    def __getattr__(self, name):
        return getattr(self._world, name)

    def states(self):
        return self._state


def world_of(algorithm, seen, count=3):
    """A clock, and clients (`held`) that have met so many of their periods."""
    env, held = simpy.Environment(), AllClients()
    for k in range(count):
        held[k].seen = periods_of(k)[: seen[k]]
    server = SimpleNamespace(version=1, restarts=0, updated=env.event())
    clients = Counted(held)
    return SimpleNamespace(env=env, server=server, held=held, clients=clients, algorithm=algorithm, arrival=env.event())


def deliver(world, *arrived):
    """Let periods reach clients, all in this instant: (client, number of the period)."""
    bring(world, [(client, periods_of(client)[number]) for client, number in arrived])


def bring(world, fresh):
    for client, period in fresh:
        world.held[client].arrive(period)
    event, world.arrival = world.arrival, world.env.event()
    event.succeed(fresh)


def observer_of(world, task, rows, **options):
    rules = {"metrics": ["accuracy", "macro_f1"], "models": ["global", "local"], "splits": ["test", "val"]}
    given = {**rules, **options}
    given["metrics"], given["splits"] = built(*given["metrics"]), splits(*given["splits"])
    every = given.pop("every", Updates(1))
    metrics, models_, together = given.pop("metrics"), given.pop("models"), given.pop("together", True)
    scene = Scene(task, world.algorithm, **given)
    scoring = Scoring(world.held, scene, metrics, models_, together=together)
    learner = Live(world.algorithm, None, Streams(0), None, clients=world.held, scoring=scoring)
    return Observer(Watched(world, learner), rows.extend, every)


def models(task, count=3):
    return [tree.transform(lambda leaf: leaf + torch.randn(leaf.shape), task.init()) for _ in range(count)]


def direct(task, params, period, split, metric):
    """Score one period of one client by itself."""
    graph = period.graph
    output, rows = task.forward(tree.stack([params]), graph), graph[split].nonzero().squeeze(1)
    scores = task.scores(output, graph, rows, torch.zeros_like(rows), 1, built(metric))
    return float(scores[metric]), int(scores["weight"])


@pytest.mark.parametrize("as_shared", [True, False])
@pytest.mark.parametrize("seen", [[1, 1, 1], [3, 2, 0], [3, 3, 3]])
def test_every_score_equals_a_direct_computation(as_shared, seen):
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    own = models(task)
    shared = models(task)[0] if as_shared else None
    world = world_of(Guess(shared, own), seen)
    observer_of(world, task, rows).score()
    clients = [r for r in rows.rows if r.client >= 0]
    found = {(r.model, r.split, r.metric, r.client, r.period): r for r in clients}
    assert len(found) == len(clients)
    expected = 0
    for client, host in world.held.items():
        for period in host.seen:
            for split in ("test", "val"):
                for metric in ("accuracy", "macro_f1"):
                    for model in ("global", "local"):
                        params = shared if model == "global" and as_shared else own[client]
                        value, weight = direct(task, params, period, split, metric)
                        if weight == 0:
                            continue
                        expected += 1
                        row = found[model, split, metric, client, period.number]
                        assert (row.weight, row.seen, row.version) == (weight, seen[client], 1)
                        assert row.value == pytest.approx(value)
    assert len(found) == expected


def test_the_headline_is_pooled_by_weight():
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    world = world_of(Guess(models(task)[0], models(task)), [2, 2, 2])
    observer = observer_of(world, task, rows)
    assert observer.latest is None
    observer.score()
    headline = [r for r in rows.rows if (r.model, r.split, r.metric) == ("global", "test", "accuracy")]
    right, total = sum(r.value * r.weight for r in headline), sum(r.weight for r in headline)
    assert observer.latest == pytest.approx(right / total)
    assert total == sum(int(p.graph["test"].sum()) for h in world.held.values() for p in h.seen)


def test_one_model_for_all_and_equal_copies_of_it_score_the_same():
    torch.manual_seed(0)
    task = drawn_task()
    one = models(task)[0]
    tables = []
    for algorithm in (Guess(one, [one] * 3), Guess(None, [one] * 3)):
        rows = Rows()
        observer_of(world_of(algorithm, [3, 2, 1]), task, rows, models=["global"]).score()
        tables.append([(r.client, r.period, r.split, r.metric, r.value, r.weight) for r in rows.rows])
    assert tables[0] == tables[1]
    assert tables[0]


@pytest.mark.parametrize("as_shared", [True, False])
def test_what_arrives_is_scored_by_the_models_of_that_moment_on_it_alone(as_shared):
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    own = models(task)
    guess = Guess(models(task)[0] if as_shared else None, own)
    world = world_of(guess, [1, 0, 2])
    observer = observer_of(world, task, rows)
    observer.start()
    before, moments = {}, {0.0: [(1, 0)], 4.0: [(0, 1), (2, 2), (1, 1)], 6.0: [(1, 2)]}

    def stream():
        for second, arrived in moments.items():
            yield world.env.timeout(second - world.env.now)
            world.server.version = int(second)
            for client, number in arrived:
                params = {"global": guess.predictor({}, client, {}), "local": own[client]}
                before.update({(second, client, number, model): tree_ for model, tree_ in params.items()})
            deliver(world, *arrived)
            yield world.env.timeout(0)  # whoever waits for arrivals goes first: only then anything is trained
            own[:] = models(task)
            guess.shared = models(task)[0] if as_shared else None

    world.env.process(stream())
    world.env.run()
    clients = [r for r in rows.rows if r.client >= 0]
    found = {(r.time, r.client, r.period, r.model, r.split, r.metric): r for r in clients}
    assert len(found) == len(clients)
    expected = 0
    for (second, client, number, model), params in before.items():
        for split in ("test", "val"):
            for metric in ("accuracy", "macro_f1"):
                value, weight = direct(task, params, periods_of(client)[number], split, metric)
                row = found[second, client, number, model, split, metric]
                assert (row.seen, row.version, row.weight) == (number, int(second), weight)
                assert row.value == pytest.approx(value)
                expected += 1
    assert len(found) == expected
    assert observer.latest is None  # the headline is about what has been met


@pytest.mark.parametrize("as_shared", [True, False])
def test_what_was_joined_before_gives_the_scores_of_what_is_joined_anew(as_shared):
    torch.manual_seed(0)
    task, kept = drawn_task(), Rows()
    world = world_of(Guess(models(task)[0] if as_shared else None, models(task)), [2, 1, 1])
    observer = observer_of(world, task, kept)
    for client in (1, 2, 1, 0, 0):  # one client more each time, at last none
        world.server.version += 1
        before, anew = len(kept.rows), Rows()
        observer.score()
        observer_of(world, task, anew).score()
        assert kept.rows[before:] == anew.rows
        if len(world.held[client].seen) < 3:
            world.held[client].seen.append(periods_of(client)[len(world.held[client].seen)])


def test_a_period_with_nothing_to_score_costs_nothing():
    task, rows = drawn_task(), Rows()
    world = world_of(Guess(task.init(), models(task)), [0, 0, 0])
    observer_of(world, task, rows).start()
    bare = Period(0, induced(drawn(10, 0), torch.arange(0)))
    world.env.timeout(1).callbacks.append(lambda _: bring(world, [(0, bare)]))
    world.env.run(until=1.5)
    assert world.held[0].seen == [bare]
    assert rows.rows == []


def test_nobody_with_data_is_nothing_to_score():
    task, rows = drawn_task(), Rows()
    observer_of(world_of(Guess(task.init(), models(task)), [0, 0, 0]), task, rows).score()
    assert rows.rows == []


def test_scoring_is_not_training():
    """Without a seed in the graph nothing is dropped, and no gradient is kept."""
    torch.manual_seed(0)
    task, first, again = drawn_task(), Rows(), Rows()
    world = world_of(Guess(models(task)[0], models(task)), [1, 1, 1])
    observer_of(world, task, first).score()
    observer_of(world, task, again).score()
    assert first.rows == again.rows


def test_scores_are_taken_every_so_many_updates_and_once_a_version():
    task, rows = drawn_task(), Rows()
    world = world_of(Guess(task.init(), models(task)), [1, 1, 1])
    observer = observer_of(world, task, rows, every=Updates(2), metrics=["accuracy"], splits=["test"])
    observer.start()
    world.server.version = 0

    def updates():
        for _ in range(5):
            yield world.env.timeout(1.0)
            world.server.version += 1
            event, world.server.updated = world.server.updated, world.env.event()
            event.succeed()

    world.env.run(until=world.env.process(updates()))
    observer.score()
    observer.score()
    assert sorted({(r.time, r.version) for r in rows.rows}) == [(2.0, 2), (4.0, 4), (5.0, 5)]


def test_scores_by_the_clock():
    task, rows = drawn_task(), Rows()
    world = world_of(Guess(task.init(), models(task)), [1, 1, 1])
    observer_of(world, task, rows, every=2.5).start()

    def updates():
        while True:
            yield world.env.timeout(1.0)
            world.server.version += 1

    world.env.process(updates())
    world.env.run(until=6)
    assert sorted({r.time for r in rows.rows}) == [2.5, 5.0]


def test_rows_fit_the_recorders_table():
    task, recorder = drawn_task(), Recorder()
    observer_of(world_of(Guess(task.init(), models(task)), [1, 1, 1]), task, recorder).score()
    assert len(recorder.tables()["scores"]) > 0
