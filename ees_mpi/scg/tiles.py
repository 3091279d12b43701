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
        needed = [place for place, need in enumerate(ctx.needs_input_grad[4:]) if need]
        sums = {place: torch.zeros_like(ctx.saved_tensors[place]) for place in needed}
        for start, stop in _tiles(size, rows):
            part = grad.narrow(dim, start, stop - start)
            gradients = _gradients(make, start, stop, ctx.saved_tensors, needed, part, again)
            for place, gradient in zip(needed, gradients, strict=True):
                if gradient is not None:
                    sums[place] = sums[place] + gradient if again else sums[place].add_(gradient)
        return None, None, None, None, *map(sums.get, range(len(ctx.saved_tensors)))


def _gradients(
    make: Make, start: int, stop: int, tensors: Sequence[Tensor], needed: Sequence[int], grad: Tensor, again: bool
) -> Sequence[Tensor | None]:
    """Return the gradient of one tile with respect to each needed tensor."""
    with torch.enable_grad():
        # Separate copies, because one tensor may have been computed from another.
        own = [
            tensor.view_as(tensor) if again else tensor.detach().requires_grad_(place in needed)
            for place, tensor in enumerate(tensors)
        ]
        value = make(start, stop, own)
        if not value.requires_grad:
            return [None] * len(needed)
        wanted = [own[place] for place in needed]
        return torch.autograd.grad(value, wanted, grad, create_graph=again, allow_unused=True)


def _tiles(size: int, rows: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + rows, size)) for start in range(0, size, rows))
