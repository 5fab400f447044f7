import pytest
import torch

from tetradict import TensorDict


@pytest.mark.smoke
def test_functions_of_torch_mean_what_the_methods_mean(assert_same):
    td = TensorDict({"a": torch.arange(12.0).view(2, 3, 2), "n": {"b": torch.ones(2, 3)}}, [2, 3])
    for left, right in [
        (torch.unbind(td, 1)[0], td.unbind(1)[0]),
        (torch.split(td, 1)[1], td.split(1)[1]),
        (torch.chunk(td, 2, 1)[1], td.chunk(2, 1)[1]),
        (torch.reshape(td, (3, 2)), td.reshape(3, 2)),
        (torch.flatten(td), td.flatten()),
        (torch.flatten(td, 0, 1), td.flatten(0, 1)),
        (torch.unflatten(td, 1, (3, 1)), td.unflatten(1, (3, 1))),
        (torch.permute(td, (1, 0)), td.permute(1, 0)),
        (torch.transpose(td, 0, 1), td.transpose(0, 1)),
        (torch.squeeze(td[:1]), td[0]),
        (torch.unsqueeze(td, -1), td.unsqueeze(-1)),
        (torch.clone(td), td),
        (torch.detach(td), td),
    ]:
        assert_same(left, right)


def test_a_function_that_means_nothing_is_refused_by_torch():
    with pytest.raises(TypeError, match=r"torch.linalg"):
        torch.linalg.inv(TensorDict({"a": torch.eye(2)}, []))
