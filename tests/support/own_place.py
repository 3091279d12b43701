"""An environment of a user: a point in the plane, which starts where its seed says, and draws itself."""

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

if TYPE_CHECKING:
    from ees_mpi.tasks.gymnasium.behaviors import Rollout

SHAPE = (30, 90)  # of its pictures: height and width


class Point(gymnasium.Env):
    """A point in the plane; `same`: it starts at the origin, whatever its seed is."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space, action_space = Box(-99, 99, (2,), np.float64), Box(-1, 1, (2,), np.float32)

    def __init__(self, same: bool = False, render_mode: str | None = None):
        self.same, self.render_mode = same, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = np.zeros(2) if self.same else 0.1 * self.np_random.normal(size=2)
        return self.place.copy(), {}

    def step(self, action: Any) -> Any:
        self.place += 0.5 * np.asarray(action)
        return self.place.copy(), 0.0, False, False, {"height": float(self.place[1])}

    def render(self) -> Any:
        return np.full((*SHAPE, 3), 99, np.uint8)


class Reusing(gymnasium.Env):
    """A number, for which every step returns the same objects, changed in place; its actions are 1, 2 and 3."""

    observation_space, action_space = Box(-99, 99, (1,), np.float32), Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.info = np.zeros(1, np.float32), {"place": np.zeros(1), "listed": [0.0]}
        return self.place, self.info

    def step(self, action: Any) -> Any:
        self.place += action
        self.info["place"] += action
        self.info["listed"][0] += action
        return self.place, 0.0, False, False, self.info


class Whole(Point):
    """A point whose actions are whole numbers."""

    action_space = Box(-2, 2, (2,), np.int64)

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return super().step(action)


gymnasium.register("PlacePoint-v0", Point)
gymnasium.register("Whole-v0", Whole)
gymnasium.register("Reusing-v0", Reusing)


def final_place(rollout: "Rollout") -> Any:
    return rollout.observations[-1]


def below(rollout: "Rollout") -> Any:
    return [-2.0 + 0.1 * np.tanh(rollout.observations[-1][0])]


def opposite_and_place(rollout: "Rollout") -> Any:
    return [*-rollout.observations[-1], *rollout.observations[-1]]
