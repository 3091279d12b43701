"""The metrics: numbers that describe the individuals of a generation. Each of them is one entry of METRICS.

Training logs some of them in every generation (`logged`); the others are computed when a file is read (`measured`).
Whatever shows a metric asks this module: progress lines, `info`, `metrics`, `compare`, `measure`, figures, the report,
TensorBoard, CSV, the list of arrays of a run file, `verify`. So a new metric is one entry. Files from before it do not
have it; it is then computed from their outcomes.

The *behaviour* of an individual is all the B numbers that its objective sees. Its *place* is where it ends: the last
numbers of the behaviour if the task says how many, else all of them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ees_mpi import spread
from ees_mpi.arrays import Bandwidth, Floats
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.spread import Scale
from ees_mpi.strategy import density

BEST = 40  # mutations, as in the paper's few-shot adaptation
# What tables, and records as flat numbers, have beside metrics.
TAKEN = ("file", "label", "generation", "std", "individuals", "invalid", "errors", "lengths", "warning")

# What a metric may need; an error says it in these words.
MUTATIONS = "mutations; the rows of a MAML run are tasks"
TASKS = "a run of MAML"
PLACE = "a behaviour that is a place (task.axes)"
LINE = "a place on a line"
PLANE = "a place in the plane"
SEVERAL = "a place of two or more numbers"
MIXTURE = "a mixture of means"
STARTS = "several starts of each individual (task.rollouts)"
CROSSED = "the same starts for all: ees-mpi measure --starts K"


@dataclass(frozen=True)
class Settings:
    """What metrics must know of a run beside its outcomes; an attribute of the run file has it as JSON."""

    behavior_dim: int
    places: int = 0  # how many of the last numbers of a behaviour are a place; 0: none of them
    starts: int = 1  # of each individual
    common_starts: bool = False  # whether all individuals have the same ones
    components: int = 1  # means of the population
    tasks: bool = False  # whether the rows are tasks of MAML
    bandwidth: Bandwidth = 1.0  # of the kernel of `entropy`, on whitened behaviours
    own: tuple[str, ...] = ()  # the functions of the user's objectives
    climbs: str = ""  # the metric that the objective climbs; empty: the value of the first of the user's
    lengths: tuple[float, float] | None = None  # cell and radius that the task prescribes; None: they fit the data

    @property
    def axes(self) -> int:
        """The length of a place."""
        return self.places or self.behavior_dim

    @cached_property
    def fitting(self) -> dict[str, "Metric"]:
        return {name: metric for name, metric in METRICS.items() if not metric.lacks(self)}

    @cached_property
    def own_names(self) -> list[str]:
        """The user's objectives as names of metrics: a second f, or one that is taken, is f_2."""
        names = [*METRICS, *TAKEN]
        for label in self.own:
            name, count = label, 1
            while name in names:
                count += 1
                name = f"{label}_{count}"
            names.append(name)
        return names[len(METRICS) + len(TAKEN) :]

    @cached_property
    def headline(self) -> str:
        """The metric of progress lines: what the objective climbs if the run logs it, else the variance."""
        if self.own and not self.climbs:
            return self.own_names[0]
        return self.climbs if self.climbs in in_file(self) else "variance"

    def meets(self, need: str) -> bool:
        """Return whether a run has what a metric needs."""
        answers = {
            MUTATIONS: not self.tasks,
            TASKS: self.tasks,
            PLACE: self.places > 0,
            LINE: self.places == 1,
            PLANE: self.places == 2,
            SEVERAL: self.axes > 1,
            MIXTURE: self.components > 1,
            STARTS: self.starts > 1,
            CROSSED: self.starts > 1 and self.common_starts,
        }
        return answers[need]


UNKNOWN = Scale(np.full(1, np.nan), math.nan)


