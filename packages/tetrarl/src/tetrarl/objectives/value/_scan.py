"""The linear recursion that every return and advantage is an instance of."""

import math

import torch
from torch import Tensor

_SHORT = 16  # up to this length one step after the other is as fast as blocks


def reverse_scan_reference(values: Tensor, decay: Tensor) -> Tensor:
    """What reverse_scan means: ``y[t] = values[t] + decay[t] * y[t + 1]``, and nothing after the last step."""
    carry = torch.zeros_like(values[0]) if len(values) else values
    steps = []
    for value, factor in zip(values.unbind(0)[::-1], decay.unbind(0)[::-1], strict=True):
        carry = value + factor * carry
        steps.append(carry)
    return torch.stack(steps[::-1]) if steps else values.clone()


def _step_back_(values: Tensor, decay: Tensor) -> None:
    """The recursion along the first dimension, written over ``values``."""
    rows, factors = values.unbind(0), decay.unbind(0)
    for t in range(len(rows) - 2, -1, -1):
        rows[t].addcmul_(factors[t], rows[t + 1])


def _blocks(values: Tensor, decay: Tensor) -> Tensor:
    """The recursion in blocks of about sqrt(T) steps, all blocks side by side.

    Three passes of wide operations stand for T narrow ones: inside the blocks (keeping the product of the decays up
    to each block's end), over the blocks' first steps, then what each block hands to the one before it.
    """
    T, M = values.shape
    size = math.isqrt(T - 1) + 1
    blocks = -(-T // size)
    total, product = values.new_zeros(2, blocks * size, M).unbind(0)
    total[:T], product[:T] = values, decay
    total, product = total.view(blocks, size, M), product.view(blocks, size, M)
    sums, factors = total.unbind(1), product.unbind(1)
    for b in range(size - 2, -1, -1):
        sums[b].addcmul_(factors[b], sums[b + 1])
        factors[b].mul_(factors[b + 1])
    carry = total[:, 0].clone()
    _step_back_(carry, product[:, 0])
    total[:-1].addcmul_(product[:-1], carry[1:, None])
    return total.view(blocks * size, M)[:T].clone()


@torch.library.custom_op("tetrarl::reverse_scan", mutates_args=())
def reverse_scan(values: Tensor, decay: Tensor) -> Tensor:
    """Solve ``y[t] = values[t] + decay[t] * y[t + 1]`` from the last step to the first.

    Args:
        values: ``[T, M]``, floating, time first.
        decay: ``[T, M]``, as ``values``. A zero cuts the recursion; that of the last step is never used.

    Returns:
        ``[T, M]`` in the dtype of ``values``, accumulated in float32 or wider. Differentiable, to any order.
    """
    wide = torch.promote_types(values.dtype, torch.float32)
    x, d = values.to(wide), decay.to(wide)
    if len(x) > _SHORT:
        return _blocks(x, d).to(values.dtype)
    result = x.clone(memory_format=torch.contiguous_format)
    if len(x):
        _step_back_(result, d)
    return result.to(values.dtype)


@reverse_scan.register_fake
def _(values: Tensor, decay: Tensor) -> Tensor:
    return values.new_empty(values.shape)


def _save(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], output)


def _gradient(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The transposed recursion runs forward in time: a reverse scan of flipped rows, decays one step later."""
    decay, output = ctx.saved_tensors
    if not len(output):
        return grad, torch.zeros_like(decay)
    nothing = torch.zeros_like(decay[:1])
    grad_values = reverse_scan(grad.flip(0), torch.cat([nothing, decay[:-1]]).flip(0)).flip(0)
    return grad_values, grad_values * torch.cat([output[1:], nothing])


reverse_scan.register_autograd(_gradient, setup_context=_save)


def _vmap(
    info: object, in_dims: tuple[int | None, int | None], values: Tensor, decay: Tensor
) -> tuple[Tensor, int]:
    """Lay the mapped dimension beside the columns, which never meet."""
    size = info.batch_size  # type: ignore[attr-defined]
    x, d = (
        t.unsqueeze(1).expand(t.shape[0], size, t.shape[1]) if dim is None else t.movedim(dim, 1)
        for t, dim in zip((values, decay), in_dims, strict=True)
    )
    return reverse_scan(x.flatten(1), d.flatten(1)).view(x.shape), 1


reverse_scan.register_vmap(_vmap)
