import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetradict import NonTensorStack, TensorDict

SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


def numbered(batch):
    """A collection whose entry ``at`` numbers the items of the batch, and others that hang on the same numbers."""
    at = torch.arange(torch.Size(batch).numel()).view(batch)
    names = NonTensorStack(*[f"item {i}" for i in range(at.numel())])._map(lambda i: i.view(batch), at.shape)
    longer = TensorDict({"z": torch.stack([at, at], -1)}, (*batch, 2))
    return TensorDict(
        {"at": at, "wide": torch.stack([at, -at], -1), "text": "same", "names": names, "n": longer}, batch
    )


def check(out, at):
    """``out`` is ``numbered`` after a verb that takes its numbers to ``at``."""
    assert out.batch_size == at.shape
    assert_close(out["at"], at)
    assert_close(out["wide"], torch.stack([at, -at], -1))
    assert out["n"].batch_size == (*at.shape, 2)
    assert_close(out["n", "z"], torch.stack([at, at], -1))
    assert out["text"] == "same"
    names = out.get("names").tolist()
    for _ in range(at.ndim - 1):
        names = [name for part in names for name in part]
    assert (names if at.ndim else [names]) == [f"item {i}" for i in at.flatten().tolist()]


VERBS = {
    "view": lambda x: x.view(-1),
    "view sizes": lambda x: x.view([1, *x.shape]),
    "reshape": lambda x: x.reshape(*x.shape[::-1]),
    "flatten": lambda x: x.flatten(),
    "flatten some": lambda x: x.flatten(0, -2) if x.ndim > 1 else x.flatten(0, 0),
    "unflatten": lambda x: x.unflatten(-1, (1, -1)),
    "permute": lambda x: x.permute(*reversed(range(x.ndim))),
    "permute list": lambda x: x.permute([-1, *range(x.ndim - 1)]),
    "transpose": lambda x: x.transpose(0, -1),
    "squeeze": lambda x: x.squeeze(),
    "squeeze one": lambda x: x.squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze last": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x.expand(2, *x.shape),
    "expand minus one": lambda x: x.unsqueeze(0).expand([3, *[-1] * x.ndim]),
    "contiguous": lambda x: x.transpose(0, -1).contiguous(),
}
CUTS = {
    "unbind": lambda x: x.unbind(0),
    "unbind last": lambda x: x.unbind(-1),
    "split": lambda x: x.split(2),
    "split last": lambda x: x.split(2, -1),
    "split sizes": lambda x: x.split([0, x.shape[0]]),
    "split tuple": lambda x: x.split((1, x.shape[-1] - 1), dim=-1),
    "chunk": lambda x: x.chunk(2),
    "chunk many": lambda x: x.chunk(7, -1),
}


@pytest.mark.parametrize("name", VERBS)
@given(batch=SIZES)
def test_a_verb_does_to_every_entry_what_it_does_to_a_tensor_of_the_batch_size(name, batch):
    td = numbered(batch)
    check(VERBS[name](td), VERBS[name](td["at"]))


@pytest.mark.parametrize("name", CUTS)
@given(batch=SIZES)
def test_a_cut_gives_the_parts_it_gives_of_a_tensor(name, batch):
    td = numbered(batch)
    want = CUTS[name](td["at"])
    got = CUTS[name](td)
    assert isinstance(got, tuple)
    assert len(got) == len(want)
    for part, at in zip(got, want, strict=True):
        check(part, at)


@given(data=st.data(), batch=SIZES)
def test_gather_picks_as_it_does_from_a_tensor(data, batch):
    td = numbered(batch)
    dim = data.draw(st.integers(-len(batch), len(batch) - 1))
    shape = [data.draw(st.integers(0, 4)) if i == dim % len(batch) else size for i, size in enumerate(batch)]
    index = torch.randint(0, batch[dim], shape, generator=torch.Generator().manual_seed(0))
    check(td.gather(dim, index), td["at"].gather(dim, index))
    check(torch.gather(td, dim, index), td["at"].gather(dim, index))


@given(batch=SIZES, size=st.integers(1, 4))
def test_the_parts_of_a_split_join_to_the_whole(batch, size):
    td = numbered(batch)
    check(torch.cat(td.split(size)), td["at"])
    check(torch.cat(td.chunk(size, -1), -1), td["at"])
    check(torch.stack(td.unbind(-1), -1), td["at"])


@pytest.mark.smoke
def test_an_uneven_split_has_the_batch_size_of_its_rows():  # pytorch/tensordict#1374, #1379
    parts = TensorDict({"x": torch.arange(7), "y": torch.zeros(7, 3)}, [7]).split(5)
    assert [part["x"].tolist() for part in parts] == [[0, 1, 2, 3, 4], [5, 6]]
    assert [part.batch_size for part in parts] == [(5,), (2,)]
    assert [part["y"].shape for part in parts] == [(5, 3), (2, 3)]
    big = TensorDict({"x": torch.arange(3333)}, [3333]).split(1024)
    assert [part.batch_size[0] for part in big] == [1024, 1024, 1024, 261]


