"""Counter-based random streams: (seed, purpose, generation) -> generator.

Every random number in a run comes from one of these, drawn as a whole vector and the same on every rank, so
that no number depends on how many ranks there are or on what was drawn before.
"""

import hashlib

import numpy as np


def stream(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """Return the Philox generator of one purpose at one point of a run."""
    name = f"{seed}/{purpose}/{counter}".encode()
    key = np.frombuffer(hashlib.blake2b(name, digest_size=16).digest(), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key))
