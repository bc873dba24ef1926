"""Every promise of the contract, broken by a small algorithm: it is told, with the author's line."""

import pytest
from own_algorithms import SENT, TRAIN, here, trial

from fedsim.trial import (
    billing,
    cohorts,
    declared_bytes,
    encodable,
    groups,
    protocols,
    randomness,
    resumed,
    untouched,
)  # fmt: skip


def work(*lines, before=""):
    body = "\n".join([*before.splitlines(), *TRAIN.splitlines(), *lines, "return sent"])
    return f"def work(self, job):{'' if '# HERE' in body else '  # HERE'}\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )


QUIET = (
    declared_bytes.check, encodable.check, encodable.check_finite, randomness.check, randomness.check_repeats,
    untouched.check, untouched.check_kept, cohorts.check, groups.check, billing.check,
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
    found = only(declared_bytes.check(tried))
    assert "['notes'] is sent (float32 (3,), " in found.what
    assert "algorithms/fedavg.py:" in found.where
    assert here(tmp_path) in found.remedy
    assert found.remedy.endswith("it is inherited: give Mine its own")


def test_an_upload_of_no_declared_size(tmp_path):
    found = only(
        declared_bytes.check(trial(tmp_path, "def upload_like(self, job):  # HERE\n    return None\n")), "warning"
    )
    assert found.where == here(tmp_path)
    assert "one by one" in found.what


def test_an_upload_that_cannot_be_sent(tmp_path):
    tried = trial(tmp_path, work('sent["notes"] = {"who": {1, 2}}'))
    found = only(encodable.check(tried))
    assert "['notes']['who']" in found.what
    assert "type set" in found.what
    assert declared_bytes.check(tried) == []


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
    assert what in only(encodable.check_finite(trial(tmp_path, body))).what


LOSS = "def loss(self, params, data, given):\n    {line}\n    return self.task.loss(params, data)\n"


@pytest.mark.parametrize(
    ("body", "method", "library"),
    [
        (work("noise = torch.randn(3)  # HERE"), "work", "torch"),
        (work("random.random()  # HERE"), "work", "random"),
        (LOSS.format(line="torch.rand(1)  # HERE"), "work", "torch"),
        (
            "def update(self, state, replies, step):\n    np.random.rand()  # HERE\n"
            "    return super().update(state, replies, step)\n",
            "update",
            "numpy.random",
        ),
    ],
)
def test_global_random_numbers(tmp_path, body, method, library):
    tried = trial(tmp_path, body)
    found = only(randomness.check(tried))
    assert found.where.startswith(here(tmp_path) + ": ")
    assert found.what.startswith(f"{method} draws from the global random numbers of {library},")


def test_a_result_that_is_not_that_of_the_seed(tmp_path):
    found = only(randomness.check_repeats(trial(tmp_path, work('sent["samples"] += np.random.default_rng().random()'))))
    assert "the upload['samples'] of client 0 in step 'train' of round 1" in found.what
    assert found.where == here(tmp_path)


REMEMBER = 'job.memory["v"] = tree.zeros_like(trained) if "v" not in job.memory else job.memory["v"]'


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (work(REMEMBER, 'job.memory["v"]["layer1"]["bias"].add_(1)  # HERE'), "job.memory['v']['layer1']['bias'] of"),
        (work(REMEMBER, 'job.memory["v"]["layer1"]["bias"][0] = 1 + job.seed  # HERE'), "job.memory['v']['layer1']"),
        (work('job.memory.setdefault("seen", []).append(1)  # HERE'), "job.memory['seen'] of client"),
        (work('job.download["model"]["layer1"]["weight"].mul_(0.5)  # HERE'), "job.download['model']"),
        (work(before='job.data["x"] *= 2  # HERE'), "job.data['x'] of client 0"),
        (
            "def update(self, state, replies, step):\n    state['model']['layer2']['bias'] += 1  # HERE\n"
            "    return super().update(state, replies, step)\n",
            "state['model']['layer2']['bias'] is changed in place by update",
        ),
        (
            "def download(self, state, client, step):\n    state['last'] = client  # HERE\n"
            "    return super().download(state, client, step)\n",
            "state is changed in place by download",
        ),
    ],
)
def test_a_change_in_place(tmp_path, body, what):
    found = untouched.check(trial(tmp_path, body))[0]
    assert found.kind == "broken"
    assert found.what.startswith(what)
    assert found.where.startswith(here(tmp_path) + ": ")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("COUNTS[0] += 1  # HERE", "the module's variable COUNTS"),
        ("object.__setattr__(self, 'seen', getattr(self, 'seen', 0) + 1)  # HERE", "self.seen"),
    ],
)
def test_what_is_kept_elsewhere(tmp_path, line, what):
    found = only(untouched.check_kept(trial(tmp_path, work(line))), "warning")
    assert f"work changes {what}" in found.what
    assert found.where.startswith(here(tmp_path) + ": ")