@pytest.mark.parametrize("size", [0, -2, [3, 2], [-1, 7]])
def test_a_split_into_sizes_that_do_not_go_is_refused(size):  # pytorch/tensordict#1368
    with pytest.raises(ValueError, match="split: "):
        TensorDict({"x": torch.arange(6)}, [6]).split(size)


def test_cutting_nothing_gives_empty_parts():
    td = TensorDict({"x": torch.zeros(0, 2)}, [0])
    assert td.unbind(0) == ()
    assert [part.batch_size for part in td.split(3)] == [(0,)]
    assert [part.batch_size for part in td.chunk(2)] == [(0,), (0,)]
    assert [part.batch_size for part in TensorDict({}, [2, 3]).unbind(1)] == [(2,)] * 3
    with pytest.raises(ValueError, match="chunks must be positive"):
        td.chunk(0)


NAMED = {
    "view": (lambda td: td.view(-1), [None]),
    "same view": (lambda td: td.view(2, 3), ["x", "y"]),
    "flatten": (lambda td: td.unsqueeze(0).flatten(0, 1), [None, "y"]),
    "unflatten": (lambda td: td.unflatten(1, (3, 1)), ["x", None, None]),
    "permute": (lambda td: td.permute(1, 0), ["y", "x"]),
    "unsqueeze": (lambda td: td.unsqueeze(1), ["x", None, "y"]),
    "squeeze": (lambda td: td[:1].squeeze(0), ["y"]),
    "expand": (lambda td: td.expand(5, 2, 3), [None, "x", "y"]),
    "unbind": (lambda td: td.unbind(1)[0], ["x"]),
    "split": (lambda td: td.split(1, 1)[0], ["x", "y"]),
    "stack": (lambda td: torch.stack([td, td], 1), ["x", None, "y"]),  # pytorch/tensordict#1347
    "cat": (lambda td: torch.cat([td, td], 1), ["x", "y"]),
    "clone": (lambda td: td.clone(), ["x", "y"]),
    "add": (lambda td: td + 1, ["x", "y"]),
}


@pytest.mark.parametrize("name", NAMED)
def test_names_go_with_their_dimensions(name):
    verb, names = NAMED[name]
    td = TensorDict({"a": torch.zeros(2, 3, 4), "n": {"b": torch.zeros(2, 3)}}, [2, 3], names=["x", "y"])
    td["n"].batch_size = [2, 3]
    out = verb(td)
    assert out.names == names
    assert out["n"].names == names


def test_a_longer_nested_batch_keeps_the_names_of_its_own_dimensions():
    td = TensorDict({"n": TensorDict({"b": torch.zeros(2, 3, 4)}, [2, 3, 4], names=["x", "y", "z"])}, [2, 3])
    td.names = ["x", "y"]
    for out, names in [
        (td.permute(1, 0), ["y", "x", "z"]),
        (td.view(-1), [None, "z"]),
        (td[0], ["y", "z"]),
        (td.unbind(1)[0], ["x", "z"]),
        (td[:1].squeeze(), ["y", "z"]),
    ]:
        assert out["n"].names == names


def test_shapes_that_do_not_go_are_refused():
    td = TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3])
    for verb in (
        lambda: td.view(4),
        lambda: td.view(-1, 4),
        lambda: td.reshape(-1, -1),
        lambda: td.expand(3, 3),
        lambda: td.expand(3),
        lambda: td.expand(-1, 2, 3),
        lambda: td.unflatten(0, (3, -1)),
        lambda: td.gather(0, torch.zeros(2, dtype=torch.int64)),
    ):
        with pytest.raises(RuntimeError):
            verb()
    for verb in (lambda: td.permute(0, 0), lambda: td.permute(0), lambda: td.flatten(1, 0)):
        with pytest.raises(ValueError, match=r"permute|flatten"):
            verb()
    for verb in (
        lambda: td.squeeze(2),
        lambda: td.unbind(2),
        lambda: td.split(1, 2),
        lambda: td.transpose(0, 2),
    ):
        with pytest.raises(IndexError):
            verb()


def test_a_single_item_becomes_a_batch_of_one():
    td = TensorDict({"a": torch.zeros(4)}, [])
    assert td.flatten()["a"].shape == (1, 4)
    assert td.reshape(-1).batch_size == (1,)
    assert td.expand(3)["a"].shape == (3, 4)
    assert td.numel() == 1


def test_contiguous_keeps_what_is_contiguous():
    td = TensorDict({"a": torch.zeros(2, 3)}, [2, 3])
    assert td.contiguous()["a"] is td["a"]
    turned = td.permute(1, 0)
    assert not turned.is_contiguous()
    assert turned.contiguous().is_contiguous()
