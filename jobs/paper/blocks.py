"""A block of runs in one plain HDF5 file: all metrics of every generation, adaptations, some final positions.

    xarray.open_dataset("jobs/paper/results/sixth.h5", engine="h5netcdf")      # pip install h5netcdf
    h5py.File("jobs/paper/results/sixth.h5")["distance_mean"][:]     # [run, generation], NaN after the last one

The axis `run` has the runs by name. Metrics are [run, generation]. `last_position` [run, individual, axis] has up to
1,000 offspring of the last generation, `last_component` their means in a mixture.
`mutations` and `evaluations` [run, direction, number] are of few-shot adaptation: distances in the wanted direction.
`by_start/NAME` [mutation, start, axis] has the raw places of a measurement (`measure --starts`) as float16; places.py
computes its variances.
`config` has the config of each run as TOML, `about` the rest as JSON: digest, sessions, machine, what it started from.

A block is made from folders of small files, one for each run: run.json, metrics.csv, behaviors.npz, perhaps
by_start.npz, and adaptations/NAME-adapt-left.json beside them. Of MAML, whose policy is adapted without
mutations, adaptations/NAME-adapt-left-own/ has a sample of it (of no width) from the start of the training.
"""

import csv
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats
from ees_mpi.files import replaced

LAST = 1000  # offspring of the last generation, at most
WAYS = ("left", "right")
ADAPTED = {"mutations": 40, "evaluations": 10}  # of an adaptation, at most
CLOCK = "seconds_clock"
RENAMED = {  # metrics of the small files
    "mean_fitness": "fitness_of_mean",
    "objective_gain": "surrogate_gain",
    "left": "left_share",
    "right": "right_share",
}
PACKED = {"compression": "gzip", "compression_opts": 9, "shuffle": True, "fletcher32": True}


@dataclass(frozen=True)
class KeptRun:
    """All that is kept of a run."""

    name: str
    toml: str  # its config
    about: dict[str, Any]
    metrics: dict[str, Floats]  # [generation]
    last: Floats  # [n, axes]: final positions of some offspring of the last generation
    component: NDArray[np.int8]  # [n]: the mean that each of them perturbs
    mutations: dict[str, Floats] = field(default_factory=dict)  # by direction: distances of all; of MAML's one policy
    evaluations: dict[str, Floats] = field(default_factory=dict)  # distances of the best one from other starts

    @cached_property
    def config(self) -> dict[str, Any]:
        """The sections of its config."""
        return tomllib.loads(self.toml)

    @property
    def generations(self) -> int:
        """The number of committed generations."""
        return int(self.about["generations"])


def read_folder(folder: Path) -> KeptRun:
    """Read the small files of a run but its adaptations."""
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    toml = about.pop("config")
    for session in about["sessions"]:
        session.pop("config", None)
    metrics = read_metrics(folder / "metrics.csv")
    with np.load(folder / "behaviors.npz") as file:
        arrays = dict(file)
    if "mean" in arrays:
        metrics["mean_x"] = arrays["mean"][:, 0, 0].astype(np.float64)
    last, component = arrays["behavior"].astype(np.float64), arrays["parent"]
    chosen = np.sort(np.random.default_rng(0).permutation(len(last))[:LAST])
    about |= {"metrics": sorted(metrics), "adaptations": {}}
    return KeptRun(folder.name, toml, about, metrics, last[chosen], component[chosen])


