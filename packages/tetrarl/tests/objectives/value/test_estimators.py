import copy

import pytest
import torch
from tetradict import TensorDict
from tetradict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torch.testing import assert_close

from tetrarl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
from tetrarl.objectives.value import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator, VTrace
from tetrarl.objectives.value import functional as F

N, T = 3, 20


def rollout(seed=0, *, values=False):
    g = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.randn(N, T, *shape, generator=g, dtype=torch.float64)

    done = torch.rand(N, T, 1, generator=g) < 0.2
    following = {"observation": rand(4), "reward": rand(1), "done": done, "terminated": done & (rand(1) > 0)}
    root = {"observation": rand(4)}
    if values:
        root["state_value"], following["state_value"] = rand(1), rand(1)
    return TensorDict({**root, "next": TensorDict(following, [N, T])}, [N, T])


def network():
    torch.manual_seed(0)
    return ValueOperator(nn.Linear(4, 1).double())


def outcome(td):
    return [td["next", key] for key in ("reward", "done", "terminated")]


def make(cls, network, **options):
    if cls in (GAE, TDLambdaEstimator):
        options = {"lmbda": 0.8, **options}
    return cls(gamma=0.9, value_network=network, **options)


def want(cls, value, next_value, reward, done, terminated):
    """Advantage and target by the functions, which have their own oracles."""
    if cls is GAE:
        return F.generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done, terminated)
    if cls is TDLambdaEstimator:
        target = F.td_lambda_return_estimate(0.9, 0.8, next_value, reward, done, terminated)
    elif cls is TD1Estimator:
        target = F.td1_return_estimate(0.9, next_value, reward, done, terminated)
    else:
        target = F.td0_return_estimate(0.9, next_value, reward, terminated)
    return target - value, target


ALL = pytest.mark.parametrize("cls", [GAE, TDLambdaEstimator, TD1Estimator, TD0Estimator])


@ALL
def test_it_asks_its_network_for_the_values_and_writes_the_results(cls):
    td, net = rollout(), network()
    out = make(cls, net)(td)
    assert out is td
    value, next_value = net.module(td["observation"]), net.module(td["next", "observation"])
    advantage, target = want(cls, value.detach(), next_value.detach(), *outcome(td))
    assert_close(td["advantage"], advantage)
    assert_close(td["value_target"], target)
    assert_close(td["state_value"], value.detach())
    assert_close(td["next", "state_value"], next_value.detach())
    assert not td["advantage"].requires_grad and not td["state_value"].requires_grad


@ALL
def test_without_a_network_it_reads_the_values(cls):
    td = rollout(values=True)
    make(cls, None)(td)
    advantage, target = want(cls, td["state_value"], td["next", "state_value"], *outcome(td))
    assert_close((td["advantage"], td["value_target"]), (advantage, target))


@ALL
def test_differentiable_carries_gradients_to_the_network(cls):
    td, net = rollout(), network()
    make(cls, net, differentiable=True)(td)
    (td["advantage"] + td["value_target"]).sum().backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    results = want(cls, net.module(td["observation"]), net.module(td["next", "observation"]), *outcome(td))
    sum(results).sum().backward()
    assert_close(got, [p.grad for p in net.parameters()])


@ALL
def test_the_value_target_alone_leaves_the_data_alone(cls):
    td, net = rollout(), network()
    target = make(cls, net).value_estimate(td)
    assert set(td.keys(True, True)) == set(rollout().keys(True, True))
    assert_close(target, make(cls, net)(td)["value_target"])


@ALL
def test_tensors_go_in_and_come_out(cls):
    td, net = rollout(), network()
    advantage, target = make(cls, net)(
        observation=td["observation"],
        next_observation=td["next", "observation"],
        next_reward=td["next", "reward"],
        next_done=td["next", "done"],
        next_terminated=td["next", "terminated"],
    )
    out = make(cls, net)(td)
    assert_close((advantage, target), (out["advantage"], out["value_target"]))


@pytest.mark.parametrize("cls", [GAE, TDLambdaEstimator])
def test_step_by_step_gives_the_same(cls):
    td = rollout(values=True)
    fast, slow = (make(cls, None, vectorized=v)(td.copy()) for v in (True, False))
    assert_close(fast["advantage"], slow["advantage"])


def test_a_vectorised_estimate_is_the_default():
    assert make(GAE, None).vectorized is True and make(GAE, None, vectorized=False).vectorized is False


def test_average_gae_shifts_and_scales_the_advantage_alone():
    td, plain = rollout(values=True), make(GAE, None)(rollout(values=True))
    make(GAE, None, average_gae=True)(td)
    assert_close(td["advantage"].mean(), torch.tensor(0.0).double())
    assert_close(td["advantage"].std(), torch.tensor(1.0).double())
    assert_close(td["value_target"], plain["value_target"])


def test_existing_values_are_used_on_demand():
    td = rollout(values=True)
    kept = td["state_value"].clone()
    make(GAE, network(), skip_existing=True)(td)
    assert_close(td["state_value"], kept)
    assert_close(td["advantage"], make(GAE, None)(rollout(values=True))["advantage"])
    make(GAE, network())(td)
    assert not torch.equal(td["state_value"], kept)


