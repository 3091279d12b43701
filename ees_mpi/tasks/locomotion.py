"""The parts that all walking robots share: directions, the settings of their tasks, rollouts.

Gajewski et al. 2019, sections 5.2 and 5.3, supplement S1.2. A rollout has 1,000 steps, no action noise, and always the
same start. The fitness of standard ES is the final x.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from ees_mpi.arrays import Floats, Singles
from ees_mpi.errors import ConfigError, EesError, PluginError, located
from ees_mpi.generation import Outcome
from ees_mpi.policies import (
    CLIP,
    HIDDEN,
    MLP,
    Activation,
    Policy,
    by_layer,
    observation_sums,
    parameter_count,
)
from ees_mpi.registry import Count, key
from ees_mpi.registry.plugins import calling, make, once
from ees_mpi.tasks import base
from ees_mpi.tasks.base import BatchRollouts, Say, Task, View

# A rollout in which a robot is faster is invalid, like one with NaN: its physics has blown up. The fastest robots here
# reach 7 m/s and 60 rad/s. Bullet itself cuts all speeds at 100.
FASTEST = 75.0  # m/s, from one action to the next
FASTEST_COORDINATE = 3000.0  # m/s or rad/s, of a joint
POLICY = "task.policy"
# Keys that say which function a network is of its parameters, and their defaults.
NETWORK = {"policy": None, "activation": "tanh", "action_scale": (), "action_shift": (), "observation_clip": CLIP}
SIDES = {"right": 0.0, "left": 180.0, "up": 90.0, "down": -90.0}  # degrees


def angle_of(direction: str) -> float:
    """Return the angle of the option `--direction`, in degrees; raise a ConfigError if it is none."""
    try:
        angle = SIDES[direction] if direction in SIDES else float(direction.removesuffix("deg"))
    except ValueError:
        angle = math.nan
    if not math.isfinite(angle):
        expected = f"expected {', '.join(SIDES)}, or degrees from +x towards +y, such as 45deg"
        raise ConfigError(f"--direction {direction}: {expected}")
    return angle


def direction_name(angle: float) -> str:
    """Return the one spelling of a direction: right, left, up, down, or for example 45deg."""
    angle %= 360
    return next((name for name, side in SIDES.items() if side % 360 == angle), f"{angle:g}deg")


def along(direction: float, x: float, y: float = 0.0) -> float:
    """Return the component of a position along a direction, in degrees from +x towards +y."""
    if direction % 90 == 0:  # exact; a cosine would have a rounding error
        return (x, y, -x, -y)[int(direction // 90) % 4]
    angle = math.radians(direction)
    return math.cos(angle) * x + math.sin(angle) * y


def across(direction: float, axes: int) -> bool:
    """Return whether a robot with this number of axes cannot move in a direction."""
    return axes == 1 and direction % 180 == 90


@dataclass(frozen=True)
class Walked:
    """R noisy rollouts of each of N policies, as torch tensors on one device; steps that were not taken are zero."""

    observations: Any  # [N, R, T, O], normalised and clipped
    actions: Any  # [N, R, T, A], before the robot clips them
    position: Any  # [N, R, 1 + T, B]: at the start, and after each step
    length: Any  # [N, R]
    sums: Any  # [N, 1 + 2 O]: count, sums, sums of squares of the observations of the sampled rollouts


class PolicyTask(Task, frozen=True):
    """A task whose individuals are the weights of a network from observations to actions: ours, or `policy`."""

    hidden: Annotated[tuple[Count, ...], key("The sizes of the hidden layers of our network.", "neurons")] = HIDDEN
    activation: Annotated[
        Activation | tuple[Activation, ...],
        key("The activation of the hidden layers, or a list: of each layer and the output."),
    ] = "tanh"
    action_scale: Annotated[
        tuple[float, ...], key("The action is scale * output + shift; one number, or one for each action; empty: 1.")
    ] = ()
    action_shift: Annotated[
        tuple[float, ...], key("What is added to scale * output; one number, or one for each action; empty: 0.")
    ] = ()
    policy: Annotated[str | None, key("Your own network, as package.module:Policy.")] = None
    policy_settings: Annotated[dict[str, Any] | None, key("Further arguments of your network, by name.")] = None
    steps: Annotated[Count, key("The length of a rollout, at most.", "steps")] = 1000
    reset_seed: base.ResetSeed = None
    observation_share: Annotated[
        base.Share,
        key("The share of rollouts from which the normaliser learns; gymnasium: at least ten, if not set.", "share"),
    ] = 0.01
    observation_clip: Annotated[float, key("The limit of normalised observations; 0: none.", ge=0, le=1e30)] = CLIP
    behavior_steps: Annotated[
        tuple[Count, ...], key("The steps at which the behaviour is recorded; empty: the last one.", "steps")
    ] = ()
    deterministic: base.Deterministic = True

    def __post_init__(self) -> None:
        marks = self.behavior_steps
        if sorted(set(marks)) != list(marks) or (marks and marks[-1] > self.steps):
            raise ValueError(f"task.behavior_steps: expected rising steps up to {self.steps}, got {list(marks)}")
        by_layer(self.activation, len(self.hidden) + 1)

    @property
    def unlike_gpu(self) -> str:
        """Return the setting by which the network is not that of GPUs and MAML, as TOML; empty: there is none."""
        changed = (name for name, value in NETWORK.items() if getattr(self, name) != value)
        return next((f"task.{name} = {json.dumps(getattr(self, name))}" for name in changed), "")

    @property
    def marks(self) -> tuple[int, ...]:
        """Return the steps at which the behaviour is recorded."""
        return self.behavior_steps or (self.steps,)

    @property
    def sizes_known(self) -> bool:
        return not self.policy

    @property
    def own_code(self) -> str:
        return f"{POLICY} {self.policy}" if self.policy else ""

    @property
    def parameters(self) -> int:
        if not self.policy:
            return parameter_count(self.layers)
        settings = msgspec.json.encode(self, enc_hook=str)
        return once(("count", type(self), settings), lambda: self.network().count)

    @property
    def observation_dim(self) -> int:
        return self.layers[0]

    def initial(self, generator: np.random.Generator) -> Singles:
        return self.network().initial(generator)

    def network(self) -> Policy:
        if self.policy:
            settings = self.policy_settings or {}
            return OwnPolicy(self.policy, self.layers[0], self.layers[-1], settings, self.observation_clip)
        return MLP(self.layers, self.observation_clip, self.activation, self.action_scale, self.action_shift)

    def check(self) -> None:
        """Raise a ConfigError if the user's own network cannot act, or if settings do not fit the network."""
        if self.policy:
            for name in ("activation", "action_scale", "action_shift"):
                if getattr(self, name) != NETWORK[name]:
                    raise ConfigError(f"task.{name}: task.policy replaces the network that it belongs to; leave it out")
            network = self.network()
            network.load(network.initial(np.random.default_rng(0)))
            network.act(np.zeros(self.layers[0], np.float32))
        for name, numbers in (("action_scale", self.action_scale), ("action_shift", self.action_shift)):
            if len(numbers) > 1 and len(numbers) != self.layers[-1]:
                expected = f"expected one number, or one for each of the {self.layers[-1]} actions"
                raise ConfigError(f"task.{name}: {expected}; got {len(numbers)}")


