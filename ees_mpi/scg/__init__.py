"""Nested stochastic computation graphs on torch: write an expectation, get its gradient.

Gajewski et al. 2019, supplement S2 and S3. Each expectation is estimated by a sample mean weighted with likelihood
ratios, which are 1 where they are evaluated and whose derivative is the score:

    E_z[f]  ~  (1/N) sum_i r_i f(z_i),    r_i = p(z_i; xi) / p(z_i; xi'),    xi' = xi held fixed

so the value is the method-of-moments estimate, and autograd gives the score-function gradient, at any depth.

    z = scg.Stochastic("z", samples, log_density)         # samples [N, ...], log_density [N], differentiable
    mean = scg.expect(other := z.twin("z'"), over=other)  # an independent copy of z, on the same samples
    variance = scg.expect((z - mean) ** 2, over=z)
    scg.estimate(variance).backward()
    print(variance, scg.dot(variance))

Functions are written for one sample: torch.exp(z), z * 2, or apply(function, z, theta). Parameters that need a gradient
are passed to them as arguments, so that the graph knows all that it depends on.
"""

from ees_mpi.errors import GraphError, MissingExtra

try:
    import torch  # noqa: F401
except ImportError:
    raise MissingExtra("ees_mpi.scg needs torch: pip install 'ees_mpi[torch]'") from None

from ees_mpi.scg.drawing import dot
from ees_mpi.scg.evaluation import estimate
from ees_mpi.scg.nodes import Deterministic, Expectation, Input, Node, Stochastic, apply, expect
from ees_mpi.scg.ratios import likelihood_ratio, ratio_mean

__all__ = [
    "Deterministic",
    "Expectation",
    "GraphError",
    "Input",
    "Node",
    "Stochastic",
    "apply",
    "dot",
    "estimate",
    "expect",
    "likelihood_ratio",
    "ratio_mean",
]
