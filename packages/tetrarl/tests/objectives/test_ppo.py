import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tetradict import TensorDict
from tetradict.nn import NormalParamExtractor, TensorDictModule
from torch import distributions as D
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from tetrarl.modules import IndependentNormal, ProbabilisticActor, TanhNormal, ValueOperator
from tetrarl.objectives import ClipPPOLoss, PPOLoss, ValueEstimators
from tetrarl.objectives.value import GAE

B = 12


def networks(distribution=IndependentNormal, seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4), NormalParamExtractor()).double()
    net = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
    actor = ProbabilisticActor(
        net, in_keys=["loc", "scale"], distribution_class=distribution, return_log_prob=True
    )
    return actor, ValueOperator(nn.Linear(3, 1).double())


def batch(actor, seed=1, spread=0.4):
    """Data whose log-probabilities are those of a policy some way off."""
    g = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    td = TensorDict({"observation": rand(B, 3), "action": 0.9 * rand(B, 2).tanh()}, [B])
    with torch.no_grad():
        td["action_log_prob"] = actor.log_prob(td) + spread * rand(B)
    td["advantage"], td["value_target"], td["state_value"] = rand(B, 1), rand(B, 1), rand(B, 1)
    return td


def by_hand(actor, critic, td, eps=0.2, entropy_coeff=0.01, critic_coeff=1.0):
    """The clipped loss with a closed-form entropy, from the paper's equations."""
    raw = actor[0].module[:3](td["observation"])
    loc, scale = raw[:, :2], (F.softplus(raw[:, 2:] + 0.5254586935) + 0.01)
    dist = D.Normal(loc, scale)
    ratio = (dist.log_prob(td["action"]).sum(-1) - td["action_log_prob"]).exp()
    adv = td["advantage"][:, 0]
    objective = -torch.min(ratio * adv, ratio.clamp(1 - eps, 1 + eps) * adv).mean()
    entropy = -entropy_coeff * dist.entropy().sum(-1).mean()
    value = F.smooth_l1_loss(critic.module(td["observation"]), td["value_target"])
    return objective, entropy, critic_coeff * value


def total(terms):
    return sum(terms[key] for key in terms.keys() if key.startswith("loss_"))


@pytest.mark.smoke
@pytest.mark.parametrize("eps", [0.05, 0.2, 0.9])
def test_values_and_gradients_are_those_of_the_equations(eps):
    actor, critic = networks()
    loss = ClipPPOLoss(actor, critic, clip_epsilon=eps)
    td = batch(actor)
    terms = loss(td)
    want = by_hand(actor, critic, td, eps)
    tolerance = {"rtol": 1e-6, "atol": 1e-7}  # coefficients are float32 buffers
    assert_close(
        [terms[k] for k in ("loss_objective", "loss_entropy", "loss_critic")], list(want), **tolerance
    )
    total(terms).backward()
    got = [p.grad.clone() for p in loss.parameters()]
    loss.zero_grad()
    sum(want).backward()
    assert_close(got, [p.grad for p in loss.parameters()], **tolerance)


def test_the_unclipped_loss_weighs_advantages_by_the_ratio():
    actor, critic = networks()
    td = batch(actor)
    got = PPOLoss(actor, critic)(td)["loss_objective"]
    ratio = (actor.log_prob(td) - td["action_log_prob"]).exp()
    assert_close(got, -(ratio * td["advantage"][:, 0]).mean())


@given(seed=st.integers(0, 99), eps=st.floats(0, 0.9))
def test_clipping_never_promises_more_than_no_clipping(seed, eps):
    actor, critic = networks()
    td = batch(actor, seed)
    clipped = ClipPPOLoss(actor, critic, clip_epsilon=eps, reduction="none")(td)["loss_objective"]
    free = PPOLoss(actor, critic, reduction="none")(td)["loss_objective"]
    assert (clipped >= free - 1e-12).all()


def test_on_the_policy_itself_ratios_are_one():
    actor, critic = networks()
    terms = ClipPPOLoss(actor, critic)(batch(actor, spread=0.0))
    for key, want in {"kl_approx": 0, "clip_fraction": 0, "ESS": 1, "max_ratio": 1, "mean_ratio": 1}.items():
        assert_close(terms[key].double(), torch.tensor(float(want)).double(), atol=1e-7, rtol=1e-6)


