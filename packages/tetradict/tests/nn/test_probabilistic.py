import pytest
import torch
from torch import distributions as D
from torch import nn
from torch.testing import assert_close

from tetradict import NonTensorData, TensorDict, TensorDictParams
from tetradict.nn import (
    InteractionType,
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    set_interaction_type,
)


def normal(**options):
    return ProbabilisticTensorDictModule(["loc", "scale"], ["x"], distribution_class=D.Normal, **options)


def parameters():
    return TensorDict({"loc": torch.tensor([0.0, 1.0]), "scale": torch.tensor([1.0, 2.0])}, [2])


def policy(**options):
    net = nn.Sequential(nn.Linear(3, 4), NormalParamExtractor())
    return ProbabilisticTensorDictSequential(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=D.Normal, **options),
    )


@pytest.mark.smoke
def test_a_draw_follows_the_distribution_and_the_seed():
    torch.manual_seed(0)
    module = normal(default_interaction_type="random")
    many = TensorDict({"loc": torch.full((20000,), 1.0), "scale": torch.full((20000,), 2.0)}, [20000])
    x = module(many)["x"]
    assert abs(x.mean() - 1) < 5 * 2 / 20000**0.5
    assert abs(x.std() - 2) < 5 * 2 / (2 * 20000) ** 0.5
    torch.manual_seed(0)
    assert torch.equal(module(many)["x"], x)


VALUES = [  # what each type takes, from closed forms
    (D.Normal, {"loc": 0.5, "scale": 2.0}, {"mode": 0.5, "mean": 0.5, "median": 0.5, "deterministic": 0.5}),
    (
        D.Beta,
        {"concentration1": 2.0, "concentration0": 3.0},
        {"mode": 1 / 3, "mean": 0.4, "deterministic": 0.4},
    ),
    (D.Bernoulli, {"probs": 0.3}, {"mode": 0.0, "mean": 0.3, "deterministic": 0.0}),
    (D.Exponential, {"rate": 2.0}, {"mode": 0.0, "mean": 0.5, "median": 0.346574, "deterministic": 0.5}),
]


@pytest.mark.parametrize(("cls", "given", "wanted"), VALUES, ids=lambda v: getattr(v, "__name__", ""))
def test_each_type_takes_its_value(cls, given, wanted):
    module = ProbabilisticTensorDictModule(list(given), ["x"], distribution_class=cls)
    for kind, want in wanted.items():
        with set_interaction_type(kind):
            got = module(TensorDict({k: torch.tensor(v) for k, v in given.items()}, []))["x"]
        assert_close(got, torch.tensor(want))


def test_without_a_setting_the_default_is_taken():
    assert_close(normal()(parameters())["x"], parameters()["loc"])
    with set_interaction_type("random"):
        assert not torch.equal(normal()(parameters())["x"], parameters()["loc"])


def test_a_mean_without_a_formula_is_estimated():
    class Squashed(D.TransformedDistribution):
        def __init__(self, loc, scale):
            super().__init__(D.Normal(loc, scale), [D.SigmoidTransform()])

    torch.manual_seed(0)
    module = ProbabilisticTensorDictModule(
        ["loc", "scale"], ["x"], distribution_class=Squashed, n_empirical_estimate=4000
    )
    td = TensorDict({"loc": torch.zeros(2), "scale": torch.ones(2)}, [2])
    with set_interaction_type("mean"):
        assert (module(td)["x"] - 0.5).abs().max() < 5 * 0.21 / 4000**0.5
    with set_interaction_type("deterministic"):  # what becomes of the mean of the normal
        assert_close(module(td)["x"], torch.full((2,), 0.5))


def test_the_mean_stands_in_for_a_mode_that_a_distribution_cannot_tell():
    module = ProbabilisticTensorDictModule(
        ["probs"], ["x"], distribution_class=D.Multinomial, distribution_kwargs={"total_count": 4}
    )
    td = TensorDict({"probs": torch.tensor([0.25, 0.75])}, [])
    assert_close(module(td)["x"], torch.tensor([1.0, 3.0]))


def test_without_any_middle_there_is_no_best_value():
    module = ProbabilisticTensorDictModule(
        ["concentration"], ["x"], distribution_class=D.LKJCholesky, distribution_kwargs={"dim": 3}
    )
    with pytest.raises(
        RuntimeError, match="LKJCholesky has none of the values that DETERMINISTIC, MEAN and MODE"
    ):
        module(TensorDict({"concentration": torch.ones(())}, []))


def test_a_distribution_may_say_what_is_best():
    class Best(D.Normal):
        deterministic_sample = property(lambda self: self.loc + 1)

    module = ProbabilisticTensorDictModule(["loc", "scale"], ["x"], distribution_class=Best)
    assert_close(module(parameters())["x"], parameters()["loc"] + 1)


