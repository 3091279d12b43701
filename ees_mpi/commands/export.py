"""`ees-mpi export`: write a policy or the metrics of a run for other programs; arrays: `run.to_xarray()`.

`--policy`: an npz with the layers and the normaliser; docs/tutorial.md has the lines of numpy that load it.
`train --from` and `sample` also start from it: it has the config of the run and the exact observation sums. `--csv`:
the metrics as a table, one row per generation.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.arrays import Singles
from ees_mpi.commands.arguments import check_committed, counted
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_new, check_writable, written
from ees_mpi.generation import OWN
from ees_mpi.policies import MLP, parameter_count
from ees_mpi.run import starting_point
from ees_mpi.run.file import Run
from ees_mpi.run.starting_point import StartingPoint
from ees_mpi.tasks.base import Task
from ees_mpi.tasks.locomotion import PolicyTask


def export_csv(run: Run, out: Path | None, overwrite: bool = False) -> Path:
    """Write the metrics, the times and the digests of all generations; return the file."""
    target = out or run.path.with_suffix(".csv")
    check_writable(target, suffixes=[".csv"], sources=[run.path])
    check_new(target, overwrite)
    check_committed(run)
    run.check_all()
    columns: dict[str, Any] = {"generation": np.arange(run.generations)}
    for name in run:
        if name == "behavior_of_mean":
            columns |= {f"{name}_{place}": column for place, column in enumerate(run[name][:].T)}
        elif name == OWN:
            columns |= dict(zip(run.metric_settings.own_names, run[name][:].T, strict=True))
        elif name == "std":
            columns[name] = np.array([run.std(g) for g in range(run.generations)])
        elif run[name].shape[1:] == ():
            columns[name] = run[name][:].astype(str) if run[name].dtype.kind == "S" else run[name][:]
    with written(target, "w") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return target


def export_policy(
    run: Run,
    out: Path | None = None,
    generation: int | None = None,
    individual: int | None = None,
    component: int | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a policy as `out` (npz), and return its path; by default the mean of the final state."""
    if individual is not None and generation is None:
        generation = -1
    if generation is not None:
        check_committed(run)
        generation = counted("--generation", generation, run.generations)
    chosen = {"generation": generation, "individual": individual, "component": component}
    out = out or Path("-".join(["policy", *(f"{name}{n}" for name, n in chosen.items() if n is not None)]) + ".npz")
    task = check_policy(out, run.config.task, run.path, overwrite)
    start = starting_point.read(run, generation)
    if generation is not None and individual is not None:
        parameters = run.individual(generation, counted("--individual", individual, run.config.population.size))
    else:
        means = len(start.mean)
        if component is None and means > 1:
            raise ConfigError(f"{run.path} has {means} means; select --component 0 to {means - 1}, or an --individual")
        parameters = start.mean[counted("--component", component or 0, means)]
    write_policy(out, task, start, parameters, starting_point.steps_until(run, start.about["generation"]))
    return out


def check_policy(out: Path, task: Task, source: Path, overwrite: bool, option: str = "-o") -> PolicyTask:
    """Raise an error if a task has no network, or if its policy cannot be written; return the task."""
    if not isinstance(task, PolicyTask):
        raise RunFileError(f"{source}: its task has no policy network to export")
    check_writable(out, option, suffixes=[".npz"], sources=[source])
    check_new(out, overwrite)
    return task


def write_policy(out: Path, task: PolicyTask, start: StartingPoint, parameters: Singles, steps: int) -> None:
    """Write the parameters [D] of a policy that comes from a starting point; `steps`: of the training."""
    mean, std = start.statistics
    arrays = {"parameters": parameters} if task.policy else _layers(task, parameters, len(mean))
    with written(out) as file:
        np.savez(
            file,
            observation_mean=mean.astype(np.float32),
            observation_std=std.astype(np.float32),
            **arrays,
            **starting_point.policy_arrays(start, parameters, steps),
        )


def _layers(task: PolicyTask, parameters: Singles, inputs: int) -> dict[str, Any]:
    """Return the layers of our network. Their sizes come from the file, so that no code of the user is needed."""
    sizes = (inputs, *task.hidden)
    outputs = (parameters.size - parameter_count(sizes)) // (sizes[-1] + 1)
    layers = {f"layer{depth}": layer for depth, layer in enumerate(MLP((*sizes, outputs)).matrices(parameters))}
    return {"layers": np.array(list(layers)), **layers}