def read_metrics(path: Path) -> dict[str, Floats]:
    """Read the metrics of a run, by their names of today."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "generation"]
    return {RENAMED.get(name, name): np.array([float(row[name]) for row in rows]) for name in names}


def with_adaptations(run: KeptRun, folder: Path) -> KeptRun:
    """Return a run with the adaptations that lie beside its folder, or with those that it has."""
    about: dict[str, Any] = {}
    mutations, evaluations = {}, {}
    for way in WAYS:
        path = folder.parent / "adaptations" / f"{folder.name}-adapt-{way}.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not found:  # there is none, or an empty one
            continue
        about[way] = {key: found[key] for key in found if "/" not in key and key not in ("config", "format")}
        mutations[way] = np.array(found.get("mutations/fitness", []))
        evaluations[way] = np.array(found.get("evaluations/fitness", []))
        own = path.parent / f"{path.stem}-own" / "behaviors.npz"
        if own.exists():
            mutations[way] = np.load(own)["behavior"][:1, -1] * (1 if way == "right" else -1)
    if not about:
        return run
    return replace(run, about={**run.about, "adaptations": about}, mutations=mutations, evaluations=evaluations)


def padded(parts: Sequence[Any], sizes: Sequence[int], fill: float = math.nan, kind: Any = np.float64) -> Any:
    """Return arrays of different sizes as one, [part, *sizes]; the rest is filled."""
    whole = np.full((len(parts), *sizes), fill, kind)
    for row, part in zip(whole, parts, strict=True):
        row[tuple(map(slice, np.shape(part)))] = part
    return whole


def arrays_of(runs: Sequence[KeptRun]) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    """Return the arrays of a block, [run, ...], with the names of their other axes."""
    found: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
    generations = max(run.generations for run in runs)
    for name in sorted({name for run in runs for name in run.metrics}):
        values = padded([run.metrics.get(name, ()) for run in runs], [generations])
        if name == CLOCK:  # from the first generation on, so that float32 has enough digits
            values = values - values[:, :1]
        found[name] = ("generation",), values.astype(np.float32)
    individuals, axes = np.max([run.last.shape for run in runs], axis=0)
    last = padded([run.last for run in runs], [individuals, axes], kind=np.float32)
    component = padded([run.component for run in runs], [individuals], fill=-1, kind=np.int8)
    found["last_position"] = ("individual", "axis"), last
    found["last_component"] = ("individual",), component
    if any(run.mutations for run in runs):
        for name, size in ADAPTED.items():
            parts = [padded([getattr(run, name).get(way, ()) for way in WAYS], [size]) for run in runs]
            found[name] = ("direction", name.removesuffix("s")), padded(parts, [len(WAYS), size], kind=np.float32)
    return found


def write_block(path: Path, runs: Sequence[KeptRun], by_start: Mapping[str, Any] | None = None) -> None:
    """Write runs, and raw places of measurements by name, as one HDF5 file; the same runs give the same bytes."""
    runs = sorted(runs, key=lambda run: run.name)
    arrays = arrays_of(runs)
    sizes = {dim: size for dims, values in arrays.values() for dim, size in zip(dims, values.shape[1:], strict=True)}
    with replaced(path) as fresh, h5py.File(fresh, "w", track_order=False, libver=("v110", "v110")) as file:
        file.attrs["format"], file.attrs["format_version"] = "ees_mpi block of runs", 1
        file.attrs["description"] = (__doc__ or "").partition("\n")[0]
        _texts(file, "run", [run.name for run in runs]).make_scale("run")
        for dim, size in sizes.items():
            file.create_dataset(dim, data=np.arange(size)).make_scale(dim)
        _texts(file, "config", [run.toml for run in runs]).dims[0].attach_scale(file["run"])
        _texts(file, "about", [json.dumps(run.about) for run in runs]).dims[0].attach_scale(file["run"])
        for name, (dims, values) in arrays.items():
            data = _numbers(file, name, values)
            for place, dim in enumerate(("run", *dims)):
                data.dims[place].attach_scale(file[dim])
        for name, raw in sorted((by_start or {}).items()):
            _numbers(file, f"by_start/{name}", np.asarray(raw, np.float16))


def _numbers(file: h5py.File, name: str, values: Any) -> Any:
    return file.create_dataset(name, data=values, chunks=values.shape, track_times=False, **PACKED)


def _texts(file: h5py.File, name: str, texts: Sequence[str]) -> Any:
    """Write texts of one length, which gzip makes small."""
    data = [text.encode() for text in texts]
    kind = h5py.string_dtype("utf-8", max(map(len, data)))
    return file.create_dataset(name, data=np.array(data, kind), chunks=(len(data),), track_times=False, **PACKED)


def read_block(path: Path) -> list[KeptRun]:
    """Read the runs of a block."""
    with h5py.File(path) as file:
        arrays = {name: data[()] for name, data in file.items() if isinstance(data, h5py.Dataset)}
    found = []
    for place, name in enumerate(name.decode() for name in arrays["run"]):
        toml, about = arrays["config"][place].decode(), json.loads(arrays["about"][place])
        metrics = {key: arrays[key][place, : about["generations"]].astype(np.float64) for key in about["metrics"]}
        last, component = arrays["last_position"][place].astype(np.float64), arrays["last_component"][place]
        there, axes = component >= 0, np.isfinite(last).any(axis=0)
        run = KeptRun(name, toml, about, metrics, last[there][:, axes], component[there])
        for number, way in enumerate(WAYS):
            if way in about["adaptations"]:
                run.mutations[way] = arrays["mutations"][place, number].astype(np.float64)
                run.evaluations[way] = arrays["evaluations"][place, number].astype(np.float64)
        found.append(run)
    return found


def read_by_start(path: Path) -> dict[str, Any]:
    """Read the raw places of a block: by the name of the measurement, [mutation, start, axis]."""
    with h5py.File(path) as file:
        return {name: data[()] for name, data in file.get("by_start", {}).items()}