def test_what_is_watched_are_the_figures_they_name():
    actor, critic = networks()
    td = batch(actor)
    terms = ClipPPOLoss(actor, critic)(td)
    log_ratio = (actor.log_prob(td) - td["action_log_prob"]).detach()
    weight = log_ratio.exp()
    value = critic.module(td["observation"]).detach()
    want = {
        "kl_approx": -log_ratio.mean(),
        "clip_fraction": ((weight < 0.8) | (weight > 1.2)).double().mean(),
        "ESS": weight.sum() ** 2 / (weight**2).sum() / B,
        "max_ratio": weight.max(),
        "mean_ratio": weight.mean(),
        "entropy": actor.get_dist(td).entropy().mean().detach(),
        "explained_variance": 1
        - (td["value_target"] - value).var(correction=0) / td["value_target"].var(correction=0),
    }
    for key, figure in want.items():
        assert_close(terms[key], figure)
        assert not terms[key].requires_grad


def test_an_entropy_without_a_formula_is_estimated():
    actor, critic = networks(TanhNormal)
    td = batch(actor)
    loss = ClipPPOLoss(actor, critic, samples_mc_entropy=20000, entropy_coeff=1.0)
    torch.manual_seed(0)
    dist = actor.get_dist(td)
    # E[-log p] of tanh(x) is the normal's entropy plus E[log(1 - tanh²(x))], here by quadrature
    z = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    x = dist.loc[..., None] + dist.scale[..., None] * z
    weight = torch.exp(-0.5 * z**2) / (2 * torch.pi) ** 0.5
    bend = torch.trapezoid(weight * 2 * (0.6931471805599453 - x - F.softplus(-2 * x)), z).sum(-1)
    want = (D.Normal(dist.loc, dist.scale).entropy().sum(-1) + bend).mean()
    got = loss(td)
    assert abs(got["entropy"] - want) < 0.02
    assert_close(got["loss_entropy"], -got["entropy"])
    assert got["loss_entropy"].requires_grad


@pytest.mark.parametrize("name", ["l1", "l2", "smooth_l1"])
def test_the_value_loss_is_the_distance_to_the_target(name):
    actor, critic = networks()
    td = batch(actor)
    loss = ClipPPOLoss(actor, critic, loss_critic_type=name, critic_coeff=0.5)
    value = critic.module(td["observation"])
    want = {"l1": F.l1_loss, "l2": F.mse_loss, "smooth_l1": F.smooth_l1_loss}[name](value, td["value_target"])
    assert_close(loss(td)["loss_critic"], 0.5 * want)
    assert_close(loss.loss_critic(td), 0.5 * want)


@pytest.mark.parametrize("clip_value", [0.1, True])
def test_a_clipped_value_gains_nothing_beyond_the_bound(clip_value):
    actor, critic = networks()
    td = batch(actor)
    terms = ClipPPOLoss(actor, critic, clip_value=clip_value, loss_critic_type="l2")(td)
    bound = 0.2 if clip_value is True else clip_value
    value, old, target = critic.module(td["observation"]), td["state_value"], td["value_target"]
    clipped = old + (value - old).clamp(-bound, bound)
    assert_close(terms["loss_critic"], torch.max((value - target) ** 2, (clipped - target) ** 2).mean())
    assert_close(terms["value_clip_fraction"], ((value - old).abs() > bound).double().mean())


def test_normalising_shifts_and_scales_the_advantages():
    actor, critic = networks()
    td = batch(actor)
    got = ClipPPOLoss(actor, critic, normalize_advantage=True)(td)["loss_objective"]
    adv = td["advantage"]
    same = td.copy().set("advantage", (adv - adv.mean()) / adv.std())
    assert_close(got, ClipPPOLoss(actor, critic)(same)["loss_objective"])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_reductions_reduce_every_term(reduction):
    actor, critic = networks()
    td = batch(actor)
    each, terms = (ClipPPOLoss(actor, critic, reduction=r)(td) for r in ("none", reduction))
    for key in ("loss_objective", "loss_entropy", "loss_critic"):
        assert each[key].shape == (B,)
        want = each[key] if reduction == "none" else getattr(each[key], reduction)()
        assert_close(terms[key], want)


def test_the_bound_may_differ_below_and_above():
    actor, critic = networks()
    td = batch(actor)
    got = ClipPPOLoss(actor, critic, clip_epsilon=(0.1, 0.4))(td)
    ratio, adv = (actor.log_prob(td) - td["action_log_prob"]).exp(), td["advantage"][:, 0]
    want = -torch.min(ratio * adv, ratio.clamp(0.9, 1.4) * adv).mean()
    assert_close(got["loss_objective"], want, rtol=1e-6, atol=1e-7)


