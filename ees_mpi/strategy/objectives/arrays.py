"""The weights of MaxEnt and MaxVar as functions of arrays of any library that follows the array API standard.

Behaviours in numpy, torch or JAX give weights of the same kind, on the same device. They are those of `maxent` and
`maxvar`, to rounding: the program computes in double precision, these functions in the precision of their argument.
There is no N x N array: rows are taken in blocks. Invalid rows are masked, so that the functions can be jitted.
"""

from collections.abc import Callable
from typing import Any

from ees_mpi.arrays import Normalization
from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.generation import MAX_BEHAVIOR
from ees_mpi.strategy.density import NARROWEST, NORMAL_IQR

BLOCK = 1 << 22  # numbers in a block of rows, about
FEWEST = 64  # rows in a block: many short ones take long


def maxent_weights(
    behavior: Any, valid: Any = None, *, bandwidth: float | str = "scott", normalization: Normalization = "whiten"
) -> Any:
    """Return the weights of MaxEnt [N] for behaviours [N, B]; large where behaviours are rare.

    valid [N]: which rows count; those that are not finite never do, and have weight 0
    bandwidth, normalization: as in the objective "maxent"
    """
    by_rule = isinstance(bandwidth, str) and bandwidth == "scott"
    if not (by_rule or getattr(bandwidth, "requires_grad", False) or _known(bandwidth) > 0):
        raise ConfigError(f'bandwidth: expected a positive number or "scott", got {bandwidth!r:.80}')
    xp, b, valid, count = _normalised(behavior, valid, normalization)
    scaled, ones = b / (_scott(xp, b, valid, count) if by_rule else bandwidth), xp.astype(valid, b.dtype)

    def kernel_sums(v: Any) -> Any:
        return _in_blocks(xp, scaled, lambda rows: xp.sum(xp.exp(-0.5 * _squares(rows, scaled)) * v, axis=1))

    p = xp.where(valid, kernel_sums(ones) / count, 1.0)
    inner = kernel_sums(ones / p) / count
    return _centred(xp, -(xp.log(p) + inner) / count, valid, count)


def maxvar_weights(behavior: Any, valid: Any = None, *, normalization: Normalization = "whiten") -> Any:
    """Return the weights of MaxVar [N] for behaviours [N, B]; large far from the mean behaviour.

    valid [N]: which rows count; those that are not finite never do, and have weight 0
    normalization: as in the objective "maxvar"
    """
    xp, b, valid, count = _normalised(behavior, valid, normalization)
    return _centred(xp, xp.sum(b * b, axis=1) / count, valid, count)


def _known(number: Any) -> float:
    """Return a number of any library as a float; 1 if it is traced, and therefore not known yet; 0 for a text."""
    try:
        return 0.0 if isinstance(number, str) else float(number)
    except (TypeError, RuntimeError):
        return 1.0


def _namespace(array: Any) -> Any:
    """Return the array API functions for an array."""
    try:
        import array_api_compat
    except ImportError:
        if hasattr(array, "__array_namespace__"):  # of numpy and JAX
            return array.__array_namespace__()
        raise MissingExtra("weights of torch tensors need array-api-compat: pip install 'ees_mpi[torch]'") from None
    return array_api_compat.array_namespace(array)


def _normalised(behavior: Any, valid: Any, normalization: str) -> tuple[Any, Any, Any, Any]:
    """Return the array functions, the normalised behaviours [N, B], which rows are valid [N], and how many."""
    if normalization not in ("whiten", "ranks"):
        raise ConfigError(f"normalization: expected 'whiten' or 'ranks', got {normalization!r:.80}")
    try:
        xp = _namespace(behavior)
    except TypeError:
        raise ConfigError(f"behavior: expected an array of numpy, torch or JAX, got {behavior!r:.80}") from None
    if behavior.ndim != 2 or not xp.isdtype(behavior.dtype, "real floating"):
        raise ConfigError(
            f"behavior: expected an array [N, B] of floats, got one of shape {tuple(behavior.shape)}, {behavior.dtype}"
        )
    if valid is not None and getattr(valid, "shape", None) != behavior.shape[:1]:
        raise ConfigError(f"valid: expected an array [N] with N = {behavior.shape[0]}, got {valid!r:.80}")
    usable = xp.abs(behavior) <= min(MAX_BEHAVIOR, float(xp.finfo(behavior.dtype).max))  # false for NaN
    valid = xp.all(usable, axis=1) if valid is None else xp.all(usable, axis=1) & xp.astype(valid, xp.bool)
    ones = xp.astype(valid, behavior.dtype)
    count = xp.sum(ones)
    count = xp.where(count < 1, xp.ones_like(count), count)
    b = xp.where(valid[:, None], behavior, xp.zeros_like(behavior))
    if normalization == "ranks":
        b = xp.stack([_ranks(xp, b[:, j], ones, count) for j in range(b.shape[1])], axis=1)
    else:
        tiny = _tolerance(xp, b.dtype) * xp.max(xp.abs(b), axis=0)
        b = b - xp.sum(b, axis=0) / count
        b = xp.where(valid[:, None], b, xp.zeros_like(b))
        std = xp.sqrt(xp.sum(b * b, axis=0) / count)
        alive = std > tiny  # a constant component differs from its mean by rounding errors only
        b = xp.where(alive, b / xp.where(alive, std, xp.ones_like(std)), xp.zeros_like(b))
    return xp, xp.where(valid[:, None], b, xp.zeros_like(b)), valid, count


