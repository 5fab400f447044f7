import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils import _pytree

from tetradict import TensorDict


def data(*size):
    n = torch.Size(size).numel()
    return TensorDict(
        {"a": torch.arange(n * 2.0).view(*size, 2), "n": {"b": torch.arange(n).view(size)}}, size
    )


@given(data=st.data())
def test_what_is_taken_apart_and_put_together_is_the_same(trees, assert_same, data):
    td = data.draw(trees)
    assert_same(_pytree.tree_map(lambda x: x, td), td)


@pytest.mark.parametrize(("in_dim", "inside"), [(0, (4, 5)), (1, (3, 5)), (2, (3, 4))])
def test_inside_vmap_the_mapped_dimension_is_gone_and_outside_it_is_back(in_dim, inside):
    seen = []

    def double(td):
        seen.append((td.batch_size, td["n"].batch_size))
        return td.set("c", 2 * td["a"])

    td = data(3, 4, 5)
    out = torch.vmap(double, in_dim)(td)
    assert seen == [(inside, inside)]
    assert out.batch_size == (td.batch_size[in_dim], *inside) == out["n"].batch_size
    assert_close(out["c"], 2 * td["a"].movedim(in_dim, 0))
    assert "c" not in td


def test_vmaps_may_be_nested():
    td = data(3, 4)
    sizes = []

    def inner(td):
        sizes.append(td.batch_size)
        return td.apply(lambda x: x + 1)

    out = torch.vmap(torch.vmap(inner))(td)
    assert sizes == [()] and out.batch_size == (3, 4) == out["n"].batch_size
    assert_close(out["a"], td["a"] + 1)


def test_equal_sizes_do_not_mislead():
    td = TensorDict({"a": torch.rand(3, 3, 3)}, [3])
    sizes = []

    def same(td):
        sizes.append(td.batch_size)
        return td

    out = torch.vmap(same)(td)
    assert sizes == [()] and out.batch_size == (3,)
    assert_close(out["a"], td["a"])


def test_what_does_not_depend_on_the_input_is_repeated():
    td = data(3)
    out = torch.vmap(lambda td, x: td, (None, 0))(td, torch.zeros(4))
    assert out.batch_size == (4, 3) == out["n"].batch_size


def test_names_follow_the_dimensions():
    td = TensorDict({"a": torch.rand(3, 5)}, [3, 5], names=["rows", "columns"])
    assert torch.vmap(lambda td: td, 1)(td).names == [None, "rows"]


def test_a_map_that_changes_shapes_keeps_what_all_leaves_begin_with():
    td = data(3, 1)
    assert _pytree.tree_map(torch.squeeze, td).batch_size == (3,)
    assert _pytree.tree_map(lambda x: x[:, 0].contiguous(), data(3, 4)).batch_size == (3,)
    assert _pytree.tree_map(lambda x: x.to("meta"), TensorDict(a=torch.ones(2), device="cpu")).device is None


@pytest.mark.parametrize("strict", [False, True])
def test_a_collection_with_a_symbolic_size_leaves_an_exported_program(strict):
    class Module(torch.nn.Module):
        def forward(self, x):
            return TensorDict({"x": x, "y": 2 * x}, [x.shape[0], x.shape[1]])

    dims = ({0: torch.export.Dim("batch", min=1)},)
    program = torch.export.export(Module(), (torch.rand(2, 6, 8),), dynamic_shapes=dims, strict=strict)
    x = torch.rand(4, 6, 8)
    out = program.module()(x)
    assert out.batch_size == (4, 6)
    assert_close(out["y"], 2 * x)
