"""The requests: one dataclass for each command with many options. Its fields are these options.

`ees-mpi sample` has the options of `SampleRequest`, `ees_mpi.sample` has its fields as arguments, and the work gets the
object. This module imports no numpy.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ees_mpi.commands.arguments import (
    ANY_WHOLE,
    AT_LEAST_ONE,
    FILE,
    POLICY,
    POSITIVE,
    RUN_FILE,
    Call,
    Direction,
    Names,
    Number,
    Numbers,
    Option,
    Settings,
    Source,
    Whole,
)

if TYPE_CHECKING:
    from ees_mpi.config import Config
    from ees_mpi.generation.results import Record
    from ees_mpi.registry.toml import Setting
    from ees_mpi.runs.policy_files import PolicySource
    from ees_mpi.store.reader import Run

Name = str | os.PathLike[str]  # of a file
RunArgument = Annotated["Name | Run", Option("RUN.h5", "the name of a run file, or the open run", RUN_FILE)]
RunArguments = Annotated[Sequence[Name], Option("RUN.h5 ...", "", RUN_FILE)]
SourceArgument = Annotated[str, Option("PRESET|FILE.toml", "", Source())]
KeyChanges = Annotated[
    "Mapping[str, Any] | None",
    Option("--set KEY=VALUE", 'Set a key of the config; repeatable. In Python: {"key": value}.', Settings(), many=True),
]
EngineChanges = Annotated[
    "Mapping[str, Any] | None",
    Option("--set KEY=VALUE", "Evaluate with another task.engine or task.device.", Settings(), many=True),
]
StateOf = Annotated[
    int | None,
    Option(
        "--generation N", "Of the mean; negative: from the end.  [default: the state after the last one]", ANY_WHOLE
    ),
]
Std = Annotated[float | None, Option("--std X", "Of the mutations.  [default: the run's]", Number())]
Layers = Annotated[Sequence[str], Option("--layers NAME[,NAME...]", "The layers of a torch file, in order.", Names())]
Normaliser = Annotated["Name | None", Option("--normaliser FILE.npz", "observation_mean, observation_std.", FILE)]
Activation = Annotated[
    str | Sequence[str],
    Option(
        "--activation NAME[,NAME...]",
        "Of a policy of another program: tanh, relu, silu, elu or identity for all hidden layers; or that of each "
        "layer, the last one of the output.",
    ),
]
MaxHours = Annotated[
    float | None, Option("--max-hours X", "Stop after so many hours: save the state, exit code 75.", POSITIVE)
]
Tensorboard = Annotated[
    "Name | None", Option("--tensorboard DIR", "Write the metrics for TensorBoard into DIR/RUN, too.", FILE)
]
Overwrite = Annotated[bool, Option("--overwrite", "Replace an existing file.")]
Force = Annotated[bool, Option("--force", "Ignore the lock of another writer if the file system has no locks.")]
Trust = Annotated[bool, Option("--trust", "Run the code that the run file names; or set EES_MPI_TRUST=1.")]


@dataclass(frozen=True)
class TrainOptions:
    """Train a preset or a config file.

    One run. `ees-mpi sweep` prints the commands of many.
    """

    config: Annotated[
        "Name | Mapping[str, Any] | Config | None",
        Option("PRESET|FILE.toml", "A preset, a .toml file, a run file, a dict, or a Config.", Source()),
    ] = None
    out: Annotated[
        "Name | None",
        Option("-o, --out RUN.h5", "[default: PRESET-KEYS-seedN.h5; needed for a dict, a Config or a task]", FILE),
    ] = None
    _: KW_ONLY
    settings: KeyChanges = None
    seed: Annotated[int | None, Option("--seed N", "Short for --set run.seed=N.", Whole())] = None
    generations: Annotated[
        int | None, Option("--generations N", "Short for --set run.generations=N.", AT_LEAST_ONE)
    ] = None
    start: Annotated[
        Any,
        Option(
            "--from RUN.h5[@G]|POLICY",
            "Start from the mean(s) of another run, or a policy (see `measure`). If the first step destroys what it "
            "has learned: --set optimizer.correct_first=false.",
            POLICY,
        ),
    ] = None
    layers: Layers = ()
    normaliser: Normaliser = None
    activation: Activation = ""
    resume: Annotated[bool, Option("--resume", "Continue an existing file, or start one.")] = False
    overwrite: Annotated[bool, Option("--overwrite", "Start again in place of an existing file.")] = False
    max_hours: MaxHours = None
    tensorboard: Tensorboard = None
    force: Force = False
    task: Annotated[
        Callable[..., Any] | None,
        Option(
            "",
            "A function in place of the config's task: f(z) returns a behaviour, or (behaviour, fitness). Its "
            "objective is MaxEnt by default.",
            Call(),
        ),
    ] = None
    parameters: Annotated[int | None, Option("", "The length of z, for `task`; a run file knows it.")] = None
    behavior_dim: Annotated[int | None, Option("", "The length of a behaviour, for `task`.")] = None
    batch: Annotated[bool | None, Option("", "`task` gets several individuals: f(z[n, D]).")] = None
    mean: Annotated[Any, Option("", "The first mean [D] for `task`.  [default: zeros]")] = None
    keep_source: Annotated[bool, Option("", "Keep the source of `task` in the file, to read; nothing runs it.")] = False
    on_generation: Annotated[
        "Callable[[Record], object] | None",
        Option(
            "",
            "Called on rank 0 with the record of each committed generation. If it raises, the run stops, its state is "
            "saved, and the exception is raised here (on other ranks: an Interrupted).",
            Call(),
        ),
    ] = None
    trust: Annotated[bool, Option("", "Run the code that a run file names.")] = False


@dataclass(frozen=True)
class SampleRequest:
    """Evaluate new offspring of a trained mean."""

    run: RunArgument
    count: Annotated[int, Option("--count N", "The number of offspring.", Whole(2))]
    out: Annotated["Name | None", Option("-o, --out S.h5", "[default: RUN-sample.h5]", FILE)] = None
    _: KW_ONLY
    generation: StateOf = None
    std: Std = None
    component: Annotated[int | None, Option("--component N", "Of a mixture.  [default: all of them]", Whole())] = None
    settings: EngineChanges = None
    overwrite: Overwrite = False
    trust: Trust = False


@dataclass(frozen=True)
class AdaptRequest:
    """Adapt a run to a direction, and score the result.

    An evolution run takes the best of some mutations of its mean; a MAML run takes a gradient step. The result is
    scored from other starts.
    """

    run: RunArgument
    direction: Annotated[
        str | float, Option("--direction left|right|45deg", "Degrees are from +x towards +y.", Direction())
    ]
    out: Annotated["Name | None", Option("-o, --out A.h5", "[default: RUN-adapt-DIRECTION.h5]", FILE)] = None
    _: KW_ONLY
    mutations: Annotated[int | None, Option("--mutations N", "The number of mutations.  [default: 40]", Whole(2))] = (
        None
    )
    evaluations: Annotated[
        int, Option("--evaluations N", "The number of rollouts that score the result.", Whole(1, 10**6))
    ] = 10
    generation: StateOf = None
    std: Std = None
    settings: EngineChanges = None
    overwrite: Overwrite = False
    trust: Trust = False


@dataclass(frozen=True)
class MeasureRequest:
    """Measure how evolvable a policy is, from its mutations at several stds.

    POLICY is a run file, an exported policy (npz), a model of Stable-Baselines3 (zip), a torch state_dict, a file of
    safetensors, or module:function. See `ees-mpi docs measure`.
    """

    policy: Annotated[
        Any, Option("POLICY", "A file, 'module:function', a function, a torch module, or named arrays.", POLICY)
    ]
    task: Annotated[
        str | None,
        Option("--task PRESET|FILE.toml", "The task.  [default: that of a run or an exported policy]", Source()),
    ] = None
    std: Annotated[float | Sequence[float], Option("--std S[,S...]", "Of mutations.", Numbers())] = (0.01, 0.02, 0.05)
    count: Annotated[int, Option("--count N", "Offspring at each std.", Whole(2))] = 1000
    out: Annotated[Name, Option("-o, --out M.h5", "", FILE)] = "measure.h5"
    settings: KeyChanges = None
    _: KW_ONLY
    layers: Layers = ()
    normaliser: Normaliser = None
    activation: Activation = ""
    label: Annotated[str, Option("--label TEXT", "The name in tables and figures.  [default: that of the file]")] = ""
    overwrite: Overwrite = False
    trust: Trust = False


@dataclass(frozen=True)
class SignalRequest:
    """Measure how much of a gradient is signal, and how long the steps are.

    Is the population large enough? Is the step too long? See `ees-mpi docs signal`.
    """

    run: RunArgument
    _: KW_ONLY
    generation: Annotated[
        int | None,
        Option("--generation N", "Negative: from the end.  [default: five, from the first to the last]", ANY_WHOLE),
    ] = None
    every: Annotated[int | None, Option("--every N", "Measure each so many-th generation.", AT_LEAST_ONE)] = None
    splits: Annotated[int, Option("--splits N", "Into halves; each costs a gradient.", Whole(1, 10**6))] = 2
    objective: Annotated[
        str | None, Option("--objective NAME", "Of the gradient, on the same rollouts.  [default: the run's]")
    ] = None
    trust: Trust = False


@dataclass(frozen=True)
class FigureRequest:
    """Draw one of the paper's figures from run files."""

    out: Annotated["Name | None", Option("-o, --out FILE", "PNG, PDF or SVG.  [default: NAME.png]", FILE)] = None
    generations: Annotated[
        Sequence[int],
        Option("--generation N", "For figures of single generations; repeatable.", Whole(), many=True),
    ] = ()
    labels: Annotated[
        Sequence[str],
        Option("--label TEXT", "The name of a run in the figure; one for each file, in their order.", many=True),
    ] = ()
    title: Annotated[str, Option("--title TEXT", "Of the whole figure.")] = ""
    by: Annotated[
        str | None, Option("--by KEY", "For sweep: a curve for each value of this key, such as population.std.")
    ] = None
    metric: Annotated[
        str | None, Option("--metric M", "For sweep: what is drawn.  [default: the metric of progress lines]")
    ] = None


