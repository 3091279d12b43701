"""`ees-mpi export --to`: the arrays of a run for other programs, as CSV tables or one npz; written in slices.

`--to archive`: the best offspring in each cell of a grid of behaviours, as an npz. The grid is a
`ribs.archives.GridArchive` of pyribs; its measures are the behaviours, its objective is the fitness.
"""

import csv
import itertools
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ees_mpi.errors import ConfigError, MissingExtra, RunFileError
from ees_mpi.files import check_writable, written
from ees_mpi.store import layout
from ees_mpi.store.reader import Run, Series

CELLS = 2500  # of the whole grid of an archive, about, by default
MOST_CELLS = 10**7  # pyribs holds all of them in memory
SLICE_BYTES = 1 << 24  # read at a time
BLOCK = 256  # generations read at a time, of arrays with few numbers per generation
FEW = 64  # numbers per generation, at most, of an array in a CSV table
FIRST = (  # columns of a CSV table: the metrics
    *("behavior_variance", "entropy", "distance_mean", "distance_max", "fitness_mean", "fitness_max", "invalid_share"),
    *("gradient_norm", "mean_fitness", "mean_behavior"),
)


def export_arrays(run: Run, kind: str, out: Path | None) -> list[Path]:
    """Write the arrays of a run as `kind` (csv or npz) and return the files; `out`: a name that ends in it."""
    target = out or run.path.with_suffix(f".{kind}")
    check_writable(target, suffixes=[f".{kind}"], sources=[run.path])
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    run.check_all()
    return _csv(run, target) if kind == "csv" else _npz(run, target)


def slices(series: Series, limit: int = SLICE_BYTES) -> Iterator[tuple[int, Any]]:
    """Yield (first generation, rows) of a series, about `limit` bytes at a time."""
    row = max(1, math.prod(series.shape[1:]) * series.dtype.itemsize)
    step = max(1, limit // row)
    for start in range(0, len(series), step):
        yield start, series[start : start + step]


def _npz(run: Run, target: Path) -> list[Path]:
    """Write every array over generations, the final state as `final/...`, and the config as text."""
    with written(target) as file, zipfile.ZipFile(file, "w") as archive:
        for name in run.names:
            series = run[name]
            with npz_member(archive, name, series.shape, series.dtype) as member:
                for _, rows in slices(series):
                    member.write(np.ascontiguousarray(rows).data)
        final = {f"final/{name}": array for name, array in run.state_arrays().items()}
        for name, array in {**final, "config": np.array(run.config.to_toml())}.items():
            with npz_member(archive, name, array.shape, array.dtype) as member:
                member.write(array.tobytes())
    return [target]


@contextmanager
def npz_member(archive: zipfile.ZipFile, name: str, shape: Sequence[int], dtype: Any) -> Iterator[IO[bytes]]:
    """Open one array of an npz, to write its bytes."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        header = {"descr": dtype.str, "fortran_order": False, "shape": tuple(shape)}
        np.lib.format.write_array_header_1_0(member, header)
        yield member


def _csv(run: Run, target: Path) -> list[Path]:
    """Write a table with one row per generation, and one with one row per individual."""
    by_axis: dict[bool, list[str]] = {True: [], False: []}
    fields = layout.fields(run.config)
    for name in (name for name in dict.fromkeys([*FIRST, *fields]) if name in run.names):
        individual = "individual" in fields[name].axes
        if individual or math.prod(run[name].shape[1:]) <= FEW:
            by_axis[individual].append(name)
    tables = [target.with_name(f"{target.stem}-{rows}.csv") for rows in ("generations", "individuals")]
    for table in tables:
        if table.is_dir():
            raise ConfigError(f"-o {target}: {table} is a folder")
    _write_table(tables[0], ["generation"], run, by_axis[False])
    _write_table(tables[1], ["generation", "individual"], run, by_axis[True])
    return tables


def _write_table(table: Path, keys: Sequence[str], run: Run, names: Sequence[str]) -> None:
    columns = [column for name in names for column in _columns(name, run[name].shape[len(keys) :])]
    with written(table, "w") as file:
        writer = csv.writer(file)
        writer.writerow([*keys, *columns])
        writer.writerows(_rows(run, names, individuals=len(keys) == 2))


def _columns(name: str, shape: Sequence[int]) -> list[str]:
    """Return the names of the columns of an array: behavior_0, behavior_1."""
    places = itertools.product(*(range(size) for size in shape))
    return ["_".join([name, *map(str, place)]) for place in places]


def _rows(run: Run, names: Sequence[str], individuals: bool) -> Iterator[list[Any]]:
    """Yield one row per generation, or one per generation and individual."""
    series, step = [run[name] for name in names], 1 if individuals else BLOCK
    for start in range(0, run.generations, step):
        block = range(start, min(start + step, run.generations))
        keys = list(itertools.product(block, range(run.config.population.size)) if individuals else zip(block))
        parts = [np.reshape(array[start : block.stop], (len(keys), -1)).tolist() for array in series]
        for key, *row in zip(keys, *parts, strict=True):
            yield [*key, *map(_plain, itertools.chain(*row))]


def _plain(value: Any) -> Any:
    """Return a value in a form that CSV readers know; the csv module writes floats with all digits."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    return value


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
