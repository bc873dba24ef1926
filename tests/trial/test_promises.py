"""Every promise of the contract, broken by a small algorithm: it is reported, with the author's method."""

import pytest
from own_algorithms import SENT, TRAIN, here, trial

from fedsim.core.errors import UserError
from fedsim.trial import cohorts, messages, modules, protocols, resumed, side_effects


def work(*lines, before=""):
    body = "\n".join([*before.splitlines(), *TRAIN.splitlines(), *lines, "return sent"])
    return f"def work(self, job):{'' if '# HERE' in body else '  # HERE'}\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )


QUIET = (
    messages.check_size, messages.check_encodable, messages.check_finite, side_effects.check_random,
    side_effects.check_repeats, side_effects.check_in_place, cohorts.check,
)  # fmt: skip


def test_nothing_is_found_of_an_algorithm_that_keeps_the_contract(tmp_path):
    tried = trial(tmp_path, work())
    assert [finding for check in QUIET for finding in check(tried)] == []


def only(findings, kind="broken"):
    (found,) = findings
    assert found.kind == kind
    return found


def test_an_upload_that_is_larger_than_declared(tmp_path):
    tried = trial(tmp_path, work('sent["notes"] = torch.zeros(3)'))
    found = only(messages.check_size(tried))
    assert "['notes'] is sent (float32 (3,), " in found.what
    assert "algorithms/fedavg.py:" in found.where
    assert here(tmp_path) in found.remedy
    assert found.remedy.endswith("it is inherited: give Mine its own")


def test_an_upload_of_no_declared_size(tmp_path):
    found = only(messages.check_size(trial(tmp_path, "def upload_like(self, job):  # HERE\n    return None\n")), "note")
    assert found.where == here(tmp_path)
    assert "one by one" in found.what


def test_an_upload_that_cannot_be_sent(tmp_path):
    tried = trial(tmp_path, work('sent["notes"] = {"who": {1, 2}}'))
    found = only(messages.check_encodable(tried))
    assert "['notes']['who']" in found.what
    assert "type set" in found.what
    assert messages.check_size(tried) == []


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (work('sent["samples"] = float("inf")'), "the upload['samples'] of client 0 in step 'train' of round 1"),
        (
            "def update(self, state, replies, step):\n"
            "    return {**super().update(state, replies, step), 'odd': torch.zeros(2) / 0}\n",
            "the state['odd'] after step 'train' of round 1",
        ),
        ("def start(self):\n    return {**super().start(), 'odd': float('nan')}\n", "the first state['odd']"),
    ],
)
def test_a_value_that_is_not_finite(tmp_path, body, what):
    assert what in only(messages.check_finite(trial(tmp_path, body))).what


LOSS = "def loss(self, params, data, given):\n    {line}\n    return self.task.loss(params, data)\n"
UPDATE = (
    "def update(self, state, replies, step):  # HERE\n    {line}\n    return super().update(state, replies, step)\n"
)


@pytest.mark.parametrize(
    ("body", "method", "library"),
    [
        (work("noise = torch.randn(3)"), "work", "torch"),
        (work("random.random()"), "work", "random"),
        (LOSS.format(line="torch.rand(1)") + work(), "work", "torch"),
        (UPDATE.format(line="np.random.rand()"), "update", "numpy.random"),
    ],
)
def test_global_random_numbers(tmp_path, body, method, library):
    found = only(side_effects.check_random(trial(tmp_path, body)))
    assert found.where == here(tmp_path)
    assert found.what.startswith(f"{method} draws from the global random numbers of {library},")


def test_a_result_that_is_not_that_of_the_seed(tmp_path):
    found = only(
        side_effects.check_repeats(trial(tmp_path, work('sent["samples"] += np.random.default_rng().random()')))
    )
    assert "the upload['samples'] of client 0 in step 'train' of round 1" in found.what
    assert found.where == here(tmp_path)


REMEMBER = 'job.memory["v"] = tree.zeros_like(trained) if "v" not in job.memory else job.memory["v"]'


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (work(REMEMBER, 'job.memory["v"]["layer1"]["bias"].add_(1)'), "job.memory['v']['layer1']['bias'] of client"),
        (work(REMEMBER, 'job.memory["v"]["layer1"]["bias"][0] = 1 + job.seed'), "job.memory['v']['layer1']"),
        (work('job.memory.setdefault("seen", []).append(1)'), "job.memory['seen'] of client"),
        (work('job.download["model"]["layer1"]["weight"].mul_(0.5)'), "job.download['model']"),
        (work(before='job.data["x"] *= 2'), "job.data['x'] of client 0"),
        (
            UPDATE.format(line="state['model']['layer2']['bias'] += 1"),
            "state['model']['layer2']['bias'] is changed in place by update",
        ),
        (
            "def download(self, state, client, step):  # HERE\n    state['last'] = client\n"
            "    return super().download(state, client, step)\n",
            "state is changed in place by download",
        ),
    ],
)
def test_a_change_in_place(tmp_path, body, what):
    found = side_effects.check_in_place(trial(tmp_path, body))[0]
    assert found.kind == "broken"
    assert found.what.startswith(what)
    assert found.where == here(tmp_path)


