import pytest
import torch
from torch.testing import assert_close

from tetrarec.optim import RowWiseAdagrad

OPTIONS = [
    {},
    {"lr_decay": 0.1},
    {"weight_decay": 0.1},
    {"initial_accumulator_value": 0.5},
    {"eps": 0.01},
    {"maximize": True},
]


def run(kind, width, options, shape=(4,)):
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(*shape, width, dtype=torch.float64, generator=generator))
    optimizer = kind([weight], lr=0.3, **options)
    for _ in range(3):
        weight.grad = torch.randn(weight.shape, dtype=torch.float64, generator=generator)
        optimizer.step()
    return weight.detach()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_with_rows_of_one_element_it_is_adagrad(options):
    assert_close(run(RowWiseAdagrad, 1, options), run(torch.optim.Adagrad, 1, options))


def test_a_row_shares_the_mean_of_its_squares():
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.tensor([[3.0, 1.0], [0.0, 0.0]])
    optimizer = RowWiseAdagrad([weight], lr=1.0)
    optimizer.step()
    root = 5.0**0.5
    assert_close(weight.detach(), torch.tensor([[-3 / root, -1 / root], [0.0, 0.0]]))
    assert optimizer.state[weight]["sum"].shape == (2, 1)


def test_more_dimensions_and_vectors_have_rows_too():
    assert run(RowWiseAdagrad, 3, {}, (4, 2)).shape == (4, 2, 3)
    assert_close(run(RowWiseAdagrad, 5, {}, ()), run(torch.optim.Adagrad, 5, {}, ()))


def test_a_closure_is_called_with_gradients_and_state_is_kept():
    weight = torch.nn.Parameter(torch.ones(1))

    def closure():
        loss = weight.sum()
        loss.backward()
        return loss

    optimizer = RowWiseAdagrad([weight])
    assert optimizer.step(closure).item() == 1.0
    other = RowWiseAdagrad([weight])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[weight]["step"] == 1


def test_mistakes_are_named():
    weight = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ValueError, match="lr must not be negative, got -1"):
        RowWiseAdagrad([weight], lr=-1)
    with pytest.raises(TypeError, match="momentum"):
        RowWiseAdagrad([weight], momentum=0.9)
    table = torch.nn.Embedding(2, 2, sparse=True)
    table(torch.tensor([0])).sum().backward()
    with pytest.raises(TypeError, match="gradients must be dense"):
        RowWiseAdagrad(table.parameters()).step()
