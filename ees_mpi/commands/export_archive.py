"""`ees-mpi export --to archive`: the best offspring of a run in each cell of a grid of behaviours, as an npz.

The grid is a `ribs.archives.GridArchive` of pyribs; its measures are the behaviours, its objective is the fitness.
"""

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.commands.export_arrays import npz_member
from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.files import check_writable, written
from ees_mpi.store.reader import Run

CELLS = 2500  # of the whole grid, about, by default
MOST_CELLS = 10**7  # pyribs holds all of them in memory


def export_archive(
    run: Run,
    out: Path | None,
    say: Callable[[str], None],
    generation: int | None = None,
    cells: int | None = None,
    range: tuple[float, float] | None = None,
    offset: float = 0.0,
) -> list[Path]:
    """Write the elites of all generations, or of one; return the file.

    cells: along each axis; range: of all axes  [default: around zero, so that all behaviours are inside]
    offset: the fitness that counts as 0 in the QD score
    """
    target = out or run.path.with_name(f"{run.path.stem}-archive.npz")
    check_writable(target, suffixes=[".npz"], sources=[run.path])
    if (generation or 0) >= run.generations:
        raise ConfigError(f"--generation {generation or 0}: {run.path} has {run.generations} generations")
    run.check_all()
    generations = [*np.arange(run.generations)] if generation is None else [generation]
    axes = run["behavior"].shape[2]
    cells = cells or max(2, round(CELLS ** (1 / axes)))
    if cells**axes > MOST_CELLS:
        raise ConfigError(f"{cells} cells along {axes} axes: expected at most {MOST_CELLS} in all; use fewer --cells")
    low, high = range or _limits(run, generations)
    if low >= high:
        raise ConfigError(f"--range {low:g} {high:g}: expected the lower number first")
    grid = {"dims": [cells] * axes, "ranges": [(low, high)] * axes, "qd_score_offset": offset}
    archive = _archive(run, generations, grid)
    score, coverage = archive.stats.qd_score, archive.stats.coverage
    _write(run, target, archive.data(return_type="dict"), {**grid, "qd_score": score, "coverage": coverage})
    where = f"{' x '.join([str(cells)] * axes)} cells from {low:g} to {high:g}"
    say(f"{len(archive)} elites in {where}: coverage {coverage:.4g}, QD score {score:.6g}")
    return [target]


def _limits(run: Run, generations: Sequence[int]) -> tuple[float, float]:
    largest = max(float(np.abs(_valid(run, generation)[2]).max(initial=0.0)) for generation in generations) or 1.0
    return -largest, largest


def _valid(run: Run, generation: int) -> tuple[Any, Any, Any]:
    """Return the valid offspring of a generation: (generation, individual), fitness, behaviour of each."""
    valid = np.flatnonzero(run["valid"][generation])
    place = np.stack([np.full(len(valid), generation), valid], axis=1)
    return place, run["fitness"][generation][valid], run["behavior"][generation][valid]


def _archive(run: Run, generations: Sequence[int], grid: dict[str, Any]) -> Any:
    """Return a GridArchive of the valid offspring; a solution is (generation, individual), which needs less memory."""
    try:
        from ribs.archives import GridArchive
    except ImportError:
        raise MissingExtra("--to archive needs pyribs: pip install 'ees_mpi[archive]'") from None
    archive = GridArchive(solution_dim=2, dtype=np.float64, **grid)
    for generation in generations:
        archive.add(*_valid(run, generation))
    return archive


def _write(run: Run, target: Path, elites: dict[str, Any], more: dict[str, Any]) -> None:
    """Write the elites by generation and individual; their parameters one by one, because all may not fit in memory."""
    order = np.lexsort(elites["solution"].T[::-1])
    places = elites["solution"][order].astype(np.int64)
    arrays = {"objective": elites["objective"][order], "measures": elites["measures"][order], "place": places, **more}
    with written(target) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in {name: np.asarray(value) for name, value in arrays.items()}.items():
            with npz_member(archive, name, array.shape, array.dtype) as member:
                member.write(array.tobytes())
        shape = (len(places), run["mean"].shape[2])
        with npz_member(archive, "solution", shape, np.dtype(np.float32)) as member:
            for place in places:
                member.write(np.asarray(run.individual(*map(int, place)), np.float32).tobytes())
