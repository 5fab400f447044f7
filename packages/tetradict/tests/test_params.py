import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tetradict import TensorDict, TensorDictBase, TensorDictParams


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)))


class Holder(nn.Module):
    def __init__(self, params):
        super().__init__()
        self.params = params


def names(td):
    return {".".join(k) if isinstance(k, tuple) else k for k in td.keys(True, True)}


def test_it_is_a_collection_and_a_module():
    params = TensorDictParams(TensorDict.from_module(net()))
    assert isinstance(params, TensorDictBase) and isinstance(params, nn.Module)
    assert params.batch_size == () and not params.is_locked
    assert "TensorDictParams(params=TensorDict(" in repr(params)


def test_its_tensors_are_those_of_the_module_around_it():
    module = net()
    holder = Holder(TensorDict.from_module(module, as_module=True))
    want = {f"params.{name}" for name, _ in module.named_parameters()}
    assert {name for name, _ in holder.named_parameters()} == want
    assert {id(p) for p in holder.parameters()} == {id(p) for p in module.parameters()}
    assert {n for n, _ in holder.named_buffers()} == {f"params.{n}" for n, _ in module.named_buffers()}
    assert set(holder.state_dict()) == {f"params.{name}" for name in module.state_dict()}


def test_an_optimizer_moves_them():
    holder = Holder(TensorDictParams(TensorDict(w=torch.zeros(3))))
    optimizer = torch.optim.SGD(holder.parameters(), lr=1.0)
    (holder.params["w"] * torch.arange(3.0)).sum().backward()
    optimizer.step()
    assert_close(holder.params["w"].detach(), -torch.arange(3.0))


def test_what_is_floating_becomes_a_parameter_unless_told():
    td = TensorDict(a=1.0, b=1, n={"c": torch.zeros(2), "text": "hello"})
    params = TensorDictParams(td)
    assert isinstance(params["a"], nn.Parameter) and isinstance(params["n", "c"], nn.Parameter)
    assert isinstance(params["b"], nn.Buffer) and params["n", "text"] == "hello"
    kept = TensorDictParams(td, no_convert=True)
    assert isinstance(kept["a"], nn.Buffer) and not isinstance(kept["a"], nn.Parameter)
    assert TensorDictParams(td, no_convert="skip")["a"] is td["a"]
    assert isinstance(TensorDictParams(a=1.0)["a"], nn.Parameter)
    with pytest.raises(ValueError, match="no_convert must be False, True or 'skip', got 'no'"):
        TensorDictParams(td, no_convert="no")
    with pytest.raises(TypeError, match="must be a collection or a dict, got a int"):
        TensorDictParams(3)


def test_entries_come_and_go_at_any_depth():
    params = TensorDictParams(TensorDict(a=torch.zeros(2)))
    params["n", "m", "b"] = torch.ones(3)
    params.c = torch.ones(1)
    assert {n for n, _ in params.named_parameters()} == {"a", "c", "n.m.b"} == names(params)
    assert params.n.m.b.requires_grad
    del params["n", "m", "b"], params["a"]
    assert {n for n, _ in params.named_parameters()} == {"c"}
    params["c"] = torch.tensor([3])
    assert [n for n, _ in params.named_buffers()] == ["c"] and not list(params.parameters())
    params.lock_()
    with pytest.raises(RuntimeError, match="locked TensorDictParams"):
        params["d"] = torch.zeros(1)


def test_casts_of_the_module_around_reach_it():
    holder = Holder(TensorDictParams(TensorDict(a=torch.zeros(2), n={"b": torch.ones(1)})))
    inside = holder.params["n", "b"]
    holder.double()
    assert {leaf.dtype for leaf in holder.params._leaves()} == {torch.float64}
    assert holder.params["n", "b"] is inside
    holder.to("meta")
    assert holder.params["a"].is_meta


def test_verbs_that_compute_give_plain_collections_and_copies_give_parameters():
    params = TensorDictParams(TensorDict({"a": torch.rand(2, 3), "n": {"b": torch.ones(2).long()}}, [2]))
    for out in (
        params[0],
        params.detach(),
        params.detach() + 1,
        params.apply(lambda x: x * 2),
        params.unsqueeze(0),
    ):
        assert type(out) is TensorDict
    for twin in (
        params.clone(),
        copy.deepcopy(params),
        pickle.loads(pickle.dumps(params)),
        params.to("meta"),
    ):
        assert type(twin) is TensorDictParams and twin.batch_size == (2,)
        assert isinstance(twin["a"], nn.Parameter) and isinstance(twin["n", "b"], nn.Buffer)
        assert twin["a"] is not params["a"]
    assert params.copy()["a"] is params["a"] and params.to("cpu") is params


def test_what_is_shared_stays_shared_in_a_copy():
    weight = nn.Parameter(torch.zeros(2))
    params = TensorDictParams(TensorDict(a=weight, n={"b": weight}))
    for twin in (params.clone(), copy.deepcopy(params), pickle.loads(pickle.dumps(params))):
        assert twin["a"] is twin["n", "b"] and twin["a"] is not weight


def test_writing_in_place_is_no_part_of_the_graph():
    params = TensorDictParams(TensorDict(a=torch.zeros(2), n={"b": torch.zeros(2)}))
    params.copy_(TensorDict(a=torch.ones(2), n={"b": torch.ones(2)}))
    assert (params == 1).all() and params["a"].is_leaf
    params.zero_()
    params.set_("a", torch.full((2,), 3.0))
    assert_close(params["a"].detach(), torch.full((2,), 3.0))
    assert params["a"].is_leaf and (params["n", "b"] == 0).all()


@pytest.mark.parametrize("flatten", [True, False])
def test_a_state_dict_comes_back(flatten):
    params = TensorDictParams(TensorDict(a=torch.rand(2), n={"b": torch.rand(2)}))
    file = io.BytesIO()
    torch.save(params.state_dict(flatten=flatten), file)
    file.seek(0)
    other = TensorDictParams(TensorDict(a=torch.zeros(2), n={"b": torch.zeros(2)}))
    kept = other["a"]
    other.load_state_dict(torch.load(file, weights_only=True))
    assert (other == params).all() and other["a"] is kept
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({"a": torch.zeros(2)})


def test_a_hook_sees_every_tensor_that_is_read():
    params = TensorDictParams(TensorDict(a=torch.zeros(2), n={"b": torch.zeros(2)}))
    params.register_get_post_hook(lambda params, tensor: tensor.detach())
    assert (
        not params["a"].requires_grad
        and not params.get(("n", "b")).requires_grad
        and not params.a.requires_grad
    )
    assert not any(value.requires_grad for value in params.values(True, True))
    assert all(p.requires_grad for p in params.parameters())


def test_a_forward_pass_with_it_compiles_in_one_graph():
    module = net()
    params = TensorDict.from_module(copy.deepcopy(module), as_module=True)

    def call(x, params):
        with params.to_module(module):
            return module(x)

    x = torch.randn(5, 3)
    got = torch.compile(call, fullgraph=True, backend="aot_eager")(x, params)
    assert_close(got, module(x))
    got.sum().backward()
    assert params["0", "weight"].grad is not None and module[0].weight.grad is None
