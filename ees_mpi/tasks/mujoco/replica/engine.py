"""The replicas of Bullet's robots as plants, and MuJoCo as the engine of the paper's tasks."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ees_mpi.outcomes import Floats
from ees_mpi.tasks.mujoco.engine import MujocoEngine
from ees_mpi.tasks.mujoco.gpu import Toolkit
from ees_mpi.tasks.mujoco.plant import ManyRobots, Plant, library
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS, XML
from ees_mpi.tasks.mujoco.replica.cpu import OneReplica
from ees_mpi.tasks.mujoco.replica.rules import LOWEST, START_RANGE, Rules, rules_of
from ees_mpi.tasks.paper_robots import PaperRobot


@dataclass(frozen=True)
class ReplicaPlant(Plant):
    """One of Bullet's robots in MuJoCo."""

    rules: Rules

    def start(self, seed: int) -> tuple[Floats, Floats]:
        """Return qpos and qvel at the start: the same as in Bullet with this seed."""
        qpos, at = self.model.qpos0.copy(), self.rules.qpos_at
        qpos[at] = np.random.default_rng(seed).uniform(-START_RANGE, START_RANGE, len(at))
        return qpos, np.zeros(self.model.nv)

    def one(self, data: Any) -> OneReplica:
        return OneReplica(self.rules, self.model, data)

    def many(self, tools: Toolkit, model: Any, data: Any, worlds: int) -> ManyRobots:
        from ees_mpi.tasks.mujoco.replica.kernels import ManyReplicas  # imports Warp

        return ManyReplicas(self.rules, self.model, tools, model, data, worlds)


@lru_cache(maxsize=2)
def replica_plant(robot: str) -> ReplicaPlant:
    """Compile a robot, cheetah or ant."""
    model = library().MjModel.from_xml_string(XML[robot]())
    ones, rules = np.ones(model.nu, np.float32), rules_of(robot, model)
    height = None if rules.planar else (LOWEST, float("inf"))
    axes = 1 if rules.planar else 2
    return ReplicaPlant(model, int(model.body("torso").id), axes, SUB_STEPS, -ones, ones, height, rules)


def replica_engine(task: PaperRobot) -> MujocoEngine:
    """Return MuJoCo as the engine of one of the paper's tasks; MuJoCo solves no contacts here, so buffers are tiny."""
    return MujocoEngine(task, lambda: replica_plant(task.robot), contacts=1, constraints=1)