def test_no_median_is_an_error_that_names_the_distribution():
    module = ProbabilisticTensorDictModule(["logits"], ["x"], distribution_class=D.Categorical)
    with set_interaction_type("median"), pytest.raises(ValueError, match="Categorical has no median"):
        module(TensorDict({"logits": torch.zeros(2, 3)}, [2]))


@pytest.mark.parametrize("key", [None, ("n", "lp")])
def test_the_log_probability_is_that_of_the_value(key):
    module = normal(return_log_prob=True, log_prob_key=key, default_interaction_type=InteractionType.RANDOM)
    key = key or "x_log_prob"
    assert module.out_keys == ["x", key] and module.log_prob_key == key
    td = module(parameters())
    z = (td["x"] - td["loc"]) / td["scale"]
    want = -0.5 * z**2 - td["scale"].log() - 0.5 * torch.tensor(2 * torch.pi).log()
    assert_close(td[key], want)
    assert_close(module.log_prob(td), want)


def test_the_log_probability_of_a_nested_value_lies_beside_it():
    module = ProbabilisticTensorDictModule(
        [("p", "loc"), ("p", "scale")], [("agent", "x")], distribution_class=D.Normal, return_log_prob=True
    )
    td = module(TensorDict({"p": parameters()}, [2]))
    assert ("agent", "x_log_prob") in td.keys(True)


def test_a_dict_of_in_keys_names_the_parameters():
    module = ProbabilisticTensorDictModule(
        {"loc": ("a", "mu"), "scale": "sigma"}, ["x"], distribution_class=D.Normal
    )
    assert module.in_keys == [("a", "mu"), "sigma"]
    td = TensorDict({"a": {"mu": torch.ones(2)}, "sigma": torch.ones(2)}, [2])
    assert_close(module(td)["x"], torch.ones(2))


def test_further_keywords_reach_the_distribution():
    module = normal(distribution_kwargs={"validate_args": True})
    with pytest.raises(ValueError, match="scale"):
        module(parameters().set("scale", -torch.ones(2)))


def test_a_missing_parameter_is_named():
    with pytest.raises(KeyError, match=r"ProbabilisticTensorDictModule: expected the entries \['scale'\]"):
        normal()(parameters().exclude("scale"))


def test_out_keys_can_be_left_out_for_a_composite_alone():
    with pytest.raises(ValueError, match="out_keys can be left out for a distribution_map"):
        ProbabilisticTensorDictModule(["loc"], distribution_class=D.Normal)


def test_a_sequence_computes_parameters_then_the_value():
    module = policy(return_log_prob=True)
    assert module.in_keys == ["observation"]
    assert module.out_keys == ["loc", "scale", "action", "action_log_prob"]
    td = module(TensorDict({"observation": torch.randn(5, 3)}, [5]))
    assert_close(td["action"], td["loc"])
    assert module.log_prob_key == "action_log_prob" and module.dist_sample_keys == ["action"]
    assert module.dist_params_keys == ["loc", "scale"]
    assert module.default_interaction_type is InteractionType.DETERMINISTIC


def test_asking_for_the_distribution_leaves_the_input_alone():
    module = policy()
    td = TensorDict({"observation": torch.randn(5, 3), "action": torch.randn(5, 2)}, [5])
    params = module.get_dist_params(td)
    dist = module.get_dist(td)
    assert set(td.keys()) == {"observation", "action"}
    assert_close(dist.loc, params["loc"])
    assert_close(module.log_prob(td), dist.log_prob(td["action"]))
    assert_close(module.log_prob(td, dist=dist), dist.log_prob(td["action"]))
    assert_close(module.build_dist_from_params(params).loc, params["loc"])
    assert isinstance(module.det_part, TensorDictSequential) and len(module.det_part) == 1


def test_a_slice_with_the_distribution_is_probabilistic():
    module = policy()
    assert type(module[1:]) is ProbabilisticTensorDictSequential and type(module[:1]) is TensorDictSequential


def test_a_sequence_may_end_in_a_sequence():
    inner = policy()
    outer = ProbabilisticTensorDictSequential(TensorDictModule(torch.neg, ["raw"], ["observation"]), inner)
    td = TensorDict({"raw": torch.randn(5, 3)}, [5])
    want = inner.get_dist(TensorDict({"observation": -td["raw"]}, [5])).loc
    assert_close(outer.get_dist(td).loc, want)
    assert outer.log_prob_key == "action_log_prob"