class OwnPolicy:
    """Gives normalised observations to a policy of the user, which has no `normalise`, and checks its actions.

    `Policy(observations, actions, **task.policy_settings)` has the members of `policies.PolicyPlugin`. See
    `jobs/examples/own_policy.py`.
    """

    def __init__(self, path: str, observations: int, actions: int, settings: Mapping[str, Any], clip: float):
        sizes = {"observations": int(observations), "actions": int(actions)}
        self._policy = make(path, POLICY, "count initial load act", settings, **sizes)
        self._code, self._act, self._actions = f"{POLICY} {path}", self._policy.act, int(actions)
        self._clip, self.count = clip or np.inf, int(self._policy.count)
        self.normalise(np.zeros(observations), np.ones(observations))

    def initial(self, generator: np.random.Generator) -> Singles:
        with calling(self._code, "initial()"):
            first = np.asarray(self._policy.initial(generator), np.float32)
        if first.shape != (self.count,):
            raise self._error(f"initial() returned the shape {first.shape}; expected ({self.count},), its count")
        return first

    def load(self, flat: Singles) -> None:
        self._policy.load(flat.copy())  # the user's class may change them

    def normalise(self, mean: ArrayLike, std: ArrayLike) -> None:
        self._mean, self._std = (np.array(statistic, dtype=np.float32) for statistic in (mean, std))

    def act(self, observation: Singles) -> Singles:
        seen = np.clip((np.asarray(observation, np.float32) - self._mean) / self._std, -self._clip, self._clip)
        try:
            action = np.asarray(self._act(seen), np.float32)
        except EesError:
            raise
        except Exception as error:  # of a list or tensor of the user
            raise self._error(f"act() returned no vector of numbers: {error}") from None
        if action.shape != (self._actions,):
            raise self._error(f"act() returned the shape {action.shape}; expected ({self._actions},)")
        return action

    def _error(self, message: str) -> PluginError:
        return PluginError(f"{self._code}: {message}")