@dataclass(frozen=True)
class Sample:
    """The n valid individuals of a generation. What several metrics need is computed once."""

    outcomes: Outcomes  # of all N, including the invalid ones
    settings: Settings
    ranks: Ranks
    parent: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))  # [n]; only files have it
    scale: Scale = UNKNOWN  # only for files: it follows from the data of all runs that are compared

    @cached_property
    def behavior(self) -> Floats:  # [n, B]
        return self.outcomes.behavior[self.outcomes.valid]

    @cached_property
    def place(self) -> Floats:  # [n, A]
        return self.behavior[:, -self.settings.axes :]

    @cached_property
    def distance(self) -> Floats:  # [n], from the origin
        return np.asarray(np.sqrt(np.square(self.place).sum(axis=1)))

    @cached_property
    def far(self) -> NDArray[np.bool_]:  # [n], beyond the radius: a robot that falls at the start has no direction
        return np.asarray(self.distance >= self.scale.radius)

    @cached_property
    def neighbours(self) -> Floats:  # [n], the mean of the kernel values of all for each one, one cell wide
        return spread.neighbours(self.place, self.scale.cell, self.ranks)

    @cached_property
    def fitness(self) -> Floats:  # [n]
        return self.outcomes.fitness[self.outcomes.valid]

    @cached_property
    def by_start(self) -> Floats:  # [n, K, A], the place from each start
        if self.outcomes.by_start is None:
            return self.place[:, None]
        return self.outcomes.by_start[self.outcomes.valid][..., -self.settings.axes :]

    @property
    def rollouts(self) -> Floats:  # [n K, A], the places of single rollouts; `place` has the means over K starts
        return self.by_start.reshape(-1, self.settings.axes)

    @property
    def left(self) -> float:
        return float((self.far & (self.place[:, 0] < 0)).mean())

    @property
    def right(self) -> float:
        return float((self.far & (self.place[:, 0] > 0)).mean())

    def at(self, index: NDArray[np.int64]) -> "Sample":
        outcomes = self.outcomes.at(np.flatnonzero(self.outcomes.valid)[index])
        return replace(self, outcomes=outcomes, parent=self.parent[index])


class Metric(NamedTuple):
    """One entry of the table."""

    about: str  # in lists, and on the axes of figures
    needs: tuple[str, ...] = ()
    compute: Callable[[Sample], Any] | None = None  # None: the evaluator or `tell` adds it to the record
    logged: bool = False  # by training, in every generation
    tables: str = ""  # the short tables in which it stands: "info report curves measure"
    length: str = ""  # of the scale, which it uses: "cell" or "radius"

    def lacks(self, settings: Settings) -> str:
        """Return what a run lacks for this metric; empty: nothing."""
        return next((need for need in self.needs if not settings.meets(need)), "")


