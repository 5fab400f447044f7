"""What users compile compiles whole: one graph, and the same answers."""

import pytest
import torch

from tetradict import NonTensorData, TensorDict


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def example():
    return TensorDict({"a": torch.arange(12.0).view(4, 3), "n": {"b": torch.ones(4), "s": "text"}}, [4])


def construct(td, x):
    out = TensorDict({"a": td["a"] + x, "n": {"b": x[:, 0], "s": "text"}}, [4])
    return (
        out,
        TensorDict({"x": x}, batch_size=[4], device="cpu"),
        TensorDict.trusted({"x": x}, td.batch_size),
    )


def entries(td, x):
    td = td.clone(False)
    td["new"] = x
    td.set(("q", "r"), x).set("text", NonTensorData("t"))
    td.update({"a": x, "n": {"c": x}})
    td.set_("new", x * 2)
    dropped = td.pop(("n", "b"))
    td.rename_key_("a", "z")
    found = td.get("missing", x), ("n", "c") in td, td["n", "s"], td.get(("q", "r"))
    return (
        td,
        dropped,
        found,
        td.select("new", ("q", "r")),
        td.exclude("q"),
        td.flatten_keys(),
        td.keys(True, True),
    )


def index(td, x):
    rows = torch.tensor([0, 2])
    td[0] = td[1].clone()
    td[2:] = 0
    return td[0], td[1:3], td[rows], td[..., None], td[None, :2], td[:, None][rows]


def shape(td, x):
    return (
        td.view(2, 2).permute(1, 0).reshape(-1),
        td.unsqueeze(0).squeeze(0),
        td.expand(2, 4).flatten(0, 1),
        td.unflatten(0, (2, -1)).transpose(0, 1).contiguous(),
        td.unbind(0)[1],
        td.split(3)[1],
        td.split([1, 3])[0],
        td.chunk(2)[0],
        td.gather(0, torch.tensor([1, 1])),
    )


def join(td, x):
    return torch.stack([td, td + 1], 1), torch.cat([td, td[:1]]), torch.stack([td[0], td[1]])


def arithmetic(td, x):
    mask = td > 1
    return (
        td + 1,
        2 - td,
        td * td,
        td / 2,
        -td,
        td.exp(),
        td == td.clone(),
        mask,
        td.clone().add_(1),
        td - x[:, 0],
        x[:, 0] - td,
        x[:, 0] < td,
        td / x[:, 0],
        td ** x[:, 0],
        td > x[:, 0],
        td // 2,
    )


def functions(td, x):
    return (
        td.apply(lambda v: v * 2),
        td.named_apply(lambda name, v: v + len(name)),
        td.apply(torch.add, td),
        td.to(torch.float64),
        td.clone(),
        td.detach(),
        torch.zeros_like(td),
        td.to_dict(),
    )


def locks(td, x):
    td.lock_()
    td.set_("a", x)
    inside = td.is_locked
    td.unlock_()
    td["new"] = x
    return td, inside


def same(left, right, assert_same):
    if isinstance(left, tuple | list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other, assert_same)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        same(list(left.values()), list(right.values()), assert_same)
    else:
        assert_same(left, right)


@pytest.mark.parametrize(
    "function",
    [construct, entries, index, shape, join, arithmetic, functions, locks],
    ids=lambda f: f.__name__,
)
def test_it_compiles_to_one_graph_that_gives_the_same(function, assert_same):
    x = torch.arange(12.0).view(4, 3) / 7
    want = function(example(), x)
    got = torch.compile(function, backend="eager", fullgraph=True)(example(), x)
    same(want, got, assert_same)


def test_sizes_may_be_dynamic(assert_same):
    def step(td):
        out = TensorDict({"y": td["x"] * 2, "n": {"z": td["x"].sum(-1)}}, td.batch_size)
        return torch.cat([out, out[1:]]).view(-1, 1)

    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(step, backend=counter, fullgraph=True, dynamic=True)
    for rows in (3, 5, 8):
        td = TensorDict({"x": torch.rand(rows, 2)}, [rows])
        assert_same(step(td), compiled(td))
    assert counter.frame_count == 1


def test_gradients_go_through_a_compiled_function():
    def loss(td):
        return torch.stack([td * 2, td.exp()])["a"].sum()

    want, got = (TensorDict({"a": torch.ones(3), "b": torch.ones(3)}, [3]).requires_grad_() for _ in range(2))
    loss(want).backward()
    torch.compile(loss, backend="aot_eager", fullgraph=True)(got).backward()
    torch.testing.assert_close(got["a"].grad, want["a"].grad)


def test_a_collection_is_returned_from_a_nested_region():  # pytorch/tensordict#1667
    @torch.compiler.nested_compile_region
    def inner(td):
        return TensorDict({"y": td["x"] * 2}, td.batch_size)

    td = TensorDict({"x": torch.arange(3.0)}, [3])
    compiled = torch.compile(lambda td: inner(td)["y"].sum(), backend="aot_eager", fullgraph=True)
    assert float(compiled(td)) == 6.0


def test_entries_that_are_not_read_do_not_compile_again():  # pytorch/tensordict#1606
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda td, x: td["k0"] + td.get(("n", "b")) + x, backend=counter, fullgraph=True)
    td = TensorDict({"n": {"b": torch.ones(2)}}, [])
    for i in range(6):
        td[f"k{i}"] = torch.zeros(2)
        td["n", f"k{i}"] = torch.zeros(2)
        assert compiled(td, torch.ones(2)).tolist() == [2, 2]
    assert counter.frame_count == 1
