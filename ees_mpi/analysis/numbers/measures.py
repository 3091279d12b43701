"""What can be measured of the offspring of one generation, or of a sample, after the fact.

`ees_mpi.metrics` has the few that are logged while training; names that both know mean the same.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ees_mpi import summary as logged
from ees_mpi.analysis.offspring import Cloud
from ees_mpi.density import density, kernel_sums
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Floats
from ees_mpi.ranks import Ranks

SECTORS = 12  # of the direction histogram
WIDE, NARROW = 0.9, 0.5  # shares from which on a kernel is called saturated
RULES: dict[str, Callable[[int, int], float]] = {  # for n whitened behaviours of B numbers
    "scott": lambda n, b: n ** (-1 / (b + 4)),
    "silverman": lambda n, b: (n * (b + 2) / 4) ** (-1 / (b + 4)),
}


@dataclass(frozen=True)
class Settings:
    """What measures can be told; lengths are in the task's units."""

    radius: float = 5.0  # the paper's: who ends nearer to the origin went nowhere, so in no direction
    cell: float = 1.0  # side of the cells that tell behaviours apart
    bandwidth: float | str = 1.0  # of the entropy's kernel, on whitened behaviours; or the name of a rule

    def kernel(self, cloud: Cloud) -> float:
        """Return the bandwidth for a cloud."""
        if isinstance(self.bandwidth, str):
            return RULES[self.bandwidth](*cloud.outcomes.whitened.shape)
        return self.bandwidth


def bandwidth(text: str) -> float | str:
    """Read a bandwidth from the command line: a number, or the name of a rule."""
    try:
        value = float(text)
    except ValueError:
        if text in RULES:
            return text
        raise ConfigError(f"--bandwidth {text}: expected a number, {' or '.join(RULES)}") from None
    if not 0 < value < math.inf:
        raise ConfigError(f"--bandwidth {text}: expected a number above 0")
    return value


def bandwidths(text: str | None) -> list[float | str]:
    """Read several, with commas between them."""
    return [bandwidth(each.strip()) for each in text.split(",")] if text else []


class Measure(NamedTuple):
    """One number of a cloud; `needs`: what a cloud must be for it to have a meaning, if anything."""

    of: Callable[[Cloud, Settings], float]
    about: str
    needs: str = ""
    fits: Callable[[Cloud], bool] = lambda cloud: True


def entropy(cloud: Cloud, settings: Settings) -> float:
    """Estimate the differential entropy of the behaviour, nats; -inf where a component does not vary."""
    return logged.entropy(cloud.outcomes, settings.kernel(cloud), Ranks())


def saturation(cloud: Cloud, settings: Settings) -> str:
    """Say why the entropy tells more of its kernel than of the behaviours; empty where it does not.

    An individual's kernel density is the mean of n kernel values, its own (1) among them.
    """
    p = density(cloud.outcomes, settings.kernel(cloud), Ranks())
    if len(p) < 2 or p.mean() > WIDE:
        return f"the kernel is saturated: at bandwidth {settings.kernel(cloud):.3g} everybody is everybody's neighbour"
    if (1 / (len(p) * p)).mean() > NARROW:
        return (
            f"the kernel is saturated: at bandwidth {settings.kernel(cloud):.3g} an individual sees little but itself, "
            f"and the estimate little but the number of individuals, {len(p)}"
        )
    return ""


def covariance_trace(cloud: Cloud, settings: Settings) -> float:
    """Return what MaxVar maximises: the trace of the behaviour's covariance."""
    return float(cloud.outcomes.behavior[cloud.outcomes.valid].var(axis=0).sum())


def near_origin(cloud: Cloud, settings: Settings) -> float:
    """Return the share that ended less than the radius from the origin."""
    return float((cloud.distance < settings.radius).mean())


def coverage(cloud: Cloud, settings: Settings) -> float:
    """Count distinct behaviours: the occupied cells of a grid (Mengistu et al. 2016, evolvability search)."""
    return float(len(np.unique(np.floor(cloud.place / settings.cell), axis=0)))


def moved(cloud: Cloud, settings: Settings) -> NDArray[np.bool_]:
    """Tell [n] who went anywhere: not those who fell over beside the start, and so "in all directions"."""
    return np.asarray(cloud.distance >= settings.radius)


def sides(cloud: Cloud, settings: Settings) -> tuple[float, float]:
    """Return the shares that went left and right; those within the radius count as neither."""
    x, far = cloud.place[:, 0], moved(cloud, settings)
    return float((far & (x < 0)).mean()), float((far & (x > 0)).mean())


