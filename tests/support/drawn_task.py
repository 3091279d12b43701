"""A task of one's own that can be drawn."""

import numpy as np

from ees_mpi.outcomes import Outcome
from support.own_tasks import Base


class Drawn(Base):
    """Its behaviour is its first parameter; its picture is a grey of that height."""

    step_seconds = 0.1
    on_step = None

    def film(self, seed, view):
        self.view = view
        return self

    def evaluate(self, index, parameters, observation_mean, observation_std, observe):
        self.x = float(parameters[0])
        for step in range(4):
            if self.on_step:
                self.on_step(step)
        return Outcome(index, (self.x,), self.x, 3)

    def place(self):
        return (self.x,)

    def picture(self):
        return np.full((self.view.height, self.view.width, 3), 99, np.uint8)
