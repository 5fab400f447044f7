import torch

from tetradict import NonTensorStack, TensorDict


def test_repr_shows_sorted_entries_with_shape_device_and_dtype():
    td = TensorDict({"b": torch.zeros(2, 3), "a": {"s": "text", "r": NonTensorStack(1, "x")}}, [2])
    assert repr(td) == (
        "TensorDict(\n"
        "    fields={\n"
        "        a: TensorDict(\n"
        "            fields={\n"
        "                r: NonTensorStack([1, 'x'], batch_size=torch.Size([2])),\n"
        "                s: NonTensorData(data='text', batch_size=torch.Size([2]))},\n"
        "            batch_size=torch.Size([2]),\n"
        "            device=None,\n"
        "            is_shared=False),\n"
        "        b: Tensor(shape=torch.Size([2, 3]), device=cpu, dtype=torch.float32, is_shared=False)},\n"
        "    batch_size=torch.Size([2]),\n"
        "    device=None,\n"
        "    is_shared=False)"
    )


def test_repr_shows_names_when_there_are_any_and_nothing_as_nothing():
    assert repr(TensorDict({}, [2], names=["t"], device="cpu")) == (
        "TensorDict(\n    fields={},\n    batch_size=torch.Size([2]),\n    names=['t'],\n    device=cpu,\n    is_shared=False)"
    )
