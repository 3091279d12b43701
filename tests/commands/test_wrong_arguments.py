"""Arguments of public functions: limits that protect, and numbers and arrays of any library."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ees_mpi
from ees_mpi.commands.arguments import DIRECTION

BEHAVIOR = np.eye(4)
SMALL: dict[str, Any] = {"mean": np.ones(3), "config": {"noise": {"size": 5000}}, "size": 4, "std": 0.1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ees_mpi.sample("run.h5", 1), "count: expected a whole number of at least 2, got 1"),
        (lambda: ees_mpi.sample("run.h5", std=float("nan")), "std: expected a number between .*, got nan"),
        (lambda: ees_mpi.train("ant-es", "x.h5", seed=2**63), r"seed: expected a whole number of at most \d+, got"),
        (lambda: ees_mpi.train("ant-es", "x.h5", settings="run.seed=3"), "settings: expected a dict such as"),  # type: ignore[arg-type]
        (lambda: ees_mpi.maxent_weights(BEHAVIOR, bandwidth=-1), 'number or "scott", got -1'),
        (lambda: ees_mpi.maxent_weights(BEHAVIOR, bandwidth="wide"), "or \"scott\", got 'wide'"),
        (lambda: ees_mpi.train("ant-es", resume=True, overwrite=True), "exclude each other"),
        (lambda: ees_mpi.train("ant-es", max_hours=float("nan")), "max_hours: expected a number between .*, got nan"),
        (lambda: ees_mpi.train("ant-es", settings={"task.function": lambda: 0}), "expected a class or function at the"),
    ],
)
def test_a_limit_is_told_with_its_argument_and_what_came(call: Callable[[], Any], message: str, inside: Path) -> None:
    with pytest.raises(ees_mpi.ConfigError, match=message):
        call()
    assert list(inside.iterdir()) == []


def test_a_direction_keeps_its_digits() -> None:
    assert [DIRECTION.check("direction", angle) for angle in (45.0, 123.456789, "left")] == ["45", "123.456789", "left"]


class Foreign:
    """An array of another library, as JAX's: 32 bits, converted when asked, and `__index__` whatever it holds."""

    def __init__(self, values: Any):
        self.values = np.asarray(values)
        self.shape, self.ndim, self.dtype = self.values.shape, self.values.ndim, self.values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.values.astype(dtype or self.dtype)

    def __index__(self) -> int:
        return operator.index(np.asarray(self))

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> "Foreign":
        return Foreign(self.values[index])

    def tolist(self) -> Any:
        return np.asarray(self).tolist()

    def __le__(self, other: object) -> bool:
        raise OverflowError("the other number has more than 32 bits")

    __lt__ = __ge__ = __gt__ = __le__


def looped(array: Callable[[Any], Any]) -> bytes:
    """Return the digest after all kinds of `tell`, with arrays that a library has made."""
    mean = array(np.ones(3, np.float32))
    numbers = {"size": array(np.int32(8)), "std": array(np.float32(0.5)), "observation_dim": array(np.int32(2))}
    with ees_mpi.Strategy(mean, seed=array(np.int32(1)), config={"noise": {"size": 5000}}, **numbers) as es:
        seen = array(np.arange(64, dtype=np.float32).reshape(8, 4, 2))  # all are sampled
        es.tell([array(np.sin(z)) for z in es.ask(chunk=array(np.int32(3)))], observations=seen)
        z = es.ask()
        es.tell(array(np.sin(z)), array(z.sum(1)), valid=array(z[:, 0] < 2), observations=[seen[k] for k in range(8)])
        es.mean = array(es.mean)
        es.tell(weights=array(es.gather(array(es.ask()[:, 0]))), observations=seen)
        return es.state.digest()


def test_arrays_of_another_library_are_taken_where_those_of_numpy_are(inside: Path) -> None:
    assert looped(Foreign) == looped(np.asarray)
    size = Foreign(np.int32(4))
    small = {"population.size": size, "noise.size": 5000, "population.std": Foreign(np.float32(0.5))}
    ees_mpi.train("interference-maxvar", "run.h5", settings=small, generations=Foreign(np.int32(2)), seed=size).close()
    with ees_mpi.sample("run.h5", count=size, generation=Foreign(np.int32(1))) as run:
        assert run["behavior"].shape[1] == 4
