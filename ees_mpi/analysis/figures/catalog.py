"""The catalog of figures: the name of each, the files it needs, and the function that draws it."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ees_mpi.analysis.figures import curves, positions
from ees_mpi.analysis.figures.style import Figure, drawing
from ees_mpi.analysis.labels import stds
from ees_mpi.analysis.numbers.selection import open_runs
from ees_mpi.commands.adapt import is_adaptation
from ees_mpi.commands.requests import FigureRequest
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_writable, replaced
from ees_mpi.registry import unknown
from ees_mpi.run.file import is_study, open_run
from ees_mpi.tasks.interference import Interference

FORMATS = (".png", ".pdf", ".svg")
SINGLE, SWEEP, CELL = ("generation",), ("by", "metric", "cell"), ("cell",)  # options that only some figures have


class Recipe(NamedTuple):
    """How to draw a figure; `draw` takes the open runs, and options of the request."""

    draw: Callable[..., Figure]
    paper: str  # the number of the figure in the paper
    needs: str
    options: tuple[str, ...] = ()


FIGURES = {
    "interference": Recipe(curves.interference, "1", "runs of interference-maxvar and interference-maxent, any seeds"),
    "line": Recipe(positions.line, "2", "runs with a behaviour of one number, such as a cheetah's; a panel each"),
    "maml": Recipe(
        positions.maml, "3, S5", "samples (ees-mpi sample) of cheetah runs, MAML also at a quarter of the std"
    ),
    "maml-training": Recipe(curves.maml_training, "", "runs of a -maml preset, any seeds"),
    "plane": Recipe(
        positions.plane, "4", "runs or samples with a behaviour of two numbers, such as an ant's; a panel each", SINGLE
    ),
    "adaptation": Recipe(
        curves.adaptation, "5", "runs of an -adapt preset, with and without --from; a panel for each direction"
    ),
    "adaptation-heatmaps": Recipe(
        positions.adaptation_heatmaps, "6, S3", "runs of ant-adapt with --from; a row each, a few generations", SINGLE
    ),
    "mixture": Recipe(
        partial(positions.plane, by_component=True),
        "7, S4",
        "runs of an ant: single, -mixture and -split; a panel each",
        SINGLE,
    ),
    "locomotion": Recipe(curves.locomotion, "S1, S2", "runs of one robot, any algorithms and seeds"),
    "sweep": Recipe(curves.sweep, "", "runs of a task; the mean of all seeds, one curve for each value of --by", SWEEP),
    "measure": Recipe(curves.measure, "", "files of ees-mpi measure; a curve for each policy", CELL),
    "starts": Recipe(positions.starts, "", "files of ees-mpi measure --starts; a panel for each file, std and axis"),
    "signal": Recipe(curves.signal, "", "runs of any objective; a curve for each, of signal and of step lengths"),
}
OVER_GENERATIONS = (  # need training
    "interference",
    "line",
    "maml-training",
    "adaptation",
    "adaptation-heatmaps",
    "locomotion",
    "sweep",
)


def listed() -> list[str]:
    """Return a line for each name of a figure."""
    return [f"{name:20} {recipe.paper:8} {recipe.needs}" for name, recipe in FIGURES.items()]


def suiting(paths: Sequence[Path]) -> str:
    """Return the name of the figure that suits the rows and the behaviour of run files: those of the first."""
    runs = [path for path in paths if not is_adaptation(path)]
    if not runs:
        other = f" ({paths[0]} is a file of ees-mpi adapt)" if paths else ""
        raise ConfigError(f"figure: expected [NAME] RUN.h5 ..., got no run file{other}; --list prints the names")
    with open_run(runs[0]) as run:
        if not run.config.population.has_individuals:
            return "maml-training"
        if isinstance(run.config.task, Interference) and not is_study(run):
            return "interference"
        if len(stds(run)) > 1:
            return "measure"
        one = "line" if run.generations > 1 else "maml"
        return {1: one, 2: "plane"}.get(run.metric_settings.axes, "locomotion")


def draw(name: str, paths: Sequence[Path], request: FigureRequest) -> Path:
    """Draw a figure from run files; return the path of the picture. No name: the figure that suits the first run."""
    alone, name = len(paths) == 1 and not name, name or suiting(paths)
    paths = [path for path in paths if not is_adaptation(path)]
    if name not in FIGURES:
        raise ConfigError(f"figure: {unknown(name, FIGURES)}")
    recipe = FIGURES[name]
    target = request.out or (paths[0].with_suffix(".png") if alone else Path(f"{name}.png"))
    check_writable(target, "-o", FORMATS, paths)
    if not paths:
        raise ConfigError(f"figure {name} needs {recipe.needs}; got no run file")
    for option in (*SINGLE, *SWEEP, *CELL):
        if getattr(request, option) != getattr(FigureRequest, option) and option not in recipe.options:
            able = ", ".join(other for other, recipe in FIGURES.items() if option in recipe.options)
            raise ConfigError(f"figure {name}: --{option} is for {able}")
    with drawing(), open_runs(paths) as runs:
        for run in filter(is_study, runs) if name in OVER_GENERATIONS else ():
            raise RunFileError(f"{run.path} is a sample, which has no training to show over generations; give its run")
        figure = recipe.draw(runs, *(getattr(request, option) for option in recipe.options))
        with replaced(target) as fresh:
            figure.savefig(fresh, format=target.suffix.removeprefix("."), bbox_inches="tight", pad_inches=0.03)
    return target