def test_a_sequence_without_a_distribution_has_none_to_give():
    module = ProbabilisticTensorDictSequential(TensorDictModule(torch.neg, ["a"], ["b"]))
    assert_close(module(TensorDict(a=torch.ones(2)))["b"], -torch.ones(2))
    with pytest.raises(RuntimeError, match=r"none of the modules draws.*add a ProbabilisticTensorDictModule"):
        module.get_dist(TensorDict(a=torch.ones(2)))
    with pytest.raises(ValueError, match="the last module must draw for return_composite=False"):
        ProbabilisticTensorDictSequential(TensorDictModule(torch.neg, ["a"], ["b"]), return_composite=False)


def test_draws_carry_a_gradient_where_the_distribution_has_one():
    module = policy(default_interaction_type="random")
    td = module(TensorDict({"observation": torch.randn(5, 3)}, [5]))
    td["action"].sum().backward()
    assert all(p.grad is not None for p in module.parameters())


@pytest.mark.parametrize("kind", ["random", "mode", "mean", "deterministic"])
def test_a_policy_compiles_in_one_graph(kind):
    module = policy(return_log_prob=True)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    td = TensorDict({"observation": torch.randn(5, 3)}, [5])
    with set_interaction_type(kind):
        out = compiled(td.copy())
    assert_close(module.log_prob(out), out["action_log_prob"])
    if kind != "random":
        assert_close(out["action"], out["loc"])


def test_the_log_probability_compiles_in_one_graph():
    module = policy()
    td = TensorDict({"observation": torch.randn(5, 3), "action": torch.randn(5, 2)}, [5])
    got = torch.compile(module.log_prob, backend="aot_eager", fullgraph=True)(td)
    assert_close(got, module.log_prob(td))


@pytest.mark.parametrize("count", [2, (2,), (4, 2)], ids=str)
def test_several_values_come_in_new_leading_dimensions(count):
    shape = (count,) if isinstance(count, int) else count
    module = normal(num_samples=count, default_interaction_type="random", return_log_prob=True)
    td = TensorDict({"loc": torch.randn(3, 4), "scale": torch.ones(3, 4)}, [3])
    out = module(td)
    assert out.batch_size == (*shape, 3) and out["x"].shape == (*shape, 3, 4) and "x" not in td
    assert_close(out["x_log_prob"], D.Normal(td["loc"], 1.0).log_prob(out["x"]))
    assert_close(module.log_prob(out), out["x_log_prob"])
    with set_interaction_type("mean"):
        assert_close(module(td)["x"], td["loc"].expand(*shape, 3, 4))
    seq = ProbabilisticTensorDictSequential(TensorDictModule(torch.neg, ["y"], ["loc"]), module)
    assert seq.num_samples == shape
    assert seq(td.clone().set("y", td["loc"]))["x"].shape == (*shape, 3, 4)


@pytest.mark.parametrize("form", ["generator", "seed", "entry", "nested"])
def test_draws_follow_a_generator_and_leave_the_global_one_alone(form):
    def draws():
        generator = torch.Generator().manual_seed(3)
        given = {"generator": generator, "seed": 3, "entry": "rng", "nested": ("meta", "rng")}[form]
        module = normal(default_interaction_type="random", generator=given)
        td = parameters()
        if form in {"entry", "nested"}:
            td[given] = NonTensorData(generator)
        return [module(td)["x"].clone() for _ in range(3)]

    before = torch.get_rng_state()
    first, second = draws(), draws()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("seed", [7, torch.tensor([7, 7])], ids=["int", "tensor"])
def test_a_seed_in_the_collection_is_replaced_by_the_next(seed):
    module = normal(default_interaction_type="random", generator="rng")
    td = TensorDict(loc=torch.zeros(3), scale=torch.ones(3))
    td["rng"] = NonTensorData(seed) if isinstance(seed, int) else seed[0]
    first = module(td)["x"].clone()
    assert type(td["rng"]) is (int if isinstance(seed, int) else torch.Tensor) and int(td["rng"]) != 7
    assert not torch.equal(first, module(td)["x"])


def test_what_is_no_generator_is_refused():
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator.*got a float"):
        normal(generator=1.5)


def test_a_distribution_may_be_kept_and_updated():
    module = ProbabilisticTensorDictModule(["param"], ["x"], cache_dist=True)
    first = module.get_dist(TensorDict(param=torch.zeros(2)))
    second = module.get_dist(TensorDict(param=torch.ones(2)))
    assert second is first and (second.mean == 1).all()


def test_further_keywords_may_move_with_the_module():
    kwargs = TensorDictParams(TensorDict(scale=2.0, validate_args=NonTensorData(False)), no_convert=True)
    module = ProbabilisticTensorDictModule(
        ["loc"], ["x"], distribution_class=D.Normal, distribution_kwargs=kwargs
    )
    assert [name for name, _ in module.named_buffers()] == ["distribution_kwargs.scale"]
    dist = module.double().get_dist(TensorDict(loc=torch.zeros(2).double()))
    assert dist.scale.dtype == torch.float64 and (dist.scale == 2).all()
