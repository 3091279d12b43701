"""Batches of rollouts of a Gaussian policy, from which one task is learned; and pairs of batches as bytes.

All batches have the same shape: R rollouts of T steps. A rollout that ends early is padded with zeros. The bits depend
on the arguments only, so any rank can make a batch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.contracts import Task, Walker
from ees_mpi.generation.state import State
from ees_mpi.maml.settings import maml_of
from ees_mpi.noise import stream
from ees_mpi.outcomes import Arrays, Floats, Singles
from ees_mpi.policies import CLIP, MLP, observation_sums
from ees_mpi.tasks.locomotion import along


@dataclass(frozen=True)
class Batch:
    """R rollouts of at most T steps; O observations, A actions."""

    observations: Singles  # [R, T, O], normalised and clipped
    actions: Singles  # [R, T, A], before the robot clips them
    rewards: Floats  # [R, T]: distance moved in the direction of the task
    length: NDArray[np.int64]  # [R]
    final: Floats  # [R, B]: final positions
    sums: Floats  # [1 + 2 O]: count, sums, sums of squares of the observations of the sampled rollouts

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Return which steps [R, T] were taken."""
        mask: NDArray[np.bool_] = np.arange(self.rewards.shape[1]) < self.length[:, None]
        return mask

    @property
    def total(self) -> float:
        """Return the mean distance that the rollouts moved in the direction of the task."""
        return float(self.rewards.sum(axis=1).mean())

    @property
    def usable(self) -> bool:
        """Return whether the batch can be learned from: it has steps, and all numbers are finite."""
        arrays = (self.observations, self.actions, self.rewards, self.final)
        return bool(self.length.any()) and all(np.isfinite(array).all() for array in arrays)


@dataclass(frozen=True)
class Gaussian:
    """A policy that adds Gaussian noise to the output of its network."""

    network: MLP
    mean: Singles  # [D]
    log_std: Singles  # [A]
    observation_mean: Floats
    observation_std: Floats

    @classmethod
    def of(
        cls, layers: Sequence[int], mean: Singles, log_std: Singles, observation_mean: Floats, observation_std: Floats
    ) -> "Gaussian":
        """Make a policy; without observation statistics, observations are not normalised."""
        if not len(observation_mean):  # a custom task without observation statistics
            observation_mean, observation_std = np.zeros(layers[0]), np.ones(layers[0])
        return cls(MLP(layers), np.ascontiguousarray(mean), log_std, observation_mean, observation_std)

    @classmethod
    def of_state(cls, layers: Sequence[int], state: State) -> "Gaussian":
        """Return the policy of a state."""
        return cls.of(layers, state.mean[0], np.asarray(state.moments["log_std"]), *state.observation_mean_std())

    def normalised(self, observations: Singles) -> Singles:
        """Return observations [..., O] as the network sees them."""
        mean, std = self.observation_mean.astype(np.float32), self.observation_std.astype(np.float32)
        seen: Singles = np.clip((observations - mean) / std, -CLIP, CLIP).astype(np.float32)
        return seen


def draws(config: Config, generation: int, index: int) -> tuple[Singles, NDArray[np.bool_]]:
    """Return the action noise [2, R, T, A] of a task, before and after adaptation, and its sampled rollouts [2, R]."""
    task, settings = config.task, maml_of(config)
    shape = (2, settings.rollouts, settings.steps(task), task.layers[-1])
    noise = stream(config.run.seed, f"actions of task {index}", generation).standard_normal(shape, np.float32)
    chance = stream(config.run.seed, f"observe task {index}", generation).random(shape[:2])
    return noise, chance < task.observation_share


def direction_of(task: Task, sign: int) -> float:
    """Return the direction of a task of the iteration, in degrees."""
    return (task.heading or 0.0) + (0.0 if sign > 0 else 180.0)


def sample(
    walker: Walker, policy: Gaussian, noise: Singles, direction: float, observed: NDArray[np.bool_], dim: int
) -> Batch:
    """Make R rollouts with action noise [R, T, A]; `direction`: degrees; `dim`: numbers of a position."""
    policy.network.load(policy.mean)
    policy.network.normalise(policy.observation_mean, policy.observation_std)
    std = np.exp(policy.log_std)
    count, steps, _ = noise.shape
    raw = np.zeros((count, steps, policy.network.sizes[0]), np.float32)
    actions, rewards = np.zeros_like(noise), np.zeros((count, steps))
    length, final = np.zeros(count, np.int64), np.zeros((count, dim))
    for number in range(count):
        with np.errstate(all="ignore"):
            length[number], final[number] = _walk(
                walker, policy.network, noise[number] * std, direction, raw[number], actions[number], rewards[number]
            )
    seen = policy.normalised(raw)
    seen[np.arange(steps) >= length[:, None]] = 0.0
    sums = [observation_sums(list(raw[n, : length[n]])) for n in np.flatnonzero(observed & (length > 0))]
    return Batch(seen, actions, rewards, length, final, sum(sums, start=np.zeros(1 + 2 * raw.shape[2])))


