import pytest
import torch
from torch import distributions as D
from torch import nn
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import (
    CompositeDistribution,
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    set_composite_lp_aggregate,
)

MAP = {"cont": D.Normal, ("n", "disc"): D.Categorical}


def params():
    return TensorDict(
        {
            "cont": {"loc": torch.randn(3, 4), "scale": torch.rand(3, 4) + 0.1},
            "n": {"disc": {"logits": torch.randn(3, 5)}},
        },
        [3],
    )


def test_it_is_a_mapping_of_its_distributions():
    dist = CompositeDistribution(params(), MAP)
    assert list(dist) == ["cont", ("n", "disc")] and isinstance(dist["cont"], D.Normal)
    assert dist.batch_shape == (3,) and dist.has_rsample
    with pytest.raises(KeyError, match=r"expected the parameters of 'other' in params"):
        CompositeDistribution(params(), {"other": D.Normal})
    with pytest.raises(KeyError, match=r"name_map has \['q'\]"):
        CompositeDistribution(params(), MAP, name_map={"q": "cont"})


@pytest.mark.parametrize("shape", [(), (4,), (2, 4)])
def test_values_and_their_probabilities_are_those_of_the_parts(shape):
    dist = CompositeDistribution(params(), MAP)
    sample = dist.sample(shape)
    before = set(sample.keys(True, True))
    assert sample.batch_size == (*shape, 3)
    lp = dist.log_prob(sample)
    assert set(lp.keys(True, True)) == {"cont_log_prob", ("n", "disc_log_prob")}
    assert_close(lp["cont_log_prob"], dist["cont"].log_prob(sample["cont"]))
    with set_composite_lp_aggregate(True):
        total = dist.log_prob(sample)
        parts = dist.log_prob_composite(sample)
    assert_close(total, lp["cont_log_prob"].sum(-1) + lp["n", "disc_log_prob"])
    assert_close(parts["sample_log_prob"], total)
    assert set(sample.keys(True, True)) == before


def test_entropies_add_up_and_are_estimated_where_unknown():
    dist = CompositeDistribution(params(), MAP)
    parts = dist.entropy()
    want = dist["cont"].entropy().sum(-1) + dist["n", "disc"].entropy()
    assert_close(parts["cont_entropy"].sum(-1) + parts["n", "disc_entropy"], want)
    assert_close(dist.entropy(aggregate_probabilities=True), want)
    assert_close(dist.entropy_composite(include_sum=True)["entropy"], want)

    class Shy(D.Normal):
        def entropy(self):
            raise NotImplementedError

    torch.manual_seed(0)
    shy = CompositeDistribution.from_distributions(TensorDict(), {"a": Shy(0.0, 1.0)})
    exact = float(D.Normal(0.0, 1.0).entropy())  # the estimate's deviation is sqrt(1/2) a draw
    assert abs(float(shy.entropy(10000)["a_entropy"]) - exact) < 5 * 0.5**0.5 / 100


def test_quantiles_undo_probabilities():
    td = TensorDict({"a": {"loc": torch.zeros(3), "scale": torch.ones(3)}}, [3])
    dist = CompositeDistribution(td, {"a": D.Normal})
    sample = dist.sample()
    back = dist.icdf(dist.cdf(sample))
    assert_close(back["a_icdf"], sample["a"], rtol=1e-4, atol=1e-4)
    assert_close(dist.icdf(TensorDict({"a": torch.full((3,), 0.5)}, [3]))["a_icdf"], torch.zeros(3))


def module(**options):
    return ProbabilisticTensorDictModule(
        ["params"],
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": MAP, "name_map": {"cont": ("s", "cont")}},
        return_log_prob=True,
        **options,
    )


def test_a_module_knows_the_names_of_its_values():
    mod = module()
    assert mod.dist_sample_keys == [("s", "cont"), ("n", "disc")]
    assert mod.out_keys == [*mod.dist_sample_keys, ("s", "cont_log_prob"), ("n", "disc_log_prob")]
    td = mod(TensorDict({"params": params()}, [3]))
    assert all(key in td for key in mod.out_keys)
    assert_close(mod.log_prob(td)["s", "cont_log_prob"], td["s", "cont_log_prob"])
    with pytest.raises(RuntimeError, match="there are several log-probabilities"):
        _ = mod.log_prob_key


def test_a_module_made_under_one_mode_is_not_used_under_the_other():
    mod = module()
    with set_composite_lp_aggregate(True):
        with pytest.raises(RuntimeError, match="made while composite_lp_aggregate was False"):
            _ = mod.out_keys
        summed = module(log_prob_key="lp")
        assert summed.log_prob_keys == ["lp"]
        td = summed(TensorDict({"params": params()}, [3]))
        assert_close(td["lp"], td["s", "cont_log_prob"].sum(-1) + td["n", "disc_log_prob"])
        assert_close(summed.log_prob(td), td["lp"])


def chain(**options):
    def draw(source, name):
        return ProbabilisticTensorDictModule(
            {"loc": source},
            [name],
            distribution_class=D.Normal,
            distribution_kwargs={"scale": 1.0},
            default_interaction_type=InteractionType.RANDOM,
        )

    return ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), ["x"], ["loc"]),
        draw("loc", "y"),
        TensorDictModule(nn.Linear(4, 5), ["y"], ["loc2"]),
        draw("loc2", "z"),
        **options,
    )


def test_a_sequence_of_draws_is_one_distribution_given_the_values_before():
    seq = chain()
    assert seq.return_composite and seq.dist_sample_keys == ["y", "z"]
    td = seq(TensorDict({"x": torch.randn(10, 3)}, [10]))
    lp = seq.log_prob(td)
    assert_close(lp["y_log_prob"], D.Normal(td["loc"], 1.0).log_prob(td["y"]))
    assert_close(lp["z_log_prob"], D.Normal(seq[2].module(td["y"]), 1.0).log_prob(td["z"]))
    assert isinstance(seq.get_dist(TensorDict({"x": torch.randn(10, 3)}, [10])), CompositeDistribution)
    last = chain(return_composite=False)
    assert isinstance(last.get_dist(td), D.Normal) and last.dist_sample_keys == ["z"]
