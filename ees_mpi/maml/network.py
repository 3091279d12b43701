"""The policy in torch: a Gaussian around a tanh network, as functions of one flat vector theta.

theta is the flat vector of the network, in the layout of `policies.MLP`, followed by the log standard deviations.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from ees_mpi.errors import MissingExtra

try:
    import torch
    from torch import Tensor
except ImportError:
    raise MissingExtra("method = \"maml\" needs torch: pip install 'ees_mpi[torch]'") from None

__all__ = ["Tensor", "divergence", "log_likelihood", "log_std", "mean_action", "torch"]

torch.set_num_threads(1)  # a sum over several threads has other bits


def mean_action(sizes: Sequence[int], theta: Tensor, observations: Tensor) -> Tensor:
    """Return the output [M, A] of the network for observations [M, O]."""
    output, start = observations, 0
    layers = list(pairwise(sizes))
    for number, (fan_in, fan_out) in enumerate(layers, start=1):
        weights = theta[start : start + fan_in * fan_out].view(fan_in, fan_out)
        start += fan_in * fan_out
        output = torch.addmm(theta[start : start + fan_out], output, weights)
        start += fan_out
        if number < len(layers):
            output = torch.tanh(output)
    return output


def log_std(sizes: Sequence[int], theta: Tensor) -> Tensor:
    """Return the log standard deviations [..., A] of theta [..., D]."""
    return theta[..., -sizes[-1] :]


def log_likelihood(mean: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
    """Return log pi(a|s) [M] of actions [M, A]."""
    z = (actions - mean) * torch.exp(-log_std)
    return -0.5 * z.square().sum(1) - log_std.sum() - 0.5 * len(log_std) * math.log(2 * math.pi)


def divergence(old_mean: Tensor, old_log_std: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return KL(old || new) [M] of Gaussians with means [M, A] and log standard deviations [A]."""
    shift = (old_mean - mean).square() + torch.exp(2 * old_log_std)
    return (log_std - old_log_std + 0.5 * shift * torch.exp(-2 * log_std) - 0.5).sum(1)