def balance(cloud: Cloud, settings: Settings) -> float:
    """Compare left and right: 1 where as many went to either side, 0 where all to one; NaN where nobody went."""
    left, right = sides(cloud, settings)
    return 2 * min(left, right) / (left + right) if left + right else math.nan


def directions(cloud: Cloud, settings: Settings) -> Floats:
    """Return the share of those who moved in each sector; the first is centred on +x, the next go towards +y."""
    x, y = cloud.place[moved(cloud, settings)].T
    sector = np.floor(np.arctan2(y, x) / (2 * math.pi / SECTORS) + 0.5).astype(int) % SECTORS
    counts = np.bincount(sector, minlength=SECTORS)
    return np.asarray(counts / max(counts.sum(), 1))


def direction_uniformity(cloud: Cloud, settings: Settings) -> float:
    """Return the entropy of the direction histogram over its largest: 1 a ring, 0 one direction, NaN nobody moved."""
    share = directions(cloud, settings)
    share = share[share > 0]
    return float(-(share * np.log(share)).sum() / math.log(SECTORS)) + 0.0 if len(share) else math.nan


def specialization(cloud: Cloud, settings: Settings) -> float:
    """Measure how much the behaviour tells which component an individual comes from: 0 nothing, 1 all.

    Goodman and Kruskal's tau, with each individual's component guessed from a kernel density of the others (rule of
    Silverman): by how much the guess is better than one that does not see the behaviour.
    """
    x, n = cloud.outcomes.whitened, len(cloud.parent)
    width = RULES["silverman"](*x.shape)
    everybody = kernel_sums(x, width, Ranks()) - 1
    right, chance = np.zeros(n), 0.0
    for component in range(cloud.components):
        member = cloud.parent == component
        own = kernel_sums(x, width, Ranks(), weights=member.astype(np.float64)) - 1
        others = (member.sum() - 1) / (n - 1)  # the guess where no other is near
        near = np.where(everybody > 1e-3, own / np.maximum(everybody, 1e-3), others)
        right[member] = near[member]
        chance += member.mean() * others
    return float((right.mean() - chance) / (1 - chance)) if chance < 1 else 0.0


def component_variance_share(cloud: Cloud, settings: Settings) -> float:
    """Return the share of the behaviour's variance that lies between the components' mean behaviours."""
    total = cloud.place.var(axis=0).sum()
    between = np.zeros(cloud.place.shape[1])
    for component in np.unique(cloud.parent):
        member = cloud.parent == component
        between += member.mean() * np.square(cloud.place[member].mean(axis=0) - cloud.place.mean(axis=0))
    return float(between.sum() / total) if total > 0 else 0.0


def _one(cloud: Cloud) -> bool:
    return bool(cloud.place.shape[1] == 1)


def _two(cloud: Cloud) -> bool:
    return bool(cloud.place.shape[1] == 2)


def _mixed(cloud: Cloud) -> bool:
    return cloud.components > 1 and len(cloud.parent) > 1


DIRECTED = ("balance", "direction-uniformity")  # of those only that are not within the radius
LINE, PLANE, MIXTURE = "a behavior of one number", "a behavior of two numbers", "a mixture of means"

MEASURES = {
    "distance-mean": Measure(lambda c, s: float(c.distance.mean()), "mean distance from the origin"),
    "distance-median": Measure(lambda c, s: float(np.median(c.distance)), "median distance from the origin"),
    "distance-max": Measure(lambda c, s: float(c.distance.max()), "largest distance from the origin"),
    "distance-variance": Measure(lambda c, s: float(c.distance.var()), "variance of the distance from the origin"),
    "near-origin": Measure(near_origin, "share that ended within the radius of the origin"),
    "covariance-trace": Measure(covariance_trace, "trace of the behavior's covariance"),
    "entropy": Measure(entropy, "differential entropy of the behavior, nats"),
    "coverage": Measure(coverage, "distinct behaviors: occupied cells of a grid"),
    "balance": Measure(balance, "left and right: 1 as many to either side, 0 all to one", LINE, _one),
    "direction-uniformity": Measure(direction_uniformity, "directions: 1 a ring, 0 all in one", PLANE, _two),
    "specialization": Measure(specialization, "how much the behavior tells the component: 0 to 1", MIXTURE, _mixed),
    "component-variance-share": Measure(
        component_variance_share, "share of the behavior's variance between components", MIXTURE, _mixed
    ),
    "fitness-mean": Measure(lambda c, s: float(np.nanmean(c.outcomes.fitness)), "mean fitness"),
}
