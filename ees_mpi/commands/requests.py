"""The requests: one dataclass for each command with many options. Its fields are these options.

`ees-mpi sample` has the options of `SampleRequest`, `ees_mpi.sample` has its fields as arguments, and the work gets the
object. This module imports no numpy. No repr and eq: nobody uses them, and `ees-mpi --help` would wait for them.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ees_mpi.commands import arguments as kinds
from ees_mpi.commands.arguments import FILE, POLICY, POSITIVE, RUN_FILE, SETTINGS, SOURCE, Name, Option, whole
from ees_mpi.registry.toml import settings_of

if TYPE_CHECKING:
    from ees_mpi.config import Config
    from ees_mpi.foreign.policy_files import PolicySource
    from ees_mpi.generation import Record
    from ees_mpi.ranks import Ranks
    from ees_mpi.run.file import Run

# Parameters that several commands have.
RunArgument = Annotated["str | os.PathLike[str] | Run", Option("A run file, or the open run.", RUN_FILE, "RUN.h5")]
PolicyArgument = Annotated[
    "str | os.PathLike[str] | Run",
    Option("A run file, the open run, or an exported policy.", kinds.RUN_OR_POLICY, kinds.RUN_OR_POLICY.metavar),
]
RunArguments = Annotated[Sequence[Path], Option("", RUN_FILE, "RUN.h5 ...")]
SourceArgument = Annotated[str, Option("", kinds.PRESET, "PRESET|FILE.toml")]
Changes = Mapping[str, Any] | None
KEYS = "Set a key of the config, such as population.std=0.05; repeatable."
KeyChanges = Annotated[Changes, Option(KEYS, SETTINGS, "--set KEY=VALUE", many=True)]
EngineChanges = Annotated[
    Changes, Option("Evaluate with another task.engine or task.device.", SETTINGS, "--set KEY=VALUE", many=True)
]
AFTER = "Of the mean; negative: from the end.  [default: the state after the last one]"
StateOf = Annotated[int | None, Option(AFTER, kinds.ANY_WHOLE)]
Generation = Annotated[int | None, Option("[default: the last one]", whole())]
STDS = "Of mutations.  [default: half of, once and twice the run's; 0.01,0.02,0.05 for policies of other programs]"
Std = Annotated[float | None, Option("Of the mutations.  [default: the run's]", POSITIVE)]
Layers = Annotated[Sequence[str], Option("The layers of a torch file, in order.", kinds.NAMES)]
Normaliser = Annotated[Name | None, Option("observation_mean, observation_std.", FILE, "--normaliser FILE.npz")]
NETWORK = (
    "Of a policy of another program: tanh, relu, silu, elu or identity for all hidden layers; or that of each layer, "
    "the last one of the output."
)
Activation = Annotated[str | Sequence[str], Option(NETWORK, kinds.ACTIVATION)]
MaxHours = Annotated[float | None, Option("Stop after so many hours: save the state, exit code 75.", POSITIVE)]
Tensorboard = Annotated[
    Name | None, Option("Write the metrics for TensorBoard into DIR/RUN, too.", kinds.FOLDER, "--tensorboard DIR")
]
Overwrite = Annotated[bool, Option("Replace an existing file.")]
Force = Annotated[bool, Option("Ignore the lock of another writer if the file system has no locks.")]
Trust = Annotated[bool, Option("Run the code that the file names; or set EES_MPI_TRUST=1.", usage="--trust")]
FITTED = "[default: 1 for the paper's robots, else fitted to the data]"
Cell = Annotated[float | None, Option(f"Side of a grid cell, for entropy_fixed and coverage.  {FITTED}", POSITIVE)]
Radius = Annotated[
    float | None,
    Option(
        "Mutations that end nearer to the origin count for near_origin, not for balance and directions.  "
        f"{FITTED.replace('1', '5')}",
        POSITIVE,
    ),
]
Json = Annotated[bool, Option("Print JSON.", usage="--json")]


@dataclass(frozen=True, repr=False, eq=False)
class TrainRequest:
    """Train a preset or a config file.

    One run. `ees-mpi sweep` prints the commands of many.
    """

    config: Annotated[
        "str | os.PathLike[str] | Mapping[str, Any] | Config",
        Option("A preset, a .toml file, a run file, a dict, or a Config.", SOURCE, "PRESET|FILE.toml"),
    ]
    out: Annotated[Name | None, Option("[default: PRESET-seedN.h5]", FILE, "-o, --out RUN.h5")] = None
    _: KW_ONLY
    settings: KeyChanges = None
    seed: Annotated[int | None, Option("Short for --set run.seed=N.", whole())] = None
    generations: Annotated[int | None, Option("Short for --set run.generations=N.", whole(1))] = None
    start: Annotated[
        Any,
        Option(
            "Start from the mean(s) of another run, or a policy (see `measure`). If the first step destroys what it "
            "has learned: --set optimizer.correct_first=false.",
            POLICY,
            "--from RUN.h5[@G]|POLICY",
        ),
    ] = None
    layers: Layers = ()
    normaliser: Normaliser = None
    activation: Activation = ""
    resume: Annotated[bool, Option("Continue an existing file, or start one.")] = False
    overwrite: Annotated[bool, Option("Start again in place of an existing file.")] = False
    max_hours: MaxHours = None
    tensorboard: Tensorboard = None
    force: Force = False
    on_generation: Annotated[
        "Callable[[Record], object] | None",
        Option(
            "Called on rank 0 with the record of each committed generation. If it raises, the run stops, its state is "
            "saved, and the exception is raised here (on other ranks: an Interrupted).",
            usage=None,
        ),
    ] = None
    trust: Trust = False


@dataclass(frozen=True, repr=False, eq=False)
class SampleRequest:
    """Evaluate new mutations of a trained mean."""

    run: PolicyArgument
    count: Annotated[int, Option("The number of mutations.", whole(2))] = 1000
    out: Annotated[Name | None, Option("[default: RUN-sample.h5]", FILE, "-o, --out S.h5")] = None
    _: KW_ONLY
    generation: StateOf = None
    std: Std = None
    settings: EngineChanges = None
    overwrite: Overwrite = False
    trust: Trust = False


@dataclass(frozen=True, repr=False, eq=False)
class AdaptRequest:
    """Adapt a run to a direction, and score the result.

    An evolution run takes the best of some mutations of its mean; a MAML run takes a gradient step. The result is
    scored from other starts.
    """

    run: PolicyArgument
    direction: Annotated[str | float, Option("Degrees are from +x towards +y.", kinds.DIRECTION)]
    out: Annotated[Name | None, Option("[default: RUN-adapt-DIRECTION.h5]", FILE, "-o, --out A.h5")] = None
    _: KW_ONLY
    mutations: Annotated[int | None, Option("The number of mutations.  [default: 40]", whole(2))] = None
    evaluations: Annotated[int, Option("The number of rollouts that score the result.", whole(1, 10**6))] = 10
    policy: Annotated[
        Name | None, Option("Write the adapted policy, too, as `export --policy` does.", FILE, "--policy FILE.npz")
    ] = None
    generation: StateOf = None
    settings: Annotated[
        Changes,
        Option(
            "Evaluate with another task.engine or task.device; task.rollouts=1: choose the mutation from one start, "
            "where the run's own are judged by several.",
            SETTINGS,
            "--set KEY=VALUE",
            many=True,
        ),
    ] = None
    overwrite: Overwrite = False
    trust: Trust = False


@dataclass(frozen=True, repr=False, eq=False)
class MeasureRequest:
    """Measure how evolvable a policy is: mutations at several stds.

    POLICY is a run file, an exported policy (npz), shelf:NAME, a model of Stable-Baselines3 (zip), a torch state_dict,
    its arrays as npz, or module:function. See `ees-mpi docs measure`.
    """

    policy: Annotated[Any, Option("A file, a function, a torch module, or named arrays.", POLICY, "POLICY")]
    task: Annotated[
        str | None,
        Option("The task.  [default: that of a run or an exported policy]", kinds.PRESET),
    ] = None
    std: Annotated[float | Sequence[float] | None, Option(STDS, kinds.POSITIVES)] = None
    count: Annotated[int, Option("Mutations at each std.", whole(2))] = 1000
    out: Annotated[Name | None, Option("[default: POLICY-measure.h5]", FILE, "-o, --out M.h5")] = None
    settings: KeyChanges = None
    _: KW_ONLY
    layers: Layers = ()
    normaliser: Normaliser = None
    activation: Activation = ""
    starts: Annotated[int | None, Option("Unseen starts of each: is the variety heritable?", whole(2))] = None
    label: Annotated[str, Option("The name in tables and figures.  [default: that of the file]")] = ""
    overwrite: Overwrite = False
    trust: Trust = False

    @property
    def target(self) -> Path:
        """The file to write: by default beside the policy, or measure.h5 for a policy that has no name."""
        if self.out is not None or not isinstance(self.policy, str):
            return Path(self.out or "measure.h5")
        from ees_mpi.commands.shelf import output_beside

        folder, name = os.path.split(self.policy)
        return output_beside(Path(folder, name.rpartition(":")[2]), "-measure.h5")


@dataclass(frozen=True, repr=False, eq=False)
class SignalRequest:
    """Measure the share of signal in gradients, and the length of steps.

    Is the population large enough? Is the step too long? See `ees-mpi docs signal`.
    """

    run: RunArgument
    _: KW_ONLY
    generation: Annotated[
        int | None, Option("Negative: from the end.  [default: five, from the first to the last]", kinds.ANY_WHOLE)
    ] = None
    every: Annotated[int | None, Option("Measure each so many-th generation.", whole(1))] = None
    splits: Annotated[int, Option("Into halves; each costs a gradient.", whole(1, 10**6))] = 2
    objective: Annotated[str | None, Option("Of the gradient, on the same rollouts.  [default: the run's]")] = None
    trust: Trust = False


@dataclass(frozen=True, repr=False, eq=False)
class FigureRequest:
    """Draw one of the paper's figures from run files.

    Without NAME, the one that suits the behaviour: `ees-mpi figure RUN.h5`.
    """

    out: Annotated[Path | None, Option("PNG, PDF or SVG.  [default: NAME.png, RUN.png]", FILE, "-o, --out FILE")] = None
    generation: Annotated[
        Sequence[int], Option("For figures of single generations; repeatable.", whole(), many=True)
    ] = ()
    by: Annotated[str | None, Option("For sweep: a curve for each value of KEY.", usage="--by KEY")] = None
    metric: Annotated[
        str | None, Option("For sweep: what is drawn.  [default: the metric of progress lines]", usage="--metric M")
    ] = None
    cell: Annotated[float | None, Option(f"For measure and sweep: side of a grid cell.  {FITTED}", POSITIVE)] = None


@dataclass(frozen=True, repr=False, eq=False)
class ReplayRequest:
    """Evaluate individuals of a run again, and film them.

    Every bit is compared with the file. By default, the individual that went farthest is replayed. Of an exported
    policy, mutations are drawn, and evaluated twice.
    """

    individuals: Annotated[Sequence[int], Option("By number; repeatable.", whole(), "--individual N", many=True)] = ()
    extremes: Annotated[int, Option("So many individuals that differ most.", whole(1, 64))] = 0
    mean: Annotated[bool, Option("The unperturbed mean(s); by default those after the last generation.")] = False
    generation: Generation = None
    mutations: Annotated[int | None, Option("So many new ones of the mean; of a policy 8 by default.", whole(2))] = None
    settings: EngineChanges = None
    video: Annotated[Path | None, Option("Film them; robots with trails.", FILE, "-o, --video FILE.mp4|gif")] = None
    together: Annotated[bool, Option("Draw the places of an environment, with trails, not its pictures.")] = False
    size: Annotated[tuple[int, int] | None, Option("Of the scene, or of each picture.", kinds.PANEL)] = None
    speed: Annotated[float, Option("Of the video.", kinds.number(0.05, 50))] = 1.0
    seconds: Annotated[float | None, Option("Film only so many simulated seconds.", POSITIVE)] = None
    trust: Trust = False


@dataclass(frozen=True, repr=False, eq=False)
class CompareRequest:
    """Test one set of runs against another (Mann-Whitney U).

    Each run has one number. The groups of a set are its algorithms.
    """

    first: RunArguments = ()
    metric: Annotated[
        Sequence[str], Option("The metric to compare; repeatable. See --list.", usage="--metric M", many=True)
    ] = ()
    against: Annotated[
        Sequence[Path], Option("The other set of runs.", RUN_FILE, "--against RUN.h5 ...", many=True)
    ] = ()
    by: Annotated[
        str | None, Option("Compare the values of a key with each other, in place of --against.", usage="--by KEY")
    ] = None
    generation: Generation = None
    radius: Radius = None
    cell: Cell = None


def changes_of(settings: Any) -> Sequence[Any]:
    """Return the changes of a config: the words of the command line, or the pairs of Python's dict."""
    return settings_of(settings) if isinstance(settings, Mapping) else settings or ()


def check_same(ranks: "Ranks", request: Any, *names: str) -> None:
    """Raise a LockStepError on all ranks if arguments differ that each rank uses; rank 0 alone uses all others.

    What makes a training another run counts, too: ranks that expect a run each would all get that of rank 0.
    """
    for name in names:
        value = getattr(request, name)
        text = value.to_toml() if hasattr(value, "to_toml") else repr(value)
        ranks.check_same(text.encode(), f"the argument {name}")


def policy_of(policy: Any, request: TrainRequest | MeasureRequest) -> "PolicySource":
    """Return a policy with the options that describe it."""
    from ees_mpi.foreign.policy_files import PolicySource  # imports numpy

    activation, normaliser = request.activation, None if request.normaliser is None else Path(request.normaliser)
    named = activation if isinstance(activation, str) else tuple(activation)
    return PolicySource(policy, tuple(request.layers), normaliser, named)
