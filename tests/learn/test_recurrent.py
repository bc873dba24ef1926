"""What all models with a memory have in common: unions, states, halos, corrections, what is told of their sizes."""

import pytest
import torch
from changing import dense, outcome, shaken, undirected
from learnlab import drawn, drawn_task, job_of, largest_gap

from fedsim.data.graph import Graph, induced, to_device, with_keys
from fedsim.learn.algorithm import Fit
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.layers.convolution import aggregate
from fedsim.learn.layers.recurrent import activate, unit_length
from fedsim.learn.models.evolve_gcn_h import EvolveGCNH
from fedsim.learn.models.evolve_gcn_o import EvolveGCNO
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.gcn_head import GCNHead
from fedsim.learn.models.gcrn_baseline import GCRNBaseline
from fedsim.learn.models.gcrn_gru import GCRNGRU
from fedsim.learn.models.gcrn_lstm import GCRNLSTM
from fedsim.learn.models.roland import Roland

FEATURES, CLASSES = 7, 3
MODELS = {
    "gru": Roland(hidden=5),
    "gat": Roland(hidden=5, convolution="gat", normalise="none"),
    "moving_average": Roland(hidden=5, update="moving_average", keep=0.4, norm="mean"),
    "by_degree": Roland(hidden=5, update="moving_average"),
    "mlp": Roland(hidden=5, update="mlp", norm="sum", activation="relu"),
    "evolve_gcn_o": EvolveGCNO(hidden=5),
    "evolve_gcn_h": EvolveGCNH(hidden=5),
    "gcrn_gru": GCRNGRU(hidden=5, order=3, layers=2),
    "gcrn_lstm": GCRNLSTM(hidden=5, order=3, layers=2),
    "gcrn_baseline": GCRNBaseline(hidden=5, order=3, layers=2),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def params_of(model, seed, classes=CLASSES):
    return shaken(model.init(FEATURES, classes, torch.Generator().manual_seed(seed)), seed)


def of(model, nodes, seed, **options):
    return undirected(nodes, seed, width=model.state_width(FEATURES, CLASSES), **options)


@pytest.mark.parametrize("as_csr", [False, True])
@every_model
def test_the_clients_of_a_union_are_those_alone_whatever_their_parameters(model, as_csr):
    graphs = [of(model, size, size, as_csr=as_csr) for size in (12, 1, 4, 30)]
    params = [params_of(model, k) for k in range(4)]
    out, states, grads = outcome(model, params, joining.union(graphs))
    at = 0
    for k, graph in enumerate(graphs):
        alone, own_states, own = outcome(model, [params[k]], graph)
        end = at + len(alone)
        torch.testing.assert_close(out[at:end], alone, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(states[at:end], own_states, rtol=1e-3, atol=1e-4)
        scale = max(float(leaf.abs().max()) for leaf in tree.leaves(own))
        assert largest_gap(tree.at(grads, k), tree.at(own, 0)) < 2e-3 * max(1.0, scale)
        at = end


@every_model
def test_an_empty_graph_in_a_union_changes_nothing_and_has_no_gradient_behind_the_weights(model):
    graphs = [of(model, 9, 1), of(model, 0, 2), of(model, 6, 3)]
    params = [params_of(model, k) for k in range(3)]
    out, states, grads = outcome(model, params, joining.union(graphs))
    rest, rest_states, _ = outcome(model, [params[0], params[2]], joining.union([graphs[0], graphs[2]]))
    torch.testing.assert_close(out, rest, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(states, rest_states, rtol=1e-4, atol=1e-5)
    assert all(float(leaf.abs().max()) == 0 for leaf in tree.leaves(tree.at(grads, 1)))


@every_model
def test_graphs_that_share_parameters_are_told_apart(model):
    graphs = [of(model, size, size) for size in (14, 5, 9)]
    first, second = params_of(model, 0), params_of(model, 1)
    alone = [model.step(tree.stack([first]), graph) for graph in graphs]
    together = joining.union(graphs, shared=True)
    for got, place in zip(model.step(tree.stack([first]), together), (0, 1), strict=True):
        torch.testing.assert_close(got, torch.cat([one[place] for one in alone]), rtol=1e-3, atol=1e-4)
    nested = joining.union([joining.union(graphs[:2], shared=True), graphs[2]])
    own = [*[model.forward(tree.stack([first]), graph) for graph in graphs[:2]],
           model.forward(tree.stack([second]), graphs[2])]  # fmt: skip
    torch.testing.assert_close(model.forward(tree.stack([first, second]), nested), torch.cat(own), rtol=1e-3, atol=1e-4)


@every_model
def test_every_parameter_has_a_gradient_and_the_classifier_can_be_left_out(model):
    graph, params = of(model, 20, 3), params_of(model, 0)
    _, _, grads = outcome(model, [params], graph)
    assert all(float(leaf.abs().max()) > 0 for leaf in tree.leaves(grads))
    bare = params_of(model, 0, classes=0)
    assert "classifier" not in bare
    stacked = tree.stack([bare])
    torch.testing.assert_close(model.forward(stacked, graph), model.embed(stacked, graph))
    assert model.embed(stacked, graph).shape == (20, 5)


@every_model
def test_states_are_as_wide_as_told_detached_and_zeros_where_there_are_none(model):
    width, params = model.state_width(FEATURES, CLASSES), tree.stack([params_of(model, 0)])
    graph = undirected(15, 4)
    zeros = {**graph, "state": torch.zeros(15, width)}
    assert model.remember(params, graph).shape == (15, width)
    assert torch.equal(model.remember(params, graph), model.remember(params, zeros))
    live = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), params)
    before = torch.randn(15, width, requires_grad=True)
    out, states = model.step(live, {**graph, "state": before})
    assert not states.requires_grad
    assert out.requires_grad
    (through,) = torch.autograd.grad(out.sum(), [before], allow_unused=True)  # for who unrolls several periods
    assert (through is not None and bool(through.any())) == (width > 0)
    assert torch.equal(states, model.remember(params, {**graph, "state": before.detach()}))
    assert not width or not torch.equal(states, model.remember(params, zeros))


def test_states_of_another_width_are_refused():
    model = MODELS["gru"]
    with pytest.raises(ValueError, match=r"states have the shape \(15, 3\); this model's have \(15, 10\)"):
        model.remember(tree.stack([params_of(model, 0)]), undirected(15, 4, width=3))


@pytest.mark.parametrize(
    "name", ["gru", "gat", "moving_average", "by_degree", "mlp", "gcrn_gru", "gcrn_lstm", "gcrn_baseline"]
)
def test_a_halo_keeps_its_states_and_lends_them_to_its_neighbours(name):
    model, params = MODELS[name], tree.stack([params_of(MODELS[name], 0)])
    graph = of(model, 20, 5)
    halo = torch.zeros(20, dtype=torch.bool)
    halo[:6] = True
    with_it = with_keys(graph, {"halo": halo})
    states = model.remember(params, with_it)
    assert torch.equal(states[halo], graph["state"][halo])
    other = graph["state"].clone()
    other[:6] += 1.0
    moved = model.remember(params, with_keys(with_it, {"state": other}))
    joined = dense(graph)[6:, :6].sum(1) > 0
    assert bool(joined.any())
    assert not torch.allclose(moved[6:][joined], states[6:][joined])


def test_what_a_batch_is_does_not_depend_on_the_halo():
    model, params = Roland(hidden=5, layers=1), tree.stack([params_of(Roland(hidden=5, layers=1), 0)])
    graph = of(model, 20, 5)
    halo = torch.zeros(20, dtype=torch.bool)
    halo[-3:] = True  # isolated nodes: they touch the others through the batch only
    far = {**graph, "x": graph["x"] * torch.where(halo, 9.0, 1.0).unsqueeze(1)}
    inside = ~halo
    one, other = (model.remember(params, with_keys(g, {"halo": halo})) for g in (graph, far))
    torch.testing.assert_close(one[inside], other[inside])
    assert not torch.allclose(model.remember(params, graph)[inside], model.remember(params, far)[inside])


@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
def test_sums_are_over_neighbours_and_oneself_by_the_degrees_given(norm):
    graph = drawn(20, 6)  # directed, with self-loops
    n, a = 20, dense(graph)
    h = torch.randn(n, 4, generator=torch.Generator().manual_seed(1))
    other = torch.randint(1, 9, (n,), generator=torch.Generator().manual_seed(0)).float()
    for given, degree in ((graph, a.sum(1)), ({**graph, "degree": other}, other)):
        d = degree.unsqueeze(1)
        expected = {"sum": a @ h, "mean": a @ h / d, "sym": (a / (d * d.T).sqrt()) @ h}[norm]
        torch.testing.assert_close(aggregate(h, given, norm), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
@pytest.mark.parametrize("kind", [Roland, EvolveGCNO])
def test_corrected_layer_by_layer_parts_of_a_graph_are_the_whole_graph(kind, norm):
    options = {"update": "gru", "normalise": "none", "unit": False} if kind is Roland else {}
    model = kind(hidden=5, layers=2, norm=norm, **options)
    whole, params = of(model, 24, 7), tree.stack([params_of(model, 0)])
    owner = torch.arange(24) % 3
    a = dense(whole)
    degree = a.sum(1)
    foreign = a * (owner.unsqueeze(0) != owner.unsqueeze(1))
    d = degree.unsqueeze(1)
    cross = {"sum": foreign, "mean": foreign / d, "sym": foreign / (d * d.T).sqrt()}[norm]
    hidden = outputs_of_layers(model, params, whole)
    deltas = {f"delta{i + 1}": cross @ h for i, h in enumerate([whole["x"], *hidden[:-1]])}
    assert [delta.shape[1] for delta in deltas.values()] == model.delta_widths(FEATURES, CLASSES)
    full = Graph(**{**whole, **deltas, "degree": degree})
    parts = [induced(full, (owner == k).nonzero().squeeze(1)) for k in range(3)]
    out = model.forward(tree.transform(lambda leaf: leaf.expand(3, *leaf.shape[1:]), params), joining.union(parts))
    order = torch.cat([(owner == k).nonzero().squeeze(1) for k in range(3)])
    torch.testing.assert_close(out, model.forward(params, whole)[order], rtol=1e-4, atol=1e-4)
    for part in parts:
        del part["delta1"]
    wrong = model.forward(tree.transform(lambda leaf: leaf.expand(3, *leaf.shape[1:]), params), joining.union(parts))
    assert not torch.allclose(out, wrong, atol=1e-3)


def outputs_of_layers(model, params, graph):
    """What each layer gives the next."""
    h, found = graph["x"], []
    for i, seen in model._views(graph):
        h = model.layer(params[f"layer{i}"], h, seen)[:, : model.hidden]
        found.append(h)
    return found


def test_attention_cannot_be_corrected_and_says_so():
    model = MODELS["gat"]
    graph = {**undirected(9, 1), "delta1": torch.ones(9, FEATURES)}
    assert model.delta_widths(FEATURES, CLASSES) == []
    with pytest.raises(ValueError, match="choose convolution: gcn"):
        model.forward(tree.stack([params_of(model, 0)]), graph)


def test_keys_of_nodes_are_joined_and_induced_with_them():
    first, second = undirected(6, 1, width=4), undirected(3, 2)
    first["changed"], second["changed"] = torch.ones(6, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)
    first["delta2"] = torch.full((6, 2), 3.0)
    joined = joining.union([second, first])
    assert torch.equal(joined["state"], torch.cat([torch.zeros(3, 4), first["state"]]))
    assert torch.equal(joined["delta2"][:, 0], torch.tensor([0.0] * 3 + [3.0] * 6))
    assert joined["changed"].tolist() == [False] * 3 + [True] * 6
    assert "halo" not in joined
    part = induced(first, [4, 1])
    assert torch.equal(part["state"], first["state"][[4, 1]])
    assert part["changed"].tolist() == [True, True]
    assert torch.equal(to_device(first, "cpu")["state"], first["state"])
    del second["changed"]
    with pytest.raises(ValueError, match="some graphs of a union have 'changed' and others do not"):
        joining.union([first, second])


def test_models_without_a_memory_say_so():
    model, graph = GCN(hidden=5), drawn(8, 1)
    params = tree.stack([model.init(FEATURES, CLASSES, torch.Generator().manual_seed(0))])
    out, states = model.step(params, graph)
    assert torch.equal(out, model.forward(params, graph))
    assert model.remember(params, graph).shape == states.shape == (8, 0)
    assert model.state_width(FEATURES, CLASSES) == 0
    assert model.delta_widths(FEATURES, CLASSES) == []
    assert model.turn(params, graph) is params


@every_model
def test_work_grows_with_nodes_width_and_layers(model):
    small, large = undirected(20, 1), undirected(40, 1)
    assert 0 < model.flops(small, 3) < model.flops(large, 3)
    assert model.flops(small, 3) < type(model)(**{**vars(model), "hidden": 9}).flops(small, 3)
    assert model.flops(small, 3) < type(model)(**{**vars(model), "layers": 3}).flops(small, 3)


@every_model
def test_a_cohort_with_states_trains_as_its_clients_do_alone(model):
    task = drawn_task(model)
    graphs = [of(model, size, size) for size in (12, 7)]

    def loss(params, graph, given):
        return task.loss(params, graph)

    fits = [Fit(task.init(), loss) for _ in graphs]
    together = Trainer(Adam(0.02), 4).train([(job_of(k, graphs[k], {}), fits[k]) for k in range(2)])
    for k in range(2):
        (alone,) = Trainer(Adam(0.02), 4).train([(job_of(k, graphs[k], {}), fits[k])])
        assert largest_gap(together[k], alone) < 2e-3
        before, after = (float(task.loss(tree.stack([params]), graphs[k])) for params in (fits[k].start, together[k]))
        assert after < before


@pytest.mark.parametrize("kind", [Roland, EvolveGCNO, GCRNGRU, GCNHead])
def test_every_model_has_embeddings_of_length_one_if_asked_and_the_same_states(kind):
    plain, unit = (kind(hidden=5, layers=2, unit=unit) for unit in (False, True))
    graph, params = of(plain, 24, 7), tree.stack([params_of(plain, 0)])
    h = plain.embed(params, graph)
    torch.testing.assert_close(unit.embed(params, graph), unit_length(h))
    assert not torch.allclose(h, unit_length(h), atol=1e-2)
    torch.testing.assert_close(unit.remember(params, graph), plain.remember(params, graph), rtol=0, atol=0)


def test_activations_and_unit_length():
    h = torch.tensor([[3.0, -4.0], [0.0, 0.0]], requires_grad=True)
    assert activate(h, "none") is h
    torch.testing.assert_close(activate(h, "selu"), torch.nn.functional.selu(h))
    torch.testing.assert_close(unit_length(h), torch.tensor([[0.6, -0.8], [0.0, 0.0]]))
    (grad,) = torch.autograd.grad(unit_length(h).sum(), [h])
    assert bool(grad.isfinite().all())
