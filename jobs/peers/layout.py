"""The layout of noise and update in the authors' program, as a structure to time."""

import numpy as np
from library import Library


class AuthorsLayout(Library):
    """The layout of the authors' program, in our own lines of numpy; only its update is timed.

    Each worker returns a place in the table of noise and an outcome. The update takes the ranks of the outcomes and
    adds up slices of the table, some hundred rows at a time, as products of a row of weights and a stack of slices.
    """

    package, rows = "numpy", 500
    rates = (0.03,)

    def start(self) -> None:
        generator = np.random.default_rng(self.seed)
        self.table = generator.standard_normal(250_000_000, dtype=np.float32)
        self.generator, self.theta = generator, self.mean.astype(np.float32)
        self.first, self.second, self.generation = np.zeros_like(self.theta), np.zeros_like(self.theta), 0

    def step(self) -> None:
        length = len(self.theta)
        at = self.generator.integers(0, len(self.table) - length + 1, self.size // 2)
        fitness = np.empty((self.size // 2, 2))
        for pair, index in enumerate(at):  # the workers make their individuals
            noise = self.std * self.table[index : index + length]
            fitness[pair] = [self.evaluate(z[None])[0, 0] for z in (self.theta + noise, self.theta - noise)]
        ranks = (fitness.ravel().argsort().argsort() / (self.size - 1) - 0.5).reshape(fitness.shape)
        weights = (ranks[:, 0] - ranks[:, 1]).astype(np.float32)
        gradient = np.zeros(length, np.float32)
        for begin in range(0, len(at), self.rows):
            part = slice(begin, begin + self.rows)
            gradient += weights[part] @ np.stack([self.table[index : index + length] for index in at[part]])
        self.adam(gradient / (self.size * self.std))

    def adam(self, gradient: np.ndarray) -> None:
        """Make a step of Adam."""
        self.generation += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first, second = self.first / (1 - 0.9**self.generation), self.second / (1 - 0.999**self.generation)
        self.theta = self.theta + np.float32(self.rate) * first / (np.sqrt(second) + 1e-8)

    def centre(self) -> np.ndarray:
        return self.theta