# fmt: off
METRICS = {
    # Training logs these. The entropy shares its kernel sums with MaxEnt.
    "entropy": Metric("entropy of the behaviour with the objective's kernel, nats", (MUTATIONS,),
        lambda of: density.entropy(of.outcomes, of.settings.bandwidth, of.ranks),
        logged=True, tables="info report curves"),
    "variance": Metric("variance of the behaviour, sum over its numbers", (MUTATIONS,),
        lambda of: of.behavior.var(axis=0).sum(), logged=True, tables="info measure"),
    "distance_mean": Metric("mean distance from the origin", (PLACE,),
        lambda of: of.distance.mean(), logged=True, tables="info report curves measure"),
    "distance_max": Metric("largest distance from the origin", (PLACE,), lambda of: of.distance.max(),
        logged=True, tables="report"),
    "fitness_mean": Metric("mean fitness", (), lambda of: of.fitness.mean(), logged=True, tables="info report curves"),
    "fitness_max": Metric("largest fitness", (), lambda of: of.fitness.max(), logged=True),
    "invalid_share": Metric("share of invalid rollouts", (), lambda of: 1.0 - of.outcomes.valid.mean(), logged=True),
    "fitness_of_mean": Metric("fitness of the unperturbed mean; NaN: not evaluated", logged=True),
    "gradient_norm": Metric("Euclidean norm of the gradient, before L2", logged=True),
    "fitness_gain": Metric("what the step towards its task adds to the mean fitness", (TASKS,), logged=True),
    "divergence": Metric("mean KL between the policies before and after the step, nats", (TASKS,), logged=True),
    "surrogate_gain": Metric("what the step gained in the surrogate objective", (TASKS,), logged=True),
    "shortened": Metric("how often the step was shortened; -1: no step was taken", (TASKS,), logged=True),
    # These are computed from files: a look at the mutations that is the same whatever the objective was.
    "entropy_fixed": Metric("entropy of the place with a kernel of one cell, nats", (MUTATIONS,),
        lambda of: spread.entropy(of.neighbours, of.scale.cell), tables="curves measure", length="cell"),
    "coverage": Metric("distinct places: occupied cells of a grid", (MUTATIONS,),
        lambda of: spread.coverage(of.place, of.scale.cell), tables="curves measure", length="cell"),
    "best_of_40": Metric("how far the best of 40 goes in a direction, mean over directions", (MUTATIONS,),
        lambda of: spread.best_of(of.place, of.place, BEST), tables="measure"),
    "distance_variance": Metric("variance of the distance from the origin", (MUTATIONS, PLACE),
        lambda of: of.distance.var()),
    "near_origin": Metric("share that ends near the origin", (MUTATIONS, PLACE),
        lambda of: (~of.far).mean(), length="radius"),
    "left_share": Metric("share that goes left", (MUTATIONS, LINE), lambda of: of.left, length="radius"),
    "right_share": Metric("share that goes right", (MUTATIONS, LINE), lambda of: of.right, length="radius"),
    "balance": Metric("balance of left and right: 1 equal shares, 0 all to one side", (MUTATIONS, LINE),
        lambda of: spread.balance(of.left, of.right), length="radius"),
    "direction_uniformity": Metric("evenness of directions: 1 all equally often, 0 only one", (MUTATIONS, PLANE),
        lambda of: spread.evenness(spread.directions(of.place[of.far])), length="radius"),
    "correlation": Metric("correlation of the numbers of a place: 0 for a ring", (MUTATIONS, SEVERAL),
        lambda of: spread.correlation(of.place)),
    "specialization": Metric("how well the behaviour predicts the component: 0 to 1", (MUTATIONS, MIXTURE),
        lambda of: spread.predictability(of.outcomes.whitened, of.parent, of.settings.components, of.ranks)),
    "distance_single": Metric("mean distance of single rollouts from the origin", (MUTATIONS, PLACE, STARTS),
        lambda of: spread.distance(of.by_start)),
    "heritable": Metric("variance that belongs to the mutation, not to the start", (MUTATIONS, CROSSED),
        lambda of: spread.variances(of.by_start)[0]),
    "heritable_share": Metric("heritable over all variance: ICC(A,1)", (MUTATIONS, CROSSED),
        lambda of: spread.share(*spread.variances(of.by_start))),
    "best_elsewhere": Metric("how far the best of 40 goes from starts that did not choose it", (MUTATIONS, CROSSED),
        lambda of: spread.best_elsewhere(of.by_start, BEST)),
}
# fmt: on


def logged(outcomes: Outcomes, settings: Settings, ranks: Ranks) -> dict[str, Floats]:
    """Return the metrics that training computes from the outcomes of a generation; called on all ranks together."""
    sample, values = Sample(outcomes, settings, ranks), {}
    for name, metric in settings.fitting.items():
        if metric.logged and metric.compute:
            values[name] = np.array(metric.compute(sample), np.float64)
    return values


def in_file(settings: Settings) -> dict[str, str]:
    """Return what each logged metric is: the arrays of a run file that are one number for each generation."""
    return {name: metric.about for name, metric in settings.fitting.items() if metric.logged}


def in_table(table: str, settings: Settings | None = None) -> list[str]:
    """Return the metrics that a short table shows, of a run or of any."""
    known = settings.fitting if settings else METRICS
    return [name for name, metric in known.items() if table in metric.tables.split()]


def title(name: str, scale: Scale | None = None) -> str:
    """Return what a metric is, for a list or the axis of a figure, with the length that it uses."""
    metric = METRICS.get(name, Metric(f"the objective {name}"))
    return f"{metric.about} ({scale.words(metric.length)})" if scale and metric.length else metric.about


def measured(sample: Sample, known: Mapping[str, float]) -> dict[str, float]:
    """Return all metrics of a generation; those that are `known`, because the file has them, are not computed."""
    values = dict(known)
    for name, metric in sample.settings.fitting.items():
        if name not in values and metric.compute:
            values[name] = float(metric.compute(sample))
    return values