def test_without_a_critic_or_a_bonus_their_terms_are_gone():
    actor, _ = networks()
    loss = ClipPPOLoss(actor, entropy_bonus=False)
    terms = loss(batch(actor))
    assert {"loss_critic", "loss_entropy", "entropy"}.isdisjoint(terms.keys())
    assert set(loss.out_keys) == set(terms.keys())
    assert "explained_variance" not in PPOLoss(*networks(), log_explained_variance=False)(batch(actor)).keys()


def with_next(td):
    following = batch(networks()[0], 3).select("observation")
    flag = torch.rand(B, 1) < 0.3
    following["reward"], following["done"], following["terminated"] = torch.randn(B, 1).double(), flag, flag
    return td.copy().set("next", following)


def test_a_missing_advantage_is_estimated():
    actor, critic = networks()
    td = with_next(batch(actor).exclude("advantage", "value_target"))
    loss = ClipPPOLoss(actor, critic)
    loss.make_value_estimator(ValueEstimators.GAE, gamma=0.9, lmbda=0.8)
    got = loss(td)
    assert "advantage" not in td.keys() and ("next", "state_value") not in td.keys(True)
    GAE(gamma=0.9, lmbda=0.8, value_network=critic)(td)
    assert_close(got["loss_objective"], loss(td)["loss_objective"])
    assert_close(got["loss_critic"], loss(td)["loss_critic"])


@pytest.mark.parametrize("kind", list(ValueEstimators), ids=lambda kind: kind.name)
def test_any_estimator_may_fill_in_the_advantage(kind):
    actor, critic = networks()
    td = with_next(batch(actor).exclude("advantage", "value_target"))
    loss = ClipPPOLoss(actor, critic)
    loss.make_value_estimator(kind, gamma=0.9)
    assert {id(p) for p in loss.parameters()} == {id(p) for p in (*actor.parameters(), *critic.parameters())}
    got = loss(td)
    filled = loss.value_estimator(td.copy())
    assert_close(total(got), total(loss(filled)))
    total(got).backward()


def test_the_data_are_left_alone():
    actor, critic = networks()
    td = batch(actor)
    kept = td.clone()
    ClipPPOLoss(actor, critic, clip_value=0.1)(td)
    assert set(td.keys()) == set(kept.keys())
    for key in kept.keys():
        assert torch.equal(td[key], kept[key])


def test_tensors_go_in_and_come_out():
    actor, critic = networks()
    td = with_next(batch(actor).exclude("advantage", "value_target"))
    loss = ClipPPOLoss(actor, critic)
    names = ["observation", "action", "action_log_prob"]
    out = loss(**{name: td[name] for name in names}, **{f"next_{name}": x for name, x in td["next"].items()})
    assert_close(dict(zip(loss.out_keys, out, strict=True)), {k: loss(td)[k] for k in loss.out_keys})


def test_parameters_are_plain_and_listed_once():
    actor, critic = networks()
    loss = ClipPPOLoss(actor, critic)
    loss.make_value_estimator(gamma=0.9)
    mine = {id(p) for p in (*actor.parameters(), *critic.parameters())}
    assert {id(p) for p in loss.parameters()} == mine
    prefixes = {key.split(".")[0] for key in loss.state_dict()}
    assert prefixes == {"actor_network", "critic_network", "entropy_coeff", "critic_coeff", "clip_epsilon"}
    twin = ClipPPOLoss(*networks(seed=5))
    twin.load_state_dict(loss.state_dict())
    assert_close(twin(batch(actor))["loss_objective"], loss(batch(actor))["loss_objective"])


def test_coefficients_can_be_changed_in_place():
    actor, critic = networks()
    td, loss = batch(actor), ClipPPOLoss(actor, critic, entropy_coeff=0.5)
    loss.entropy_coeff.copy_(0.25)
    loss.clip_epsilon.copy_(0.05)
    want = ClipPPOLoss(actor, critic, entropy_coeff=0.25, clip_epsilon=0.05)(td)
    assert_close(total(loss(td)), total(want))


def test_a_copy_stands_alone():
    loss = ClipPPOLoss(*networks())
    loss.make_value_estimator(gamma=0.9)
    twin = copy.deepcopy(loss)
    assert twin.value_estimator.value_network is twin.critic_network
    assert twin.critic_network is not loss.critic_network


def test_other_entries_may_be_read():
    actor, critic = networks()
    td = batch(actor)
    want = ClipPPOLoss(actor, critic)(td)["loss_objective"]
    td.rename_key_("advantage", "a"), td.rename_key_("action_log_prob", "lp")
    loss = ClipPPOLoss(actor, critic)
    loss.set_keys(advantage="a", sample_log_prob="lp")
    assert_close(loss(td)["loss_objective"], want)
    assert loss.value_estimator.tensor_keys.advantage == "a"