class WalkingTask(PolicyTask, frozen=True):
    """A walking robot that an engine makes: its behaviour is its position at the end, or at several steps.

    A subclass defines `axes`, `layers` and `_engine`. An engine is imported only when a robot is made.
    """

    terminate: base.Terminate = "never"
    direction: Annotated[float, key("The direction in which distance is fitness, from +x towards +y.", "degrees")] = 0.0
    rollouts: base.RolloutCount = 1
    starts: base.Starts = "fixed"

    walkable = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if across(self.direction, self.axes):
            raise ValueError(f"task.direction: this robot moves along x only; expected 0 or 180, got {self.direction}")

    def _engine(self) -> Any:
        """Return the maker of robots: the engine of Bullet, or that of MuJoCo."""
        raise NotImplementedError

    def axes_of(self, behavior_dim: int) -> int:
        return self.axes

    @property
    def lengths(self) -> tuple[float, float] | None:
        """Return the lengths of the paper: an individual that ends nearer than 5 to the origin has no direction."""
        return 1.0, 5.0

    @property
    def heading(self) -> float:
        return self.direction

    @property
    def behavior_dim(self) -> int:
        """Return the number of axes times the number of recorded steps."""
        return self.axes * len(self.marks)

    def check(self) -> None:
        """Raise MissingExtra if the engine is missing, or a ConfigError if the robot or the network cannot work."""
        self._engine().check()
        super().check()

    def walker(self, seed: int) -> Any:
        return self._engine().walker(self.start_seed(seed))

    def open(self, seed: int) -> "Rollouts":
        return Rollouts(self, self.walker(seed))

    def film(self, seed: int, view: View) -> "Rollouts":
        """Return rollouts of the robot on the CPU, which is drawn from its limbs."""
        return self.open(seed)

    def lacks_for_gpu(self) -> str:
        return self._engine().lacks_for_gpu()

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchRollouts:
        return self._engine().open_batches(self.start_seed(seed), noise, wanted, antithetic, say)

    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Say) -> Any:
        """Return robots on the first visible GPU that walk with noisy actions, `rollouts` of each policy.

        Their `walk` is that of `mujoco.noisy_walks.GpuNoisyWalks`. MAML learns from them.
        """
        return self._engine().open_walks(self.start_seed(seed), policies, rollouts, steps, say)


class Rollouts:
    """Evaluates individuals: the policy of an individual controls the robot, from the same start every time."""

    def __init__(self, task: PolicyTask, robot: Any):
        """Take a `Walker` that has `step_seconds`, `finite` (after a rollout with possible physics), `reseed(seed)`."""
        self._task, self._robot, self._policy = task, robot, task.network()
        self.step_seconds = robot.step_seconds
        self.on_step: Callable[[int], None] | None = None  # called with the number of finished steps
        if hasattr(robot, "limbs"):
            self.limbs: Callable[[], Floats] = robot.limbs

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; if anything in it is not finite or not possible, the outcome is invalid."""
        task = self._task
        self._policy.normalise(observation_mean, observation_std)
        seen: list[Singles] | None = [] if observe else None
        with np.errstate(all="ignore"), located(f"individual {index}"):
            self._policy.load(parameters)
            length, places, last = self._walk(seen)
        places += [last] * (len(task.marks) - len(places))  # a rollout that ended early stays at its last position
        behavior, fitness = tuple(value for place in places for value in place), self._fitness(last)
        if not self._robot.finite:
            return Outcome(index, (math.nan,) * task.behavior_dim, math.nan, length, valid=False)
        if not all(map(math.isfinite, (*behavior, fitness))):
            return Outcome(index, behavior, fitness, length, valid=False)
        sums = observation_sums(seen) if seen else None
        return Outcome(index, behavior, fitness, length, True, sums)

    def _fitness(self, last: tuple[float, ...]) -> float:
        """Return the fitness of the finished rollout, which ended at `last`."""
        place = last[-self._task.axes :]  # all numbers, if none are a place
        return along(self._task.heading or 0.0, *place[:2])

    def _walk(self, seen: list[Singles] | None) -> tuple[int, list[tuple[float, ...]], tuple[float, ...]]:
        """Step until the end; return the number of steps, the recorded positions and the last position."""
        robot, step, act, marks = self._robot, self._robot.step, self._policy.act, set(self._task.marks)
        places: list[tuple[float, ...]] = []
        observation, on_step, length = robot.reset(), self.on_step, 0
        if on_step is not None:
            on_step(0)
        for length in range(1, self._task.steps + 1):
            if seen is not None:
                seen.append(observation)
            observation, done = step(act(observation))
            if on_step is not None:
                on_step(length)
            if length in marks:
                places.append(tuple(robot.position))
            if done:
                break
        return length, places, places[-1] if length in marks else tuple(robot.position)

    def reseed(self, seed: int) -> None:
        self._robot.reseed(seed)

    def place(self) -> tuple[float, ...]:
        """Return the present position of the robot, along the axes of the behaviour."""
        return tuple(self._robot.position)

    def close(self) -> None:
        self._robot.close()
