"""The paper's figures, from run files: which there are, what each needs, and drawing one."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ees_mpi.analysis.figures import curves, heatmaps, histograms
from ees_mpi.analysis.figures import mixtures as species
from ees_mpi.analysis.figures.feasibility import feasibility
from ees_mpi.analysis.figures.style import check_target, drawing, save
from ees_mpi.errors import ConfigError
from ees_mpi.registry import unknown
from ees_mpi.store.reader import open_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Recipe(NamedTuple):
    """How a figure is made, and from what; `draw` takes the open runs and, if it can choose, generations."""

    draw: Callable[..., "Figure"]
    needs: str
    runs: bool = True  # False: made of nothing but the program
    chooses: bool = False  # True: takes generations
    paper: str = ""  # which figures of the paper it is


def draw(name: str, paths: Sequence[Path], out: Path | None, generations: Sequence[int] = ()) -> Path:
    """Draw a figure from run files and return where it was written."""
    if name not in FIGURES:
        raise ConfigError(f"figure: {unknown(name, FIGURES)}")
    recipe = FIGURES[name]
    target = out or Path(f"{name}.png")
    check_target(target)
    if bool(paths) is not recipe.runs:
        raise ConfigError(f"figure {name} needs {recipe.needs}; got {len(paths)} run files")
    if generations and not recipe.chooses:
        able = ", ".join(other for other, each in FIGURES.items() if each.chooses)
        raise ConfigError(f"figure {name} shows all generations; --generation is for {able}")
    with drawing(), ExitStack() as stack:
        runs = [stack.enter_context(open_run(path)) for path in paths]
        figure = recipe.draw(runs, generations) if recipe.chooses else recipe.draw(runs)
        save(figure, target)
    return target


FIGURES = {
    "interference": Recipe(
        curves.interference, "runs of interference-maxvar and interference-maxent, any seeds", paper="1"
    ),
    "cheetah": Recipe(heatmaps.spread, "runs of a cheetah, or any with one behavior number; a panel each", paper="2"),
    "maml": Recipe(
        histograms.maml,
        "samples (ees-mpi sample) of cheetah runs, MAML's with the others' std and a quarter of it; a panel each",
        paper="3, S5",
    ),
    "maml-training": Recipe(curves.maml_training, "runs of a -maml preset, any seeds"),
    "ant": Recipe(
        heatmaps.ant, "runs or samples of an ant, or any that end in a plane; a panel each", chooses=True, paper="4"
    ),
    "adaptation": Recipe(
        curves.adaptation, "runs of an -adapt preset, with and without --from; a panel for each direction", paper="5"
    ),
    "adaptation-heatmaps": Recipe(
        heatmaps.adapting, "runs of ant-adapt with --from; a row each, a few generations", chooses=True, paper="6, S3"
    ),
    "mixture": Recipe(
        species.mixture, "runs of an ant: single, -mixture and -split; a panel each", chooses=True, paper="7, S4"
    ),
    "locomotion": Recipe(curves.locomotion, "runs of one robot, any algorithms and seeds", paper="S1, S2"),
    "feasibility": Recipe(feasibility, "no run file", runs=False, paper="theorem"),
}
