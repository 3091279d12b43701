"""Two examples of your own network, for every task that has one: `task.policy = "jobs.examples.own_policy:Rectified"`.

    ees-mpi train cheetah-maxent-authors-laptop --set task.policy=jobs.examples.own_policy:Rectified
    ees-mpi train cheetah-maxent-authors-laptop --set task.policy=jobs.examples.own_policy:Gated \\
        --set task.policy_settings.units=32

Run these commands in the folder that holds `jobs`. A policy needs `count`, `initial`, `load` and `act`; see
`ees_mpi/docs/plugins.md`.
"""

from typing import Any

import numpy as np

from ees_mpi.arrays import Singles
from ees_mpi.policies import MLP


class Rectified:
    """The built-in network with another activation: max(x, 0) in place of tanh."""

    def __init__(self, observations: int, actions: int, units: int = 64):
        self._layout = MLP((observations, units, units, actions))
        self.count = self._layout.count

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean as the built-in network does."""
        return self._layout.initial(generator)

    def load(self, flat: Singles) -> None:
        """Act with these parameters from now on."""
        self._layers = self._layout.matrices(flat)

    def act(self, observation: Singles) -> Singles:
        """Return the action; the last row of each matrix is the bias."""
        x = observation
        for layer in self._layers[:-1]:
            x = np.maximum(x @ layer[:-1] + layer[-1], 0)
        last: Singles = x @ self._layers[-1][:-1] + self._layers[-1][-1]
        return last


class Gated:
    """A torch module with a recurrent cell. Its memory is cleared by `load`, so at the start of every rollout."""

    def __init__(self, observations: int, actions: int, units: int = 32):
        import torch

        self._torch: Any = torch
        torch.set_num_threads(1)  # a threaded sum has other bits
        self._cell = torch.nn.GRUCell(observations, units)
        self._output = torch.nn.Linear(units, actions)
        self._tensors = [*self._cell.parameters(), *self._output.parameters()]
        self.count = sum(tensor.numel() for tensor in self._tensors)

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw small normal numbers; torch's own start would not come from the run's seed."""
        return (0.1 * generator.standard_normal(self.count)).astype(np.float32)

    def load(self, flat: Singles) -> None:
        """Copy the parameters into the module, and clear its memory."""
        vector = self._torch.tensor(flat)
        self._torch.nn.utils.vector_to_parameters(vector, self._tensors)
        self._memory = None

    def act(self, observation: Singles) -> Singles:
        """Return the action for the next observation of a rollout."""
        with self._torch.inference_mode():
            seen = self._torch.tensor(observation)[None]
            self._memory = self._cell(seen, self._memory)
            action: Singles = self._output(self._memory)[0].numpy()
        return action
