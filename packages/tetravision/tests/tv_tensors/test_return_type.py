"""Choosing what operations give back."""

import threading

import pytest
import torch

from tetravision.tv_tensors import Image, set_return_type


def kind():
    return type(Image(torch.zeros(1, 1, 1)) + 1)


def test_as_a_call_it_holds_until_the_next():
    set_return_type("tvtensor")
    try:
        assert kind() is Image
    finally:
        set_return_type("Tensor")
    assert kind() is torch.Tensor


def test_as_a_block_it_ends_with_the_block_even_when_that_raises():
    with pytest.raises(KeyError), set_return_type("TVTensor"):
        assert kind() is Image
        raise KeyError
    assert kind() is torch.Tensor


def test_it_is_this_threads_alone():
    seen = []
    with set_return_type("TVTensor"):
        thread = threading.Thread(target=lambda: seen.append(kind()))
        thread.start()
        thread.join(timeout=60)
    assert seen == [torch.Tensor]


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="'Tensor' or 'TVTensor', got 'image'"):
        set_return_type("image")
