"""An objective that a user writes: a torch function of behaviours, fitness and likelihood ratios; or one in numpy.

Gajewski et al. 2019, supplement S3 and S4; `ees_mpi.strategy.scg.surrogates` has the paper's objectives in this form.

    J = function(behaviors, fitness, ratios, **settings)        w_i = dJ / dr_i  at  r = 1

`WeightsPlugin` needs no torch. Its function returns one number for each individual:

    f = function(behaviors, fitness, **settings)        J = sum_i r_i f_i / N,    w_i = f_i / N

behaviors: [N, B], whitened per component; fitness: [N]; ratios: [N]; all float64, of the N valid rollouts.

Rank 0 computes the weights and sends them to the other ranks. So all ranks have the same bits, and only rank 0 loads
torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.errors import PluginError, before_rollouts, located, optional
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key
from ees_mpi.registry.plugins import calling, function
from ees_mpi.strategy.objectives.base import Memory, Objective

KEY = "objective.function"
TRIED = 32  # individuals with random outcomes


class CustomObjective(Objective, frozen=True):
    """Computes the weights as the gradient of a torch function that a user writes."""

    function: Annotated[str, key("The function, as package.module:function.")]
    settings: Annotated[dict[str, Any], key("Further arguments of the function, by name.")] = msgspec.field(
        default_factory=dict
    )

    uses_torch = True
    climbs = ""

    @property
    def label(self) -> str:
        return self.function.partition(":")[2]

    def __post_init__(self) -> None:
        module, _, name = self.function.partition(":")
        if not module or not name.isidentifier():
            raise ValueError(f'objective.function: expected "package.module:function", got {self.function!r}')

    @before_rollouts()
    def try_out(self, size: int, behavior_dim: int) -> None:
        """Call the function twice on random outcomes, so that a faulty function is found before any rollout."""
        generator, count = np.random.default_rng(0), min(size, TRIED)
        behaviors, fitness = generator.normal(size=(count, behavior_dim)), generator.normal(size=count)
        with located(f"a dry run with {count} random outcomes"):
            first, second = (self._evaluate(behaviors, fitness)[1] for _ in range(2))
            if not np.array_equal(first, second):
                raise PluginError(f"{KEY} {self.function}: a second call gave other weights; it must not be random")

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        return outcomes.centred(self._evaluated(outcomes, ranks)[1:])

    def value(self, outcomes: Outcomes, ranks: Ranks) -> float:
        """Return J: the value of the function at ratios of 1; on several ranks only after `weights`."""
        return float(self._evaluated(outcomes, ranks)[0])

    def _evaluated(self, outcomes: Outcomes, ranks: Ranks) -> Floats:
        """Return J and dJ / dr [1 + size] on every rank; rank 0 computes them once."""

        def compute() -> Floats:
            bits = b""
            with ranks.together():
                if ranks.is_root:
                    value, weights = self._evaluate(outcomes.whitened, outcomes.fitness[outcomes.valid])
                    bits = np.array([value, *weights]).tobytes()
            return np.frombuffer(ranks.broadcast(bits))

        return outcomes.once((type(self).__name__, self.function, repr(self.settings)), compute)

    def _evaluate(self, behaviors: Floats, fitness: Floats) -> tuple[float, Floats]:
        """Return J and dJ / dr [N] at ratios of 1."""
        torch = _torch()
        objective = function(self.function, KEY)
        ratios = torch.ones(len(fitness), dtype=torch.float64, requires_grad=True)
        code = f"{KEY} {self.function}"
        with _reproducible(), calling(code, f"{self.label}()"):
            value = objective(torch.tensor(behaviors), torch.tensor(fitness), ratios, **self.settings)
            if not isinstance(value, torch.Tensor) or value.dim():
                is_tensor = isinstance(value, torch.Tensor)
                got = f"a tensor of shape {list(value.shape)}" if is_tensor else type(value).__name__
                raise PluginError(f"{code}: expected a torch scalar, got {got}; .sum() or .mean() makes a scalar")
            if not value.isfinite():
                raise PluginError(f"{code}: expected a finite value, got {value.item()}")
            gradient = None
            if value.requires_grad:
                (gradient,) = torch.autograd.grad(value, ratios, allow_unused=True)
        if gradient is None:
            raise PluginError(
                f"{code}: its value does not depend on the ratios; multiply by them before averaging: "
                "(ratios * f).mean()"
            )
        weights: Floats = gradient.numpy()
        if wrong := int((~np.isfinite(weights)).sum()):
            raise PluginError(f"{code}: its gradient is not finite for {wrong} of {len(weights)} individuals")
        return value.item(), weights


class WeightsPlugin(CustomObjective, frozen=True):
    """Weights each individual by the number that a numpy function of a user returns for it."""

    uses_torch = False

    def _evaluate(self, behaviors: Floats, fitness: Floats) -> tuple[float, Floats]:
        """Return J and the weights [N]."""
        weigh, code = function(self.function, KEY), f"{KEY} {self.function}"
        with calling(code, f"{self.label}()"):
            given = np.asarray(weigh(behaviors.copy(), fitness.copy(), **self.settings))
        if given.shape != fitness.shape or given.dtype.kind not in "biuf":
            expected = f"expected {len(fitness)} numbers, one for each individual"
            raise PluginError(f"{code}: {expected}; got an array of shape {given.shape}, of {given.dtype}")
        weights = given.astype(np.float64) / len(given)
        if wrong := int((~np.isfinite(weights)).sum()):
            raise PluginError(f"{code}: its weights are not finite for {wrong} of {len(weights)} individuals")
        return float(weights.sum()), weights


def _torch() -> Any:
    other = 'objective.name = "weights" takes a numpy function and needs none (`ees-mpi docs plugins`)'
    return optional("torch", f"objective.name = \"custom\" needs torch: pip install 'ees_mpi[torch]'; {other}")


@contextmanager
def _reproducible() -> Iterator[None]:
    """Compute with one thread and with a fixed random seed, in case the function draws random numbers."""
    torch = _torch()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            yield
    finally:
        torch.set_num_threads(threads)
