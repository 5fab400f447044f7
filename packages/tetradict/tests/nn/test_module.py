import copy

import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential


def data(**entries):
    return TensorDict(entries, [3])


@pytest.mark.smoke
def test_it_writes_what_the_module_returns():
    linear = nn.Linear(4, 2)
    x = torch.randn(3, 4)
    td = data(x=x)
    out = TensorDictModule(linear, in_keys=["x"], out_keys=["y"])(td)
    assert out is td
    assert_close(td["y"], linear(x))


def test_keys_may_be_nested_or_single():
    module = TensorDictModule(torch.neg, in_keys=("a", "b"), out_keys="c")
    assert module.in_keys == [("a", "b")] and module.out_keys == ["c"]
    td = module(TensorDict({"a": {"b": torch.ones(3)}}, [3]))
    assert_close(td["c"], -torch.ones(3))


def test_inputs_go_by_position_in_the_order_of_the_keys():
    td = TensorDictModule(torch.sub, in_keys=["a", "b"], out_keys=["c"])(
        data(a=torch.ones(3), b=torch.zeros(3))
    )
    assert_close(td["c"], torch.ones(3))


def test_a_dict_of_in_keys_names_the_keywords():
    def divide(*, top, bottom):
        return top / bottom

    module = TensorDictModule(divide, in_keys={"a": "bottom", ("n", "b"): "top"}, out_keys=["c"])
    assert module.in_keys == ["a", ("n", "b")]
    td = module(TensorDict({"a": torch.full((3,), 2.0), "n": {"b": torch.ones(3)}}, [3]))
    assert_close(td["c"], torch.full((3,), 0.5))


def test_the_dict_may_be_read_the_other_way_round():
    module = TensorDictModule(
        torch.sub, in_keys={"other": "a", "input": "b"}, out_keys=["c"], out_to_in_map=True
    )
    assert module.in_keys == ["a", "b"]
    assert_close(module(data(a=torch.ones(3), b=torch.zeros(3)))["c"], -torch.ones(3))
    with pytest.warns(UserWarning, match="out_to_in_map is not None.*give a dict of in_keys"):
        TensorDictModule(torch.sub, in_keys=["a"], out_keys=["c"], out_to_in_map=True)


def test_another_method_may_be_called():
    class Net(nn.Module):
        def encode(self, x, scale):
            return scale * x

    module = TensorDictModule(
        Net(), in_keys=["a"], out_keys=["b"], method="encode", method_kwargs={"scale": 2}
    )
    assert_close(module(data(a=torch.ones(3)))["b"], torch.full((3,), 2.0))
    with pytest.raises(ValueError, match="Module Net must have a method 'decode'"):
        TensorDictModule(Net(), in_keys=["a"], out_keys=["b"], method="decode")


def test_what_is_asked_of_it_its_module_answers():
    module = TensorDictModule(nn.Linear(4, 2), in_keys=["x"], out_keys=["y"])
    assert module.weight is module.module.weight and module.in_features == 4
    with pytest.raises(
        AttributeError, match=r"TensorDictModule\(Linear\) has no attribute 'depth', nor has its module"
    ):
        _ = module.depth
    twin = copy.deepcopy(module)
    assert twin.weight is twin.module.weight is not module.weight


class Twice(TensorDictModuleBase):
    in_keys = ["a"]  # noqa: RUF012  (how users write it)
    out_keys = ["b", "c"]  # noqa: RUF012

    def forward(self, tensordict):
        tensordict["b"], tensordict["c"] = 2 * tensordict["a"], 3 * tensordict["a"]
        return tensordict


@pytest.mark.parametrize(
    "module",
    [
        TensorDictModule(lambda a: (2 * a, 3 * a), in_keys=["a"], out_keys=["b", "c"]),
        TensorDictSequential(Twice()),
        Twice(),
    ],
    ids=["module", "sequence", "own"],
)
def test_some_of_the_outputs_may_be_selected(module):
    assert module.select_out_keys("c") is module
    td = module(data(a=torch.ones(3)))
    assert set(td.keys()) == {"a", "c"} and module.out_keys == ["c"]
    assert_close(td["c"], torch.full((3,), 3.0))
    module.select_out_keys("b", "c").select_out_keys("b")
    assert set(module(data(a=torch.ones(3))).keys()) == {"a", "b"}
    with pytest.raises(ValueError, match=r"non existent keys \['q'\]; choose some of \['b', 'c'\]"):
        module.select_out_keys("q")
    module.reset_out_keys()
    assert module.out_keys == ["b", "c"] and set(module(data(a=torch.ones(3))).keys()) == {"a", "b", "c"}


