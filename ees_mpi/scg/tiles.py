"""A tensor made a tile of rows at a time, of which nothing is kept: each tile is made again in the backward pass.

There is one autograd node for all tiles, and nothing outlives a tile: small things left between large ones would keep
the allocator from using their memory again. Derivatives of higher order are right, but keep all tiles; forward mode and
the transforms of torch.func are refused by torch.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

Make = Callable[[int, int, Sequence[Tensor]], Tensor]  # first row, end, the tensors that the tile is made of


def tiled(make: Make, size: int, rows: int, dim: int, tensors: Sequence[Tensor]) -> Tensor:
    """Make `size` rows along `dim`; a tile may depend on nothing that requires a gradient but the tensors."""
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
        again = torch.is_grad_enabled()  # somebody wants to differentiate the gradient
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
        # Copies of their own: of two tensors, one may have been made from the other.
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
