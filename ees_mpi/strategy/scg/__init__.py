"""Nested stochastic computation graphs on torch: write an expectation, and autograd computes its gradient.

Gajewski et al. 2019, supplement S2 and S3. The estimate of an expectation is a sample mean that is weighted with
likelihood ratios. The value of a ratio is 1, and its derivative is the score:

    E_z[f]  ~  (1/N) sum_i r_i f(z_i),    r_i = p(z_i; xi) / p(z_i; xi'),    xi' = xi held fixed

So the value is the method-of-moments estimate, and autograd computes the score-function gradient, at any depth.

    z = scg.Stochastic("z", samples, log_density)         # samples [N, ...], log_density [N], differentiable
    mean = scg.expect(other := z.twin("z'"), over=other)  # an independent copy of z, on the same samples
    variance = scg.expect((z - mean) ** 2, over=z)
    scg.estimate(variance).backward()
    print(variance, scg.dot(variance))

Write functions for one sample: torch.exp(z), z * 2, or apply(function, z, theta). An array of numpy is a constant; the
functions of numpy refuse nodes. Pass parameters that need a gradient as arguments, so that they are part of the graph.
"""

from ees_mpi.errors import GraphError, MissingExtra

try:
    import torch  # noqa: F401
except ImportError:
    raise MissingExtra("ees_mpi.strategy.scg needs torch: pip install 'ees_mpi[torch]'") from None

from ees_mpi.strategy.scg.evaluation import estimate
from ees_mpi.strategy.scg.nodes import Deterministic, Expectation, Input, Node, Stochastic, apply, dot, expect

__all__ = ["Deterministic", "Expectation", "GraphError", "Input", "Node", "Stochastic"]
__all__ += ["apply", "dot", "estimate", "expect"]
