"""The parts of a run that its config asks for: the method, its evaluator, the first state; work that trains nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.config import Config, Evolution, rank_bytes
from ees_mpi.errors import RunFileError, before_rollouts
from ees_mpi.generation import Draw, Outcomes, State, Work
from ees_mpi.noise import Noise, NoiseTable, shared_table, stream
from ees_mpi.ranks import Ranks
from ees_mpi.registry.search import also
from ees_mpi.run.arrays import BY_START
from ees_mpi.run.evaluators import CpuEvaluator, Evaluator
from ees_mpi.run.loop import Method
from ees_mpi.strategy import evolution

if TYPE_CHECKING:
    from ees_mpi.run.file import Run


def config_of_all(ranks: Ranks, read: Callable[[], Config] | None) -> Config:
    """Return on every rank the config that rank 0 reads; from now on its folders and its time limit hold."""
    config = ranks.from_root(read)
    also(config.folders)
    ranks.set_stall_limit(60 * config.run.stall_minutes)
    return config


def open_parts(config: Config, ranks: Ranks) -> tuple[Method, Evaluator]:
    """Open the method of a config and its evaluator; called on all ranks together."""
    if config.method.name == "maml":
        from ees_mpi.maml.method import Maml  # imports torch

        return Maml(config), open_evaluator(config, Noise(config.noise_seed, config.noise.size), ranks)
    noise = noise_table(config, ranks)
    return evolution_of(config, noise), open_evaluator(config, noise, ranks)


def open_evaluator(config: Config, noise: Noise, ranks: Ranks, device: str | None = None) -> Evaluator:
    """Open the evaluator of a config on the device that all ranks agree on; `device`: in place of the config's."""
    if config.method.name == "maml" and not config.population.has_individuals:  # a sample of its mutations has some
        from ees_mpi.maml.evaluators import open_maml  # imports torch

        return open_maml(config, ranks, device)
    device = device or config.task.device or "cpu"
    if device != "cpu":
        from ees_mpi.ranks import gpus
        from ees_mpi.run import on_gpus

        device, drivers = on_gpus.choose_device(config, ranks, device)
        described = gpus.describe(ranks, drivers)
    with ranks.together(), before_rollouts():
        if device == "cpu":
            return CpuEvaluator(config, noise, ranks)
        return on_gpus.GpuEvaluator(config, noise, ranks, drivers, described)


def noise_table(config: Config, ranks: Ranks, shared: bool = False) -> NoiseTable:
    """Return the noise table of a config; `shared`: one table for all loops of this program."""
    table = shared_table if shared else NoiseTable
    return table(config.noise_seed, config.noise.size, ranks, sum(rank_bytes(config).values()))


def evolution_of(config: Config, noise: Noise) -> evolution.Evolution:
    """Return the evolution strategy of a config."""
    method, task = config.method, config.task
    if not isinstance(method, Evolution):
        raise TypeError(f"expected a config of an evolution strategy, got method {method.name!r}")
    return evolution.Evolution(
        population=config.population,
        objective=method.objective,
        optimizer=method.optimizer,
        noise=noise,
        seed=config.run.seed,
        starts=starts_of(config),
        observed_share=task.observation_share if task.observation_dim else 0.0,
        mean_every=config.run.evaluate_mean_every,
        settings=config.metric_settings(),
    )


def starts_of(config: Config) -> evolution.Starts:
    """Return the rule by which the rollouts of a config start."""
    task = config.task
    return evolution.Starts(
        task.start_seed(config.run.seed), task.rollouts, task.rule_of_starts, config.population.antithetic
    )


def study_work(
    config: Config, state: State, statistics: tuple[Floats, Floats], draw: Draw, with_mean: bool = True
) -> Work:
    """Return work from which nothing is learned: a draw, and last the mean; no observation is counted."""
    size = len(draw.offset)
    seeds = starts_of(config).seeds(state.generation, size)[: size + with_mean]
    return Work(state, statistics, draw, seeds, np.zeros(len(seeds), np.bool_))


def stored_work(run: "Run", generation: int) -> Work:
    """Return the work of a stored generation, or of a row of a study, all of which start alike; last the mean."""
    number = generation if run.attributes["kind"] == "run" else 0
    state = State(number, run.learned(generation), {}, run.observation_sums(generation))
    return study_work(run.config, state, run.observation_statistics(generation), run.draw(generation))


def work_of_mean(run: "Run", generation: int, component: int) -> Work:
    """Return work whose unperturbed mean, number N, is one of the means of a generation, or of the last state."""
    if generation == run.generations:
        state = State.from_arrays(run.state_arrays())
        work = study_work(run.config, state, state.statistics, run.draw(-1))  # a draw of any individuals
    else:
        work = stored_work(run, generation)
    mean = {"mean": work.state.mean[component : component + 1]}
    return replace(work, state=replace(work.state, learned={**work.state.learned, **mean}))


def logged_outcomes(run: "Run", generation: int) -> Outcomes:
    """Return the logged outcomes of a generation, without observations."""
    behavior, fitness, length, valid = (run[name][generation] for name in ("behavior", "fitness", "length", "valid"))
    valid = valid.astype(bool)
    if not (np.isfinite(behavior[valid]).all() and np.isfinite(fitness[valid]).all()):
        raise RunFileError(f"{run.path}: generation {generation} has valid rollouts with numbers that are not finite")
    by_start = run[BY_START][generation] if BY_START in run else None
    shared = run.config.task.common_starts
    return Outcomes(behavior, fitness, length.astype(np.int64), valid, np.zeros((0, 1)), by_start, shared)


def logged_mean(run: "Run", generation: int, again: Outcomes) -> Outcomes | None:
    """Return the logged outcome of the first mean of a generation; None if it was not evaluated.

    again: as evaluated again; its length and its behaviours from each start, which are not logged, are taken
    """
    if generation == run.generations or not np.isfinite(run["fitness_of_mean"][generation]):
        return None
    behavior, fitness = run["behavior_of_mean"][generation][None], run["fitness_of_mean"][generation][None]
    return replace(again, behavior=behavior, fitness=fitness, valid=np.ones(1, np.bool_))


def uses_torch(config: Config) -> bool:
    """Return whether the bits depend on torch; a network of the user may be a torch module."""
    return config.method.uses_torch or bool(getattr(config.task, "policy", None))


def first_state(config: Config) -> State:
    """Return the state before the first generation."""
    generator = stream(config.run.seed, "initial")
    means = np.stack([config.task.initial(generator) for _ in range(config.population.components)])
    if len(means) > 1 and config.population.isotropic and (means == means[0]).all():
        means = split_mean(config, means[:1], np.float32(config.population.std))  # equal means would never part
    return state_of(config, means, np.zeros(1 + 2 * config.task.observation_dim))


def split_mean(config: Config, mean: Singles, std: Any) -> Singles:
    """Return the means [K, D] of a config, drawn from a population around one mean [1, D]; `std`: of it."""
    shape = (config.population.components, config.task.parameters)
    return np.asarray(mean + std * stream(config.run.seed, "split").standard_normal(shape, np.float32))


def state_of(config: Config, means: Singles, observations: Floats) -> State:
    """Return the state of a run that begins with means [K, D] and observation sums [1 + 2 O]."""
    config.noise.check_slices(means.shape[1])
    learned = {**config.population.learned(means), **config.method.learned(config.task)}
    return State(0, learned, config.method.moments(config.task, learned), observations)