def _walk(
    walker: Walker, network: MLP, noise: Singles, direction: float, seen: Singles, actions: Singles, rewards: Floats
) -> tuple[int, Any]:
    """Make one rollout; return its length and final position. It ends before the first step that is not finite."""
    observation = walker.reset()
    place = tuple(walker.position)
    gone = along(direction, *place[:2])
    length = 0
    for step in range(len(noise)):
        action = network.act(observation) + noise[step]
        if not math.isfinite(action.dot(action)):
            break
        seen[step], actions[step] = observation, action  # before the step: the walker may reuse its array
        following, done = walker.step(action)
        now = tuple(walker.position)
        if not (math.isfinite(sum(now)) and math.isfinite(following.dot(following))):
            seen[step], actions[step] = 0.0, 0.0
            break
        further = along(direction, *now[:2])
        rewards[step] = further - gone
        gone, place, observation, length = further, now, following, step + 1
        if done:
            break
    return length, place


@dataclass(frozen=True)
class Pair:
    """The rollouts of one task before and after its adaptation."""

    before: Batch
    after: Batch

    @property
    def usable(self) -> bool:
        """Return whether the task can contribute to the outer step."""
        return self.before.usable and self.after.usable


def row_of(index: int, pair: Pair) -> tuple[float, ...]:
    """Return the result of a task: index, valid, length, fitness, behaviour."""
    length = int(pair.before.length.sum() + pair.after.length.sum())
    return index, pair.usable, length, pair.after.total, *pair.after.final.mean(axis=0).tolist()


def sums_of(pair: Pair) -> Floats:
    """Return the observation sums of both batches; zeros if the task is not usable."""
    return pair.before.sums + pair.after.sums if pair.usable else np.zeros_like(pair.before.sums)


def stacked(pairs: Mapping[int, Pair]) -> Arrays:
    """Return the rollouts of all tasks as arrays with names, the tasks in order."""
    tasks = [pairs[index] for index in sorted(pairs)]
    return {"index": np.array(sorted(pairs), np.int64)} | {
        f"{moment}/{field.name}": np.stack([getattr(getattr(task, moment), field.name) for task in tasks])
        for moment in ("before", "after")
        for field in fields(Batch)
    }


def unstacked(arrays: Arrays) -> dict[int, Pair]:
    """Return the rollouts of `stacked`, by index."""

    def batch(moment: str, place: int) -> Batch:
        return Batch(**{field.name: arrays[f"{moment}/{field.name}"][place].copy() for field in fields(Batch)})

    indices = enumerate(arrays["index"].tolist())
    return {index: Pair(batch("before", place), batch("after", place)) for place, index in indices}


def packed(pairs: Mapping[int, Pair]) -> NDArray[np.uint8]:
    """Return one row of bytes per task, without loss."""
    if not pairs:
        return np.empty((0, 0), np.uint8)
    return np.hstack([array.reshape(len(pairs), -1).view(np.uint8) for array in stacked(pairs).values()])


def unpacked(
    rows: NDArray[np.uint8], shape: tuple[int, int], observations: int, actions: int, dim: int
) -> dict[int, Pair]:
    """Return the rollouts of `packed`, by index; `shape`: (R, T) of a batch; `dim`: numbers of a position."""
    parts: dict[str, tuple[str, tuple[int, ...]]] = {
        "observations": ("<f4", (*shape, observations)),
        "actions": ("<f4", (*shape, actions)),
        "rewards": ("<f8", shape),
        "length": ("<i8", shape[:1]),
        "final": ("<f8", (shape[0], dim)),
        "sums": ("<f8", (1 + 2 * observations,)),
    }
    columns = [(f"{moment}/{name}", *parts[name]) for moment in ("before", "after") for name in parts]
    table: Any = np.ascontiguousarray(rows).reshape(-1).view(np.dtype([("index", "<i8"), *columns]))
    return unstacked(table)