def test_keys_follow_the_networks():
    actor, _ = networks()
    actor = ProbabilisticActor(
        actor[0],
        in_keys=["loc", "scale"],
        out_keys=["move"],
        distribution_class=IndependentNormal,
        log_prob_key="lp",
    )
    critic = ValueOperator(nn.Linear(3, 1).double(), out_keys=["v"])
    keys = ClipPPOLoss(actor, critic).tensor_keys
    assert (keys.action, keys.sample_log_prob, keys.value) == ("move", "lp", "v")


class TestRefusals:
    def refused(self, error, match, change, **options):
        actor, critic = networks()
        td = batch(actor)
        change(td)
        with pytest.raises(error, match=match):
            ClipPPOLoss(actor, critic, **options)(td)

    def test_a_log_probability_with_a_graph(self):
        def change(td):
            td["action_log_prob"] = td["action_log_prob"].requires_grad_()

        self.refused(ValueError, r"'action_log_prob' in the data carries a graph.*torch\.no_grad", change)

    def test_a_log_probability_that_would_broadcast(self):
        def change(td):
            td["action_log_prob"] = td["action_log_prob"][:, None]

        self.refused(ValueError, r"has shape \(12, 1\), that of the policy \(12,\)", change)

    def test_an_advantage_that_would_broadcast(self):
        def change(td):
            td["advantage"] = td["advantage"][:, 0]

        self.refused(ValueError, r"advantage must have shape \(12, 1\), got \(12,\)", change)

    def test_a_missing_entry(self):
        def change(td):
            del td["action"]

        self.refused(KeyError, "ClipPPOLoss: expected the entry 'action' in the data", change)

    def test_options_that_do_not_exist(self):
        actor, critic = networks()
        for options, match in (
            ({"loss_critic_type": "huber"}, "loss_critic_type must be one of"),
            ({"reduction": "max"}, "reduction must be 'mean', 'sum' or 'none', got 'max'"),
            ({"clip_epsilon": 1.5}, r"clip_epsilon must lie in \[0, 1\), got 1.5"),
        ):
            with pytest.raises(ValueError, match=match):
                ClipPPOLoss(actor, critic, **options)

    def test_a_policy_without_a_distribution(self):
        _, critic = networks()
        with pytest.raises(TypeError, match="make it a ProbabilisticActor"):
            ClipPPOLoss(critic, critic)


@pytest.mark.parametrize("distribution", [IndependentNormal, TanhNormal])
def test_it_compiles_in_one_graph(distribution):
    actor, critic = networks(distribution)
    loss = ClipPPOLoss(actor, critic, clip_value=0.2, normalize_advantage=True)
    td = batch(actor)
    torch.manual_seed(0)
    got = torch.compile(loss, backend="aot_eager", fullgraph=True)(td)
    total(got).backward()
    torch.manual_seed(0)
    want = loss(td)
    for key in want.keys():
        assert_close(got[key], want[key])


def test_it_improves_a_bandit_to_near_its_best_arm():
    """Four arms with known means: the policy must come to pull the best one, and the critic to know its worth."""
    torch.manual_seed(0)
    means = torch.tensor([0.1, 0.3, 0.9, 0.5])
    net = TensorDictModule(nn.Linear(1, 4), in_keys=["observation"], out_keys=["logits"])
    actor = ProbabilisticActor(
        net,
        in_keys=["logits"],
        distribution_class=D.Categorical,
        return_log_prob=True,
        default_interaction_type="random",
    )
    loss = ClipPPOLoss(actor, ValueOperator(nn.Linear(1, 1)), normalize_advantage=True)
    loss.make_value_estimator(gamma=0.0, lmbda=0.0)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
    ones, end = torch.ones(64, 1), torch.ones(64, 1, dtype=torch.bool)
    for _ in range(25):
        with torch.no_grad():
            td = actor(TensorDict({"observation": ones}, [64]))
        reward = means[td["action"]] + 0.05 * torch.randn(64)
        following = {"observation": ones, "reward": reward[:, None], "done": end, "terminated": end}
        td["next"] = TensorDict(following, [64])
        loss.value_estimator(td)
        for _ in range(4):
            optimizer.zero_grad()
            total(loss(td)).backward()
            optimizer.step()
    probabilities = actor.get_dist(td).probs[0]
    expected = (probabilities * means).sum()
    assert expected > 0.8  # a uniform policy earns 0.45, the best arm 0.9
    assert abs(loss.critic_network(td)["state_value"][0, 0] - expected) < 0.15
