import pytest
import torch
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import TensorDictModule, TensorDictModuleBase, dispatch


class Both(TensorDictModuleBase):
    in_keys = ["a", ("n", "b")]  # noqa: RUF012  (how users write it)
    out_keys = ["sum", "size"]  # noqa: RUF012

    @dispatch
    def forward(self, tensordict):
        out = TensorDict({}, tensordict.batch_size)
        out["sum"] = tensordict["a"] + tensordict["n", "b"]
        out["size"] = torch.tensor(float(len(tensordict.batch_size))).expand(tensordict.batch_size)
        return out


def test_a_collection_goes_straight_through():
    td = TensorDict({"a": torch.ones(3), "n": {"b": torch.ones(3)}}, [3])
    assert_close(Both()(td)["sum"], torch.full((3,), 2.0))
    assert_close(Both()(tensordict=td)["sum"], torch.full((3,), 2.0))


@pytest.mark.parametrize("keyword", [False, True])
def test_tensors_go_by_position_and_by_joined_keyword(keyword):
    a, b = torch.ones(3), torch.full((3,), 2.0)
    total, _ = Both()(a, n_b=b) if keyword else Both()(a, b)
    assert_close(total, torch.full((3,), 3.0))


def test_the_batch_is_all_that_the_tensors_share():
    _, size = Both()(torch.ones(3, 4), torch.ones(3, 1))
    assert size.shape == (3,) and (size == 1).all()


def test_without_an_automatic_batch_there_is_none():
    class Plain(Both):
        forward = dispatch(auto_batch_size=False)(Both.forward.__wrapped__)

    _, size = Plain()(torch.ones(3), torch.ones(3))
    assert size.shape == () and size == 0


def test_the_separator_and_the_keys_may_be_chosen():
    class Chosen(TensorDictModuleBase):
        in_keys = ["unused"]  # noqa: RUF012
        out_keys = ["unused"]  # noqa: RUF012

        @dispatch(separator="__", source=[("x", "y")], dest=["z"])
        def forward(self, tensordict):
            return tensordict.set("z", -tensordict["x", "y"])

    assert_close(Chosen()(x__y=torch.ones(2)), -torch.ones(2))


def test_what_is_no_key_is_passed_on():
    class Scaled(TensorDictModuleBase):
        in_keys = ["a"]  # noqa: RUF012
        out_keys = ["b"]  # noqa: RUF012

        @dispatch
        def forward(self, tensordict, shift=0, *, scale=1):
            return tensordict.set("b", scale * tensordict["a"] + shift)

    assert_close(Scaled()(torch.ones(2), 3, scale=2), torch.full((2,), 5.0))
    module = TensorDictModule(torch.add, in_keys=["a", "b"], out_keys=["c"])
    assert_close(module(torch.ones(2), b=torch.ones(2), alpha=3), torch.full((2,), 4.0))
    with pytest.raises(TypeError, match="unexpected keyword argument 'b'"):
        Both()(a=torch.ones(3), n_b=torch.ones(3), b=torch.ones(3))


def test_a_key_given_twice_is_refused():
    with pytest.raises(TypeError, match=r"Both: 'a' was given twice"):
        Both()(torch.ones(3), a=torch.ones(3))


def test_a_missing_tensor_is_named():
    with pytest.raises(KeyError, match="'b'"):
        TensorDictModule(torch.add, in_keys=["a", "b"], out_keys=["c"])(torch.ones(3))


def test_a_call_with_tensors_compiles_in_one_graph():
    compiled = torch.compile(Both(), backend="aot_eager", fullgraph=True)
    total, _ = compiled(torch.ones(3), n_b=torch.ones(3))
    assert_close(total, torch.full((3,), 2.0))
