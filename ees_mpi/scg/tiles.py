"""A tensor that is computed one tile of rows at a time, to save memory. The backward pass computes each tile again.

There is one autograd node for all tiles, and no tensor outlives its tile: small tensors between large ones would keep
the allocator from reusing memory. Derivatives of higher order are correct, but keep all tiles in memory. Torch refuses
forward mode and the transforms of torch.func.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

Make = Callable[[int, int, Sequence[Tensor]], Tensor]  # first row, end, tensors -> the tile


def tiled(make: Make, size: int, rows: int, dim: int, tensors: Sequence[Tensor]) -> Tensor:
    """Return `size` rows along `dim`; everything in a tile that requires a gradient must come from `tensors`."""
    value: Tensor = _Tiled.apply(make, size, rows, dim, *tensors)  # type: ignore[no-untyped-call]
    return value


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, make: Make, size: int, rows: int, dim: int, *tensors: Tensor) -> Tensor:
        ctx.settings = make, size, rows, dim
        ctx.save_for_backward(*tensors)
        result: Tensor | None = None
        for start, stop in _tiles(size, rows):
            value = make(start, stop, tensors)
            if result is None:
                result = value.new_empty((*value.shape[:dim], size, *value.shape[dim + 1 :]))
            result.narrow(dim, start, stop - start).copy_(value)
        if result is None:
            raise ValueError("expected at least one row, got none")
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        make, size, rows, dim = ctx.settings
        again = torch.is_grad_enabled()  # the gradient will be differentiated
        needed = ctx.needs_input_grad[4:]
        sums = [
            torch.zeros_like(tensor) if need else None for tensor, need in zip(ctx.saved_tensors, needed, strict=True)
        ]
        for start, stop in _tiles(size, rows):
            parts = _gradients(
                make, start, stop, ctx.saved_tensors, needed, grad.narrow(dim, start, stop - start), again
            )
            for place, part in enumerate(parts):
                total = sums[place]
                if part is not None and total is not None:
                    sums[place] = total + part if again else total.add_(part)
        return None, None, None, None, *sums


def _gradients(
    make: Make, start: int, stop: int, tensors: Sequence[Tensor], needed: Sequence[bool], grad: Tensor, again: bool
) -> list[Tensor | None]:
    """Return the gradient of one tile with respect to each tensor."""
    with torch.enable_grad():
        # Separate copies, because one tensor may have been computed from another.
        own = [
            each.view_as(each) if again else each.detach().requires_grad_(need)
            for each, need in zip(tensors, needed, strict=True)
        ]
        value = make(start, stop, own)
        wanted = [each for each, need in zip(own, needed, strict=True) if need]
        found: Sequence[Tensor | None] = [None] * len(wanted)
        if value.requires_grad:
            found = torch.autograd.grad(value, wanted, grad, create_graph=again, allow_unused=True)
    given = iter(found)
    return [next(given) if need else None for need in needed]


def _tiles(size: int, rows: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + rows, size)) for start in range(0, size, rows))
