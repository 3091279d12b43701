"""The contracts of parts: Protocols of evaluators, policies, optimizers and methods; base classes of the other parts.

A config section names a member of a family and holds its settings; see `registry.Part`. Users add their own members
with `name = "custom"`, and their own network with `task.policy`; see `docs/plugins.md`. The Protocols ...Plugin have
the members that a user must write. A base class has all members, with the defaults that most parts share. Letters in
shapes: N individuals, B numbers of a behaviour, O observations, A actions, K means, D parameters.
"""

from ees_mpi.contracts.evaluators import (
    BatchEvaluator,
    Closable,
    Drawable,
    Evaluator,
    Limbed,
    NoisyWalks,
    Pixels,
    Placed,
    RowsEvaluator,
    Say,
    View,
    Walked,
    Walker,
)
from ees_mpi.contracts.methods import Field, Method
from ees_mpi.contracts.objectives import Memory, Objective
from ees_mpi.contracts.populations import Optimizer, OptimizerPlugin, Population, PopulationPlugin
from ees_mpi.contracts.tasks import Policy, PolicyPlugin, Task, TaskPlugin

__all__ = [
    "BatchEvaluator",
    "Closable",
    "Drawable",
    "Evaluator",
    "Field",
    "Limbed",
    "Memory",
    "Method",
    "NoisyWalks",
    "Objective",
    "Optimizer",
    "OptimizerPlugin",
    "Pixels",
    "Placed",
    "Policy",
    "PolicyPlugin",
    "Population",
    "PopulationPlugin",
    "RowsEvaluator",
    "Say",
    "Task",
    "TaskPlugin",
    "View",
    "Walked",
    "Walker",
]