def test_a_loss_that_adds_all_clients_up(tmp_path):
    body = "def loss(self, params, data, given):  # HERE\n    return self.task.loss(params, data).mean()\n"
    found = only(cohorts.check(trial(tmp_path, body)))
    assert found.where == here(tmp_path)
    assert "its loss returns the shape () for one client, which must be (1,)" in found.what


def test_an_upload_that_reads_other_clients_jobs(tmp_path):
    body = work(f"COUNTS[0] = job.client\n{SENT}", before="").replace(
        "    return sent", "    yield Fit(trained, self.loss)\n    sent['samples'] += COUNTS[0]\n    return sent"
    )
    found = only(cohorts.check(trial(tmp_path, body)))
    assert "the upload['samples'] of client 0" in found.what


GIVE = "def work(self, job):\n    trained = yield Fit(job.download['model'], {loss}, given={given}{more})\n"


def fit(loss="self.loss", given="None", more="", mark="  # HERE"):
    head = GIVE.format(loss=loss, given=given, more=more).rstrip() + mark
    return f"{head}\n    {SENT}    return sent\n"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (fit("lambda p, d, g: self.task.loss(p, d)"), "`loss` of a Fit is a new function for every job"),
        (fit(more=", correct=lambda grads, given: grads"), "`correct` of a Fit is a new function for every job"),
        (
            "def loss(self, params, data, given):  # HERE\n    return self.task.loss(params, data)\n"
            + fit(more=", each=True", mark=""),
            "Fit(each=True) trains clients one by one",
        ),
        (
            "def loss(self, params, data, given):  # HERE\n    return self.task.loss(params, data)\n"
            + fit(given="{'w': torch.zeros(3 + job.client)}", mark=""),
            "given['w'] of a Fit has another shape for every client ((3,), (4,), ...)",
        ),
    ],
)
def test_a_cohort_that_falls_into_groups_of_one(tmp_path, body, what):
    tried = trial(tmp_path, body)
    found = only(groups.check(tried), "warning")
    assert found.what.startswith(what)
    assert found.where == here(tmp_path)
    assert cohorts.check(tried) == []


HEAVY = """
a = torch.ones(200, 200)
for _ in range(5):
    a = a @ a / 200  # HERE
"""


def test_work_beside_training_that_is_not_billed(tmp_path):
    found = only(billing.check(trial(tmp_path, work(before=HEAVY))), "warning")
    assert "bills 2.0; most of it is beside its training" in found.what
    assert found.where.startswith(here(tmp_path) + ": ")


def test_training_that_is_not_billed(tmp_path):
    body = work(before="for _ in range(3):\n    yield Fit(job.download['model'], self.loss, slot=None)")
    found = only(billing.check(trial(tmp_path, body)), "warning")
    assert "most of it is in its training" in found.what
    billed = body + "def effort(self, job):\n    return 4.0\n"
    assert billing.check(trial(tmp_path, billed)) == []


def test_an_update_that_is_not_billed(tmp_path):
    inner = "".join(f"    {line}\n" for line in HEAVY.strip().splitlines())
    body = f"def update(self, state, replies, step):\n{inner}    return super().update(state, replies, step)\n"
    found = only(billing.check(trial(tmp_path, body)), "warning")
    assert "server_flops bills" in found.what
    assert found.where.startswith(here(tmp_path) + ": ")
    billed = body + "def server_flops(self, state, replies, step):\n    return 5 * 2.0 * 200**3\n"
    assert billing.check(trial(tmp_path, billed)) == []


@pytest.mark.long
def test_a_point_that_cannot_be_continued(tmp_path):
    body = work("object.__setattr__(self, 'seen', getattr(self, 'seen', 0) + 1)", "sent['samples'] *= self.seen**3")
    found = only(resumed.check(trial(tmp_path, body)))
    assert "trains something else in step 'train'" in found.what
    assert resumed.check(trial(tmp_path, work())) == []
    kept = only(resumed.check(trial(tmp_path, work("job.memory['strange'] = object()"))), "warning")
    assert (
        kept.what == "a point that is interrupted starts anew: no checkpoint can hold a value of type builtins.object"
    )


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
    assert failed[0].where.startswith(here(tmp_path) + ": ")


def test_every_protocol_has_its_options():
    assert protocols.names() == sorted(protocols.OPTIONS)