@dataclass(frozen=True)
class ReplayRequest:
    """Evaluate individuals of a run again, and film them.

    Every bit is compared with the file. By default, the individual that went farthest is replayed. Of an exported
    policy, mutations are drawn.
    """

    individuals: Annotated[Sequence[int], Option("--individual N", "By number; repeatable.", Whole(), many=True)] = ()
    toward: Annotated[
        Sequence[str],
        Option("--toward left|right|45deg", "The farthest in a direction; repeatable.", many=True),
    ] = ()
    extremes: Annotated[int, Option("--extremes N", "So many individuals that differ most.", Whole(1, 64))] = 0
    mean: Annotated[bool, Option("--mean", "The unperturbed mean(s); by default those after the last generation.")] = (
        False
    )
    generation: Annotated[int | None, Option("--generation N", "[default: the last]", Whole())] = None
    mutations: Annotated[
        int | None, Option("--mutations N", "Of a policy: so many are drawn.  [default: 8]", Whole(2))
    ] = None
    std: Annotated[float | None, Option("--std X", "Of these mutations.  [default: that of its config]", Number())] = (
        None
    )
    video: Annotated["Name | None", Option("-o, --video FILE.mp4", "Film them, side by side.", FILE)] = None
    size: Annotated[str | None, Option("--size 320x240", "Of one panel of the video.")] = None
    speed: Annotated[float, Option("--speed X", "Of the video.", Number(0.05, 50, "a number between 0.05 and 50"))] = (
        1.0
    )