def test_parameters_may_be_drawn_anew():
    module = TensorDictSequential(TensorDictModule(nn.Linear(4, 2), in_keys=["x"], out_keys=["y"]))
    before = module[0].weight.clone()
    module.reset_parameters_recursive()
    assert not torch.equal(before, module[0].weight)


def test_an_underscore_drops_an_output():
    td = TensorDictModule(lambda x: (x, x + 1, x + 2), in_keys=["a"], out_keys=["_", "b", "_"])(
        data(a=torch.zeros(3))
    )
    assert set(td.keys()) == {"a", "b"}
    assert_close(td["b"], torch.ones(3))


def test_a_mapping_is_read_by_the_out_keys():
    module = TensorDictModule(lambda x: {"b": x, "other": -x}, in_keys=["a"], out_keys=["other", "_"])
    td = module(data(a=torch.ones(3)))
    assert set(td.keys()) == {"a", "other"}
    assert_close(td["other"], -torch.ones(3))


def test_not_inplace_leaves_the_input_alone():
    td = data(a=torch.ones(3))
    out = TensorDictModule(torch.neg, in_keys=["a"], out_keys=["b"], inplace=False)(td)
    assert set(td.keys()) == {"a"} and set(out.keys()) == {"b"} and out.batch_size == ()
    out = TensorDictModule(torch.neg, in_keys=["a"], out_keys=["b"], inplace="empty")(td)
    assert set(td.keys()) == {"a"} and set(out.keys()) == {"b"} and out.batch_size == td.batch_size


def test_an_output_collection_takes_the_outputs():
    td, out = data(a=torch.ones(3)), data()
    assert TensorDictModule(torch.neg, in_keys=["a"], out_keys=["b"])(td, tensordict_out=out) is out
    assert set(td.keys()) == {"a"} and set(out.keys()) == {"b"}


def test_further_arguments_reach_the_module():
    module = TensorDictModule(torch.add, in_keys=["a", "a"], out_keys=["b"])
    assert_close(module(data(a=torch.ones(3)), alpha=3)["b"], torch.full((3,), 4.0))


def test_a_non_tensor_entry_arrives_as_its_value():
    td = TensorDict({"a": torch.ones(3), "text": "ab"}, [3])
    out = TensorDictModule(lambda x, text: x * len(text), in_keys=["a", "text"], out_keys=["b"])(td)
    assert_close(out["b"], torch.full((3,), 2.0))


def test_parameters_are_those_of_the_module():
    linear = nn.Linear(2, 2)
    module = TensorDictModule(linear, in_keys=["a"], out_keys=["b"])
    assert set(module.state_dict()) == {"module.weight", "module.bias"}
    module(data(a=torch.ones(3, 2)))["b"].sum().backward()
    assert linear.weight.grad is not None


def test_a_missing_entry_is_named_with_the_module_and_what_there_is():
    module = TensorDictModule(nn.Linear(4, 2), in_keys=["x", ("n", "z")], out_keys=["y"])
    with pytest.raises(KeyError, match=r"TensorDictModule\(Linear\).*\['x', \('n', 'z'\)\].*got \['a'\]"):
        module(data(a=torch.ones(3)))


def test_a_wrong_number_of_outputs_is_refused_with_the_mend():
    module = TensorDictModule(lambda x: (x, x), in_keys=["a"], out_keys=["b"])
    with pytest.raises(
        ValueError, match=r"expected 1 outputs for \['b'\], got 2.*'_|\"_\" for one to be dropped"
    ):
        module(data(a=torch.ones(3)))


def test_a_mapping_without_an_out_key_is_refused():
    module = TensorDictModule(lambda x: {"c": x}, in_keys=["a"], out_keys=["b"])
    with pytest.raises(KeyError, match=r"return 'b' for out_keys, got \['c'\]"):
        module(data(a=torch.ones(3)))