def test_data_that_one_algorithm_has_changed_are_new_for_the_next(tmp_path):
    tried = trial(tmp_path, work(before='job.data["x"] *= 2'))
    before = tried.stage.setup().data.periods[0][0].graph["x"].clone()
    assert side_effects.check_in_place(tried)
    assert tried.stage.setup().data.periods[0][0].graph["x"].equal(before)


def test_a_result_that_depends_on_a_variable_of_the_module(tmp_path):
    body = work("COUNTS[0] += 1", 'sent["samples"] += COUNTS[0]')
    assert "the upload['samples'] of client 0" in only(side_effects.check_repeats(trial(tmp_path, body))).what


def test_a_loss_that_adds_all_clients_up(tmp_path):
    body = "def loss(self, params, data, given):  # HERE\n    return self.task.loss(params, data).mean()\n"
    with pytest.raises(UserError, match=r"Mine\.loss must return a vector of 4, .* not the shape \(\)") as caught:
        cohorts.check(trial(tmp_path, body))
    assert f"({here(tmp_path)})" in str(caught.value)


MODULES = "any_model = True\n\n"


def test_a_module_is_not_tried_where_the_algorithm_does_not_claim_to_take_one(tmp_path):
    found = only(modules.check(trial(tmp_path, work())), "note")
    assert found.what == "not tried: it does not say any_model = True, so that modules are refused"


def test_an_algorithm_that_takes_any_module_keeps_its_promises_with_one(tmp_path):
    assert modules.check(trial(tmp_path, MODULES + work())) == []


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (work('sent["notes"] = torch.zeros(len(trained))'), "with a torch module upload_like declares"),
        (work("torch.rand(1)"), "with a torch module work draws from the global random numbers"),
    ],
)
def test_what_breaks_with_a_module_is_reported_so(tmp_path, body, what):
    assert modules.check(trial(tmp_path, MODULES + body))[0].what.startswith(what)


def test_an_algorithm_that_reads_layers_and_takes_any_module_raises(tmp_path):
    body = MODULES + LOSS.format(line="assert 'layer1' in params") + work()
    with pytest.raises(AssertionError):
        modules.check(trial(tmp_path, body))


def test_an_upload_that_reads_other_clients_jobs(tmp_path):
    body = work(f"COUNTS[0] = job.client\n{SENT}", before="").replace(
        "    return sent", "    yield Fit(trained, self.loss)\n    sent['samples'] += COUNTS[0]\n    return sent"
    )
    found = only(cohorts.check(trial(tmp_path, body)))
    assert "the upload['samples'] of client 0" in found.what


@pytest.mark.long
def test_a_point_that_cannot_be_continued(tmp_path):
    body = work("object.__setattr__(self, 'seen', getattr(self, 'seen', 0) + 1)", "sent['samples'] *= self.seen**3")
    found = only(resumed.check(trial(tmp_path, body)))
    assert "trains something else in step 'train'" in found.what
    assert resumed.check(trial(tmp_path, work())) == []
    kept = only(resumed.check(trial(tmp_path, work("job.memory['strange'] = object()"))), "note")
    assert kept.what == "an interrupted run starts anew: no checkpoint can hold a value of type builtins.object"


@pytest.mark.long
def test_protocols_that_run_refuse_and_fail(tmp_path):
    body = """
    def share(self, state):
        return {"model": state["modle"]}  # HERE

    def steps(self, state):
        return ("train",)
    """
    told = protocols.check(trial(tmp_path, body))
    assert {finding.kind for finding in told} == {"note"}
    assert told[0].what == "it runs under deadline, isolated, one_shot, sync"
    assert [finding.what.split()[1] for finding in told[1:]] == ["'buffered'", "'gossip'", "'hierarchical'"]
    assert "which the steps of Mine need: take the protocol 'sync'" in told[1].what
    failed = protocols.check(trial(tmp_path, body.split("def steps")[0]))
    assert [finding.kind for finding in failed] == ["broken", "note"]
    assert failed[0].what == "under gossip, hierarchical it fails: KeyError: 'modle'"
    assert failed[0].where == here(tmp_path).replace(":", ", line ")


def test_every_protocol_has_its_options():
    assert protocols.names() == sorted(protocols.OPTIONS)
