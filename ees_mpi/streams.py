"""Counter-based random streams: (seed, purpose, generation) -> generator.

Every random number of a run comes from such a stream. It is drawn as part of a whole vector, the same on every rank,
so that no number depends on the number of ranks or on earlier draws.
"""

import hashlib

import numpy as np


def stream(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """Return the Philox generator for one purpose; `counter`: for example the generation."""
    name = f"{seed}/{purpose}/{counter}".encode()
    key = np.frombuffer(hashlib.blake2b(name, digest_size=16).digest(), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key))