@dataclass(frozen=True)
class CompareRequest:
    """Test one set of runs against another (Mann-Whitney U).

    Each run has one number. The groups of a set are its algorithms.
    """

    first: RunArguments = ()
    metrics: Annotated[
        Sequence[str], Option("--metric M", "The metric to compare; repeatable. See --list.", many=True)
    ] = ()
    second: Annotated[
        Sequence[Name], Option("--against RUN.h5 ...", "The other set of runs.", RUN_FILE, many=True)
    ] = ()
    by: Annotated[
        str | None, Option("--by KEY", "Compare the values of a key with each other, in place of --against.")
    ] = None
    generation: Annotated[int | None, Option("--generation N", "[default: the last one of each]", Whole())] = None


def changes_of(request: TrainOptions | SampleRequest | AdaptRequest | MeasureRequest) -> "Sequence[Setting]":
    """Return the changes of the config: the words of the command line, or the pairs that Python's dict became."""
    changes: Any = request.settings
    return changes or ()


def policy_of(policy: Any, request: TrainOptions | MeasureRequest) -> "PolicySource":
    """Return a policy with the options that describe it."""
    from ees_mpi.runs.policy_files import PolicySource  # imports numpy

    words = request.activation
    if isinstance(words, str) and "," in words:
        words = words.split(",")
    return PolicySource(
        policy,
        tuple(request.layers),
        None if request.normaliser is None else Path(request.normaliser),
        words if isinstance(words, str) else tuple(str(word).strip() for word in words),
    )