def test_time_may_be_named_or_given():
    td = rollout(values=True)
    want = make(GAE, None)(td.copy())["advantage"].transpose(0, 1)
    turned = td.transpose(0, 1)
    assert_close(make(GAE, None)(turned.copy(), time_dim=0)["advantage"], want)
    assert_close(make(GAE, None, time_dim=0)(turned.copy())["advantage"], want)
    assert_close(make(GAE, None, time_dim=-2)(turned.copy())["advantage"], want)
    turned.names = ["time", None]
    assert_close(make(GAE, None)(turned.copy())["advantage"], want)
    with pytest.raises(ValueError, match=r"time_dim must lie in the batch of shape \(20, 3\), got 2"):
        make(GAE, None)(turned, time_dim=2)


def test_coefficients_may_be_tensors():
    td = rollout(values=True)
    gamma, lmbda = torch.full((N, T, 1), 0.9).double(), torch.tensor(0.8).double()
    module = GAE(gamma=gamma, lmbda=lmbda, value_network=None, device="cpu")
    assert_close(module(td.copy())["advantage"], make(GAE, None)(td)["advantage"])
    assert module.state_dict() == {} and set(dict(module.named_buffers())) == {"gamma", "lmbda"}


def test_other_entries_may_be_read_and_written():
    td = rollout(values=True)
    want = make(GAE, None)(td.copy())
    td.rename_key_("state_value", "v")
    td.rename_key_(("next", "state_value"), ("next", "v"))
    td.rename_key_(("next", "reward"), ("next", "r"))
    module = make(GAE, None)
    module.set_keys(advantage="a", value_target=("t", "t"), value="v")
    module.set_keys(reward="r")
    module(td)
    assert_close((td["a"], td["t", "t"]), (want["advantage"], want["value_target"]))
    assert module.out_keys == ["a", ("t", "t")]
    assert module.in_keys == ["v", ("next", "r"), ("next", "done"), ("next", "terminated"), ("next", "v")]


def test_the_value_lies_where_the_network_writes_it():
    net = TensorDictModule(nn.Linear(4, 1).double(), in_keys=["observation"], out_keys=["v"])
    assert make(GAE, net).tensor_keys.value == "v"
    assert "v" in make(GAE, net)(rollout()).keys()


def test_without_terminated_a_done_episode_has_ended():
    td = rollout(values=True)
    ended = td.copy().set(("next", "terminated"), td["next", "done"])
    want = make(GAE, None)(ended)["advantage"]
    assert_close(make(GAE, None)(td.exclude(("next", "terminated")))["advantage"], want)


def test_a_missing_entry_is_named_with_what_there_is():
    with pytest.raises(KeyError, match=r"GAE: expected the entry 'reward', got \[.*'done'.*set_keys"):
        make(GAE, None)(rollout(values=True).exclude(("next", "reward")))
    with pytest.raises(KeyError, match="expected the entry 'state_value'"):
        make(GAE, None)(rollout())
    with pytest.raises(KeyError, match="expected the entry 'next'"):
        make(GAE, network())(rollout().exclude("next"))


def test_an_unknown_key_name_is_refused():
    with pytest.raises(ValueError, match=r"GAE: set_keys takes \['advantage', .*got \['values'\]"):
        make(GAE, None).set_keys(values="v")


def test_data_without_time_are_refused():
    with pytest.raises(ValueError, match="dimension of time"):
        make(GAE, None)(rollout(values=True)[0, 0])


def test_a_borrowed_network_adds_no_parameters():
    module = make(GAE, None).borrow(value_network=network())
    assert list(module.parameters()) == [] and module(rollout())["advantage"].shape == (N, T, 1)
    twin = copy.deepcopy(module)
    assert_close(twin(rollout())["advantage"], module(rollout())["advantage"])


def policy_and_data():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), NormalParamExtractor()).double()
    net = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
    actor = ProbabilisticActor(net, in_keys=["loc", "scale"], distribution_class=IndependentNormal)
    td = rollout()
    td["action"] = torch.randn(N, T, 2).double()
    td["action_log_prob"] = actor.log_prob(td).detach() + 0.3 * torch.randn(N, T).double()
    return actor, td


def test_vtrace_weighs_by_what_the_policy_would_do_now():
    (actor, td), net = policy_and_data(), network()
    module = VTrace(gamma=0.9, actor_network=actor, value_network=net, rho_thresh=1.2, c_thresh=0.7)
    assert {"action", "action_log_prob", "observation", ("next", "reward")} <= set(module.in_keys)
    module(td)
    logs = [actor.log_prob(td).detach()[..., None], td["action_log_prob"][..., None]]
    values = [td["state_value"], td["next", "state_value"]]
    want = F.vtrace_advantage_estimate(0.9, *logs, *values, *outcome(td), 1.2, 0.7)
    assert_close((td["advantage"], td["value_target"]), want)
    assert not td["advantage"].requires_grad


def test_vtrace_advantages_may_be_averaged():
    (actor, td), net = policy_and_data(), network()
    VTrace(gamma=0.9, actor_network=actor, value_network=net, average_adv=True)(td)
    assert_close(td["advantage"].mean(), torch.tensor(0.0).double())
    assert_close(td["advantage"].std(), torch.tensor(1.0).double())


def test_an_estimator_compiles_in_one_graph():
    module = make(GAE, network())
    got = torch.compile(module, backend="aot_eager", fullgraph=True)(rollout())
    assert_close(got["advantage"], module(rollout())["advantage"])
