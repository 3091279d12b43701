"""What all libraries of the comparison have in common.

A library makes a generation with `step`. `centre` is the network that it has learned, `save` and `load` are the way to
continue that its documentation or its authors name. `evaluate(z, xp)` returns the behaviours [n, 2] of networks z; the
fitness is the first number of the behaviour, except for MaxEnt and CMA-MAE, which get behaviours.
"""

import hashlib
import os
import pickle
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

Evaluate = Callable[..., Any]
FILE = Path("checkpoint")


def free(z: Any, xp: Any = np) -> Any:
    """Return behaviours that cost nothing, for the time of an update; a copy, which does not keep z alive."""
    return z[:, :2] * 1


class Library:
    """A library, and the numbers that all libraries get: the first mean, N, the standard deviation, the seed."""

    package: ClassVar[str]
    kept: ClassVar[str]  # the attribute that has everything on which the next generation depends
    rates: ClassVar[tuple[float, ...]] = (0.01, 0.03, 0.1, 0.3, 1.0)  # learning rates of which the best is taken

    def __init__(self, evaluate: Evaluate, mean: np.ndarray, size: int, std: float, seed: int, rate: float = 0.03):
        self.evaluate, self.mean, self.size, self.std, self.seed, self.rate = evaluate, mean, size, std, seed, rate
        self.start()

    def start(self) -> None:
        """Begin a run."""

    def step(self) -> None:
        """Make one generation."""

    def centre(self) -> np.ndarray:
        """Return the learned network [D]."""
        raise NotImplementedError

    def digest(self) -> str:
        """Return a hash of what was learned."""
        return hashlib.sha256(np.ascontiguousarray(self.centre()).tobytes()).hexdigest()

    def log(self) -> None:
        """Switch on what the library itself writes to disk."""

    def save(self, generation: int) -> None:
        """Save all that the next generation depends on, so that a kill leaves the old file or the new one."""
        with open("checkpoint.part", "wb") as file:
            pickle.dump((generation, self.state()), file)
        os.replace("checkpoint.part", FILE)

    def load(self) -> int:
        """Continue from the saved file, if there is one; return the number of generations in it."""
        if not FILE.exists():
            return 0
        generation, state = pickle.loads(FILE.read_bytes())  # noqa: S301  written by `save` of this program
        self.restore(state)
        return int(generation)

    def state(self) -> Any:
        """Return what is pickled."""
        return getattr(self, self.kept)

    def restore(self, state: Any) -> None:
        """Continue from what was pickled."""
        setattr(self, self.kept, state)

    @classmethod
    def version(cls) -> str:
        """Return the installed version."""
        return version(cls.package)
