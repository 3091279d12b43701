"""Numbers of final places in the plane: sectors, the ring, and what 200 mutations do from 20 starts.

`results/*.h5` keep the raw places of each measurement in `by_start/NAME` (float16: mutation, start, axis):

    with h5py.File("jobs/paper/results/ant-ring.h5") as file:
        places.measured(file["by_start/ant-maxent-authors-four-mujoco-seed6-starts"][:])
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.analysis.numbers.heritability import of_places
from ees_mpi.arrays import Floats
from ees_mpi.spread import variances

EIGHT = 8  # sectors of the ring
FAR = 5.0  # a mutation that ends nearer has no direction
STEADY = 0.9  # least resultant length of the directions of a reliable mutation, over starts


def sectors(place: Floats, count: int = EIGHT) -> NDArray[np.int64]:
    """Return the sector of each place [n, 2]: sector k has angles from k / count to (k + 1) / count of a turn."""
    x, y = place.T
    return np.floor(np.arctan2(y, x) * count / (2 * np.pi)).astype(np.int64) % count


def ring(place: Floats, count: int) -> float:
    """Return 8 min_k(sum of distances in sector k) / N: an even ring has its mean distance, one with a gap nothing."""
    return float(EIGHT * np.bincount(sectors(place), np.hypot(*place.T), EIGHT).min() / count)


def reliable(places: Floats) -> NDArray[np.bool_]:
    """Return which mutations [n, starts, 2] walk far, and from all starts in one direction."""
    distance = np.linalg.norm(places, axis=2)
    length = np.linalg.norm(_directions(places).mean(axis=1), axis=1)
    return (length >= STEADY) & (distance.mean(axis=1) >= FAR)


def _directions(places: Floats) -> Floats:
    return np.asarray(places / np.maximum(np.linalg.norm(places, axis=2, keepdims=True), 1e-9))


def held_out(places: Floats) -> dict[str, float]:
    """Choose reliable mutations [n, starts, 2] by the first half of the starts, and judge them by the second.

    `same_way`: the share of their rollouts from the second half that end within 45 degrees of the mutation's direction.
    `held_out_sectors`: how many sectors have one that is reliable there, too, and in this sector both times.
    """
    half = places.shape[1] // 2
    steady = reliable(places[:, :half])
    first, second = (_directions(part[steady]) for part in (places[:, :half], places[:, half:]))
    toward, again = first.mean(axis=1), reliable(places[steady, half:])
    sector = sectors(toward)
    both = again & (sector == sectors(second.mean(axis=1)))
    found = {"held_out_sectors": float(len(np.unique(sector[both])))}
    if not steady.any():
        return found
    along = np.einsum("msa,ma->ms", second, toward / np.linalg.norm(toward, axis=1, keepdims=True))
    return found | {"same_way": float((along >= np.cos(np.pi / 4)).mean())}


def twice(first: Any, again: Any) -> dict[str, float]:
    """Split the variance of places [mutation, start, axis] that were computed twice, with another rounding.

    Returns the parts of `mutation`, of `start`, and of `both` together; and that of `chance`, which is not the same
    the second time. A variance in which x y stands for x^2 has no chance in it, and 4 x y = (x + y)^2 - (x - y)^2.
    """
    x, y = np.asarray(first, np.float64), np.asarray(again, np.float64)
    valid = np.isfinite(x + y).all(axis=(1, 2))
    alike, apart = variances((x + y)[valid]), variances((x - y)[valid])
    mutation, start, both = np.subtract(alike, apart) / 4
    found = {"mutation": mutation, "start": start, "both": both, "chance": apart[2] / 2}
    return {name: part / sum(found.values()) for name, part in found.items()}


def measured(raw: Any) -> dict[str, float]:
    """Return all numbers of raw places [mutation, start, axis]: variances, shares and rings.

    In the plane: the share of reliable mutations and how many of 8 sectors they occupy; the same with other starts to
    choose than to judge (`held_out`); the ring over the mean distance from the median start.
    """
    places = np.asarray(raw, np.float64)
    places = places[np.isfinite(places).all(axis=(1, 2))]
    found = of_places(places)
    if places.shape[2] == 1:
        return found
    steady, count = reliable(places), len(places)
    toward = _directions(places)[steady].mean(axis=1)
    rings = [ring(place, count) / np.hypot(*place.T).mean() for place in places.swapaxes(0, 1)]
    return found | {
        "reliable": float(steady.mean()),
        "reliable_sectors": len(np.unique(sectors(toward))),
        "ring": float(np.median(rings)),
        **held_out(places),
    }