def _ranks(xp: Any, values: Any, ones: Any, count: Any) -> Any:
    """Return ranks [N] from -0.5 to 0.5 among the valid values; equal values get the mean of their ranks."""

    def places(rows: Any) -> Any:
        lower = xp.astype(values[None, :] < rows[:, None], ones.dtype)
        equal = xp.astype(values[None, :] == rows[:, None], ones.dtype)
        return xp.sum((lower + 0.5 * equal) * ones, axis=1) - 0.5

    others = count - 1
    return _in_blocks(xp, values, places) / xp.where(others < 1, xp.ones_like(others), others) - 0.5


def _scott(xp: Any, b: Any, valid: Any, count: Any) -> Any:
    """Return the width of the kernel by Scott's rule for normalised behaviours [N, B]; see `density.scott`."""
    ordered = xp.sort(xp.where(valid[:, None], b, xp.max(b, axis=0)), axis=0)  # the first ones are the valid ones

    def quantile(share: float) -> Any:
        place = share * (count - 1)
        low = xp.floor(place)
        near = xp.take(ordered, xp.astype(xp.stack([low, xp.ceil(place)]), xp.int32), axis=0)
        return near[0, :] + (place - low) * (near[1, :] - near[0, :])

    std, extent = xp.sqrt(xp.sum(b * b, axis=0) / count), (quantile(0.75) - quantile(0.25)) / NORMAL_IQR
    varies = std > _tolerance(xp, b.dtype)  # XLA rounds the ranks of a constant component
    narrow = xp.where((extent > 0) & (extent < std), extent, std)
    narrow = xp.min(xp.where(varies, narrow, xp.ones_like(narrow)))
    d = xp.sum(xp.astype(varies, b.dtype))
    return xp.clip(narrow * count ** (-1.0 / (d + 4)), NARROWEST, 1.0)


def _squares(rows: Any, columns: Any) -> Any:
    """Return the squared distances [R, N] of some rows [R, B] from all [N, B]."""
    # Component by component: sums of products would lose the digits of close pairs.
    return sum((rows[:, j, None] - columns[None, :, j]) ** 2 for j in range(rows.shape[1]))


def _in_blocks(xp: Any, x: Any, compute: Callable[[Any], Any]) -> Any:
    """Return the numbers [N] that `compute` gives for blocks of the rows of x."""
    size = max(FEWEST, BLOCK // x.shape[0])
    if xp.__name__ == "jax.numpy":  # jit would unroll a loop, and hold all its blocks in memory at once
        from jax import lax

        return lax.map(lambda row: compute(row[None])[0], x, batch_size=size)
    starts = range(0, x.shape[0], size)
    return xp.concat([compute(x[start : min(start + size, x.shape[0]), ...]) for start in starts])


def _centred(xp: Any, weights: Any, valid: Any, count: Any) -> Any:
    """Return weights with mean 0 over the valid rows, and 0 elsewhere; all 0 if they differ by rounding only."""
    none = xp.zeros_like(weights)
    weights = xp.where(valid, weights, none)
    mean = xp.sum(weights) / count
    centred = xp.where(valid, weights - mean, none)
    spread = xp.max(centred) - xp.min(centred)
    return xp.where(spread > _tolerance(xp, weights.dtype) * xp.max(xp.abs(weights)), centred, none)


def _tolerance(xp: Any, dtype: Any) -> float:
    """Return the relative difference below which two numbers may differ by rounding only."""
    return max(1e-12, 16 * float(xp.finfo(dtype).eps))
