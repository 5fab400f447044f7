import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tetradict import TensorDict, TensorDictBase
from tetradict._protocol import Container, real_device, real_dim

VERBS = {
    "int": lambda td: td[0],
    "slice": lambda td: td[1:],
    "tensor": lambda td: td[torch.tensor([0, -1])],
    "mask": lambda td: td[torch.arange(td.shape[0]) % 2 == 0],
    "ellipsis": lambda td: td[..., 0],
    "view": lambda td: td.view(-1),
    "reshape": lambda td: td.reshape(*td.shape, 1),
    "flatten": lambda td: td.flatten(),
    "unflatten": lambda td: td.unflatten(0, (1, -1)),
    "permute": lambda td: td.permute(*reversed(range(td.ndim))),
    "transpose": lambda td: td.transpose(0, -1),
    "squeeze": lambda td: td.squeeze(),
    "unsqueeze": lambda td: td.unsqueeze(-1),
    "expand": lambda td: td.expand(2, *td.shape),
    "unbind": lambda td: td.unbind(0),
    "split": lambda td: td.split(2),
    "split sizes": lambda td: td.split([1, td.shape[0] - 1]),
    "chunk": lambda td: td.chunk(2, -1),
    "stack": lambda td: torch.stack([td, td.clone()], -1),
    "cat": lambda td: torch.cat([td, td[:1]]),
    "clone": lambda td: td.clone(),
    "shallow": lambda td: td.copy(),
    "to": lambda td: td.to(torch.float32),
    "to device": lambda td: td.to("cpu"),
    "apply": lambda td: td.apply(lambda x: x + 1),
    "apply drops": lambda td: td.apply(lambda x: None if x.ndim % 2 else x),
    "apply others": lambda td: td.apply(torch.maximum, td.clone()),
    "named_apply": lambda td: td.named_apply(lambda name, x: x + len(name), nested_keys=True),
    "eq": lambda td: td == td.clone(),
    "all": lambda td: (td == td).all(),
    "any": lambda td: (td != td).any(),
    "add": lambda td: td.to(torch.float64) + 1,
    "leaves": lambda td: list(td.values(True, True)),
    "keys": lambda td: list(td.keys(True)),
    "sorted keys": lambda td: td.keys(True, True, sort=True),
    "select": lambda td: td.select(*list(td.keys())[:1]),
    "select nested": lambda td: td.select(*list(td.keys(True, True))[:2]),
    "exclude": lambda td: td.exclude(*list(td.keys())[:1], ("a", "b")),
    "flatten_keys": lambda td: td.flatten_keys("/"),
    "unflatten_keys": lambda td: td.flatten_keys("/").unflatten_keys("/"),
    "empty": lambda td: td.empty(recurse=True),
    "to_dict": lambda td: td.to_dict(),
    "contains": lambda td: [key in td for key in ["a", ("a", "b"), ("a", "b", "c"), ("b", "zz")]],
    "get": lambda td: [td.get(key, 3) for key in ["a", ("a", "b"), ("zz", "a"), ("a", "zz")]],
    "getitem": lambda td: [td[key] for key in td.keys(True)],
    "missing": lambda td: td["zz"],
    "missing below": lambda td: td["a", "zz"],
    "set": lambda td: td.set("new", torch.zeros(td.shape)),
    "set misfit": lambda td: td.set("new", torch.zeros(*td.shape, 1).sum(0)),
    "set nested": lambda td: td.set(("a", "new"), torch.zeros(td.shape)),
    "set dict": lambda td: td.set("new", {"x": torch.zeros(td.shape), "y": "text"}),
    "set inplace": lambda td: td.set(next(iter(td.keys())), td.clone()[next(iter(td.keys()))], inplace=True),
    "update": lambda td: td.update(td.clone()),
    "update mapping": lambda td: td.update({
        "new": torch.zeros(td.shape),
        ("x", "y"): "text",
        "a": {"q": "text"},
    }),
    "pop": lambda td: td.pop("a", 3),
    "rename": lambda td: td.rename_key_("a", ("x", "y")),
    "batch_size": lambda td: setattr(td, "batch_size", td.shape[:1]) or td,
    "names": lambda td: setattr(td, "names", ["x", *[None] * (td.ndim - 1)]) or td[:1],
    "set index": lambda td: td.__setitem__(0, td[-1].clone()) or td,
    "set index number": lambda td: td.__setitem__(slice(1), 1) or td,
    "lock": lambda td: td.lock_()["a"],
    "zero": lambda td: td.zero_(),
    "contiguous": lambda td: td.expand(2, *td.shape).contiguous(),
    "share": lambda td: td.share_memory_().is_locked,
    "auto": lambda td: td.auto_batch_size_(1).batch_size,
}


def outcome(verb, td):
    try:
        return verb(td)
    except Exception as error:
        return type(error)


def compare(left, right, assert_same):
    if isinstance(left, tuple | list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            compare(one, other, assert_same)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            compare(left[key], right[key], assert_same)
    elif isinstance(left, TensorDictBase | Tensor):
        assert_same(left, right)
    else:
        assert left == right


@pytest.mark.parametrize("name", VERBS)
@settings(max_examples=12)
@given(data=st.data())
def test_a_storage_of_the_protocol_alone_has_every_verb_and_the_fast_forms_equal_it(
    name, data, trees, other_kind, assert_same
):
    td = data.draw(trees)
    same = other_kind.of(copy.deepcopy(td))
    verb = VERBS[name]
    left, right = outcome(verb, td), outcome(verb, same)
    compare(left, right, assert_same)
    assert_same(td, same)


def test_a_container_that_lacks_a_primitive_says_which():
    class Half(Container):
        pass

    for call in ("_keys", "_leaves"):
        with pytest.raises(TypeError, match="Half is no complete container: it lacks _keys"):
            getattr(Half(), call)()
    with pytest.raises(TypeError, match="it lacks batch_size"):
        _ = Half().batch_size


def test_a_device_is_given_with_its_index():
    assert real_device(None) is None
    assert real_device("cpu") == torch.device("cpu")
    assert real_device("cuda:1") == torch.device("cuda", 1)


def test_a_dimension_out_of_range_is_refused():
    assert real_dim(-1, 3, "verb") == 2
    with pytest.raises(IndexError, match=r"verb: dim must be in \[-3, 2\] for 3 batch dimensions, got 3"):
        real_dim(3, 3, "verb")
    with pytest.raises(IndexError, match="got 0"):
        TensorDict({}, []).unbind(0)
