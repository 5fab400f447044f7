import pytest
import torch
from torch.utils import _pytree as pytree

from tetrarec.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor, kjt_is_equal


def keyed(**options):
    return KeyedJaggedTensor(
        ["a", "b"], torch.tensor([1, 2, 3]), lengths=torch.tensor([1, 1, 0, 1]), **options
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": torch.ones(3)},
        {"stride_per_key": [1, 3], "inverse_indices": (["a", "b"], torch.zeros(2, 6).long())},
        {"stride_per_key": [1, 3]},
    ],
    ids=["plain", "weighted", "distinct bags", "own strides"],
)
def test_a_keyed_batch_survives_flattening(options):
    batch = keyed(**options)
    leaves, structure = pytree.tree_flatten(batch)
    again = pytree.tree_unflatten(leaves, structure)
    assert kjt_is_equal(again, batch)
    assert again.stride() == batch.stride()
    assert (again.inverse_indices_or_none() is None) == ("inverse_indices" not in options)
    twice = pytree.tree_map(lambda leaf: leaf * 2 if isinstance(leaf, torch.Tensor) else leaf, batch)
    assert twice.values().tolist() == [2, 4, 6]


def test_leaves_need_not_stay_tensors():
    shapes = pytree.tree_map(lambda leaf: getattr(leaf, "shape", None), keyed())
    assert shapes.values() == (3,)
    assert "values=" in repr(shapes)


def test_the_other_containers_survive_flattening():
    jagged = JaggedTensor(torch.ones(3), torch.ones(3), lengths=torch.tensor([1, 2]))
    again = pytree.tree_map(lambda leaf: leaf, jagged)
    assert again.weights() is jagged.weights()
    dense = KeyedTensor(["a", "b"], [1, 2], torch.ones(2, 3), key_dim=1)
    assert pytree.tree_map(lambda leaf: leaf + 1, dense)["b"].tolist() == [[2, 2], [2, 2]]


def test_a_module_that_takes_a_keyed_batch_exports():
    class Sum(torch.nn.Module):
        def forward(self, batch):
            return batch.values().sum() + batch.offsets()[-1]

    program = torch.export.export(Sum(), (keyed(),))
    assert program.module()(keyed()).item() == 9
