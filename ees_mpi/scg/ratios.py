"""The expectation operator: a sample mean weighted by likelihood ratios.

Gajewski et al. 2019, supplement S3.

    L(xi) = (1/N) sum_i f_i exp(log p(z_i; xi) - log p(z_i; xi'))

As a function of xi, L is the importance-sampling estimate of E[f]. So its derivatives of every order at xi = xi'
estimate the derivatives of E[f].
"""

import torch
from torch import Tensor


def likelihood_ratio(log_density: Tensor, reference: Tensor | None = None) -> Tensor:
    """Return p / p' of the samples; `reference`: log p', held fixed; None: log p itself, so that all ratios are 1."""
    fixed = log_density if reference is None else reference
    return torch.exp(log_density - fixed.detach())


def ratio_mean(values: Tensor, log_density: Tensor, reference: Tensor | None = None, dim: int = 0) -> Tensor:
    """Return the mean of values over `dim`, weighted with the ratios; both are broadcast."""
    return (values * likelihood_ratio(log_density, reference)).mean(dim)
