"""The rollouts of one task before and after its adaptation: their result, and their bytes for a partial generation."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.maml.rollouts import Batch
from ees_mpi.outcomes import Arrays, Floats


@dataclass(frozen=True)
class Pair:
    """The rollouts of one task before and after its adaptation."""

    before: Batch
    after: Batch

    @property
    def usable(self) -> bool:
        """Return whether the task can contribute to the outer step."""
        return self.before.usable and self.after.usable


def row_of(index: int, pair: Pair) -> tuple[float, ...]:
    """Return the result of a task: index, valid, length, fitness, behaviour."""
    length = int(pair.before.length.sum() + pair.after.length.sum())
    return index, pair.usable, length, pair.after.total, *pair.after.final.mean(axis=0).tolist()


def sums_of(pair: Pair) -> Floats:
    """Return the observation sums of both batches; zeros if the task is not usable."""
    return pair.before.sums + pair.after.sums if pair.usable else np.zeros_like(pair.before.sums)


def stacked(pairs: Mapping[int, Pair]) -> Arrays:
    """Return the rollouts of all tasks as arrays with names, the tasks in order."""
    tasks = [pairs[index] for index in sorted(pairs)]
    return {"index": np.array(sorted(pairs), np.int64)} | {
        f"{moment}/{field.name}": np.stack([getattr(getattr(task, moment), field.name) for task in tasks])
        for moment in ("before", "after")
        for field in fields(Batch)
    }


def unstacked(arrays: Arrays) -> dict[int, Pair]:
    """Return the rollouts of `stacked`, by index."""

    def batch(moment: str, place: int) -> Batch:
        return Batch(**{field.name: arrays[f"{moment}/{field.name}"][place].copy() for field in fields(Batch)})

    indices = enumerate(arrays["index"].tolist())
    return {index: Pair(batch("before", place), batch("after", place)) for place, index in indices}


def packed(pairs: Mapping[int, Pair]) -> NDArray[np.uint8]:
    """Return one row of bytes per task, without loss."""
    if not pairs:
        return np.empty((0, 0), np.uint8)
    return np.hstack([array.reshape(len(pairs), -1).view(np.uint8) for array in stacked(pairs).values()])


def unpacked(
    rows: NDArray[np.uint8], shape: tuple[int, int], observations: int, actions: int, dim: int
) -> dict[int, Pair]:
    """Return the rollouts of `packed`, by index; `shape`: (R, T) of a batch; `dim`: numbers of a position."""
    parts: dict[str, tuple[str, tuple[int, ...]]] = {
        "observations": ("<f4", (*shape, observations)),
        "actions": ("<f4", (*shape, actions)),
        "rewards": ("<f8", shape),
        "length": ("<i8", shape[:1]),
        "final": ("<f8", (shape[0], dim)),
        "sums": ("<f8", (1 + 2 * observations,)),
    }
    columns = [(f"{moment}/{name}", *parts[name]) for moment in ("before", "after") for name in parts]
    table: Any = np.ascontiguousarray(rows).reshape(-1).view(np.dtype([("index", "<i8"), *columns]))
    return unstacked(table)
