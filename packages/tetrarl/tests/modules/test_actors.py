import pytest
import torch
from tetradict import TensorDict
from tetradict.nn import NormalParamExtractor, TensorDictModule, set_interaction_type
from torch import distributions as D
from torch import nn
from torch.testing import assert_close

from tetrarl.data import Bounded, Composite
from tetrarl.modules import MLP, Actor, OneHotCategorical, ProbabilisticActor, TanhNormal, ValueOperator


def observations():
    return TensorDict({"observation": torch.randn(5, 3)}, [5])


def gaussian(**options):
    net = nn.Sequential(nn.Linear(3, 4), NormalParamExtractor())
    net = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
    return ProbabilisticActor(net, in_keys=["loc", "scale"], distribution_class=TanhNormal, **options)


def test_an_actor_acts_on_the_observation():
    net = nn.Linear(3, 2)
    actor = Actor(net)
    assert actor.in_keys == ["observation"] and actor.out_keys == ["action"]
    td = observations()
    assert_close(actor(td)["action"], net(td["observation"]))
    assert_close(actor(td["observation"]), net(td["observation"]))


@pytest.mark.smoke
def test_a_probabilistic_actor_draws_and_tells_the_probability():
    actor = gaussian(return_log_prob=True, distribution_kwargs={"low": -2.0, "high": 2.0})
    assert actor.out_keys == ["loc", "scale", "action", "action_log_prob"]
    with set_interaction_type("random"):
        td = actor(observations())
    assert td["action"].shape == (5, 2) and (td["action"].abs() < 2).all()
    assert_close(td["action_log_prob"], actor.get_dist(td).log_prob(td["action"]))
    assert_close(
        actor(td)["action"], 2 * td["loc"].tanh()
    )  # without a setting: what the distribution holds best


def test_a_discrete_actor_takes_one_hot_choices():
    net = TensorDictModule(nn.Linear(3, 4), in_keys=["observation"], out_keys=["logits"])
    actor = ProbabilisticActor(
        net, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
    )
    td = actor(observations())
    assert (td["action"].sum(-1) == 1).all() and torch.equal(td["action"].argmax(-1), td["logits"].argmax(-1))
    assert_close(td["action_log_prob"], td["logits"].log_softmax(-1).amax(-1))


def test_the_action_may_go_elsewhere():
    net = TensorDictModule(nn.Linear(3, 4), in_keys=["observation"], out_keys=[("agent", "logits")])
    actor = ProbabilisticActor(
        net,
        in_keys=[("agent", "logits")],
        out_keys=[("agent", "move")],
        distribution_class=D.Categorical,
        return_log_prob=True,
    )
    assert ("agent", "move_log_prob") in actor(observations()).keys(True)


SPEC = Bounded(-0.01, 0.01, (2,))


@pytest.mark.parametrize("spec", [SPEC, Composite(action=SPEC)], ids=["leaf", "composite"])
def test_a_safe_actor_keeps_to_its_spec(spec):
    for actor in (gaussian(spec=spec, safe=True), Actor(nn.Linear(3, 2), spec=spec, safe=True)):
        with set_interaction_type("random"):
            td = actor(observations())
        assert (td["action"].abs() <= 0.01).all()
        assert actor.spec is SPEC


def test_without_safe_the_spec_is_only_kept():
    actor = Actor(nn.Linear(3, 2), spec=SPEC)
    td = observations()
    assert_close(actor(td)["action"], actor.module(td["observation"]))
    assert actor.spec is SPEC


def test_safe_without_a_spec_is_refused():
    with pytest.raises(ValueError, match="so spec must be given"):
        gaussian(safe=True)
    with pytest.raises(ValueError, match="so spec must be given"):
        Actor(nn.Linear(3, 2), safe=True)


def test_a_network_without_keys_is_refused_with_the_mend():
    with pytest.raises(TypeError, match="wrap it in TensorDictModule"):
        ProbabilisticActor(nn.Linear(3, 4), in_keys=["logits"], distribution_class=OneHotCategorical)


def test_a_value_operator_judges_states_or_actions():
    value = ValueOperator(nn.Linear(3, 1))
    assert value.in_keys == ["observation"] and value.out_keys == ["state_value"]
    assert value(observations())["state_value"].shape == (5, 1)
    critic = ValueOperator(MLP(5, 1), in_keys=["observation", "action"])
    assert critic.out_keys == ["state_action_value"]
    assert critic(gaussian()(observations()))["state_action_value"].shape == (5, 1)
    assert ValueOperator(nn.Linear(3, 1), out_keys=["v"]).out_keys == ["v"]


def test_an_actor_compiles_in_one_graph():
    actor = gaussian(return_log_prob=True)
    with set_interaction_type("random"):
        td = torch.compile(actor, backend="aot_eager", fullgraph=True)(observations())
    assert_close(td["action_log_prob"], actor.log_prob(td))