@pytest.mark.parametrize("keys", [3, [3], [("a", 1)], None])
def test_what_is_no_key_is_refused(keys):
    with pytest.raises(ValueError, match=r"in_keys must be of type list, str or tuples of str.*got"):
        TensorDictModule(torch.neg, in_keys=keys, out_keys=["b"])


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ValueError, match="Module int is not callable"):
        TensorDictModule(3, in_keys=["a"], out_keys=["b"])


def test_the_repr_shows_the_keys():
    text = repr(TensorDictModule(nn.Linear(4, 2), in_keys=["x"], out_keys=["y"]))
    assert "module=Linear(in_features=4" in text and "in_keys=['x']" in text and "out_keys=['y']" in text


def test_a_subclass_of_the_base_needs_keys_and_a_forward_alone():
    assert_close(Twice()(data(a=torch.ones(3)))["c"], torch.full((3,), 3.0))


@pytest.mark.parametrize("in_keys", [["x"], {"x": "input"}], ids=["position", "keyword"])
def test_it_compiles_in_one_graph(in_keys):
    module = TensorDictModule(nn.Linear(4, 2), in_keys=in_keys, out_keys=[("n", "y")])
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x = torch.randn(3, 4)
    td = compiled(data(x=x))
    assert_close(td["n", "y"], module.module(x))
    td["n", "y"].sum().backward()
    assert module.module.weight.grad is not None


@pytest.fixture
def process_group():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_sharded_module_takes_part_in_the_backward_pass(process_group):
    plain, module = (
        TensorDictModule(nn.Linear(4, 2), in_keys=["x"], out_keys=[("n", "y")]) for _ in range(2)
    )
    module.load_state_dict(plain.state_dict())
    fully_shard(module)
    x = torch.randn(3, 4)
    for each in (plain, module):
        each(data(x=x))["n", "y"].sum().backward()
    grad = module.module.weight.grad
    assert isinstance(grad, DTensor)  # as it is after the reduction alone
    assert_close(grad.full_tensor(), plain.module.weight.grad)


def test_a_missing_entry_may_be_allowed():
    module = TensorDictModule(
        lambda a, b: a if b is None else b, in_keys=["a", "b"], out_keys=["c"], strict=False
    )
    assert module(TensorDict(a=1))["c"] == 1 and module(TensorDict(a=1, b=2))["c"] == 2


def test_keys_are_brought_to_their_plainest_form():
    module = TensorDictModule(torch.neg, in_keys=[("a",)], out_keys=[("n", ("b",))])
    assert module.in_keys == ["a"] and module.out_keys == [("n", "b")]
    module.in_keys, module.out_keys = [("x",)], ["y"]
    assert module.in_keys == ["x"] and module(TensorDict(x=1))["y"] == -1

    class Own(TensorDictModuleBase):
        in_keys, out_keys = [("a",)], "b"

    assert Own().in_keys == ["a"] and Own().out_keys == ["b"] == Own().out_keys_source
    own = Own()
    own.out_keys = ["c"]
    assert Own().out_keys == ["b"] and own.out_keys == ["c"]


def test_parameters_that_are_given_are_drawn_anew_in_place():
    module = TensorDictModule(nn.Linear(3, 2), ["x"], ["y"])
    own, given = module.weight.clone(), TensorDict.from_module(module).clone()
    before = given.clone()
    assert module.reset_parameters_recursive(given) is given
    assert not torch.equal(before["module", "weight"], given["module", "weight"])
    assert torch.equal(own, module.weight)
    with pytest.raises(RuntimeError, match=r"'weight'\) must have the shape \(2, 3\)"):
        module.reset_parameters_recursive(given.apply(lambda x: x[None]))
    with pytest.warns(UserWarning, match="did not find any parameters to reset"):
        TensorDictModule(torch.neg, ["x"], ["y"]).reset_parameters_recursive()


@pytest.mark.parametrize("strict", [False, True])
def test_it_is_exported_and_called_with_tensors(strict):
    module = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 3), ["x"], ["y"]), TensorDictModule(torch.mul, ["x", "y"], ["z"])
    )
    x = torch.randn(2, 3)
    program = torch.export.export(module, args=(), kwargs={"x": x}, strict=strict)
    assert_close(program.module()(x=x), module(x=x))
