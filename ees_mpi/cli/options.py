"""The options and arguments that several commands share."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from ees_mpi import ranks
from ees_mpi.registry import trusting
from ees_mpi.terminal import plain


def echo(text: str, nl: bool = True) -> None:
    """Write to stdout, without control characters."""
    click.echo(plain(text), nl=nl)


class Finite(click.FloatRange):
    """A finite number in a range; click itself accepts NaN in every range."""

    def _describe_range(self) -> str:
        if self.min is None and self.max is None:
            return ""
        # The help page leaves out a limit that only guards against overflow.
        return super()._describe_range() if (self.max or 0) < 1e6 else f"x{'>' if self.min_open else '>='}{self.min:g}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"expected a finite number, got {value}", param, ctx)
        return number


MOST_SEEDS = 10_000


class AtLeastOne(click.IntRange):
    """A whole number from 1 on; the upper limit only guards against overflow."""

    def __init__(self, most: int = 2**62) -> None:
        super().__init__(1, most)

    def _describe_range(self) -> str:
        return "x>=1"


POSITIVE = Finite(min=0, min_open=True)


class RunFile(click.Path):
    """The name of a run file. A named pipe or a device is refused, because reading it would wait for ever."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)  # `open_run` reports the cause

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        from ees_mpi.commands.arguments import path_of

        if not str(value) or "\0" in str(value):
            self.fail("expected the name of a run file, got an empty one", param, ctx)
        return super().convert(path_of(value), param, ctx)


class Seeds(click.ParamType):  # type: ignore[type-arg]
    """Random seeds: numbers and ranges, such as 0-5,8."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seeds in the order in which they are given."""
        if not isinstance(value, str):
            return value
        seeds: list[int] = []
        for part in value.split(","):
            first, dash, last = part.partition("-")
            digits = all(word.isascii() and word.isdigit() and len(word) < 20 for word in (first, last or first))
            if not digits or (dash and not last) or int(last or first) < int(first):
                self.fail(f"expected numbers and ranges, such as 0-5 or 1,4,7; got {value!r:.80}", param, ctx)
            if len(seeds) + int(last or first) - int(first) >= MOST_SEEDS:
                self.fail(f"expected at most {MOST_SEEDS} seeds", param, ctx)
            seeds += range(int(first), int(last or first) + 1)
        if len(set(seeds)) < len(seeds):
            self.fail(f"expected each seed once, got {value!r:.80}", param, ctx)
        return tuple(seeds)


def _complete_source(context: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the presets that the shell can complete a word to; without any, it completes the names of files."""
    from ees_mpi.config import preset_names

    names = [CompletionItem(name) for name in preset_names() if name.startswith(begun)]
    return names or [CompletionItem(begun, type="file")]


RUN = click.argument("run", type=RunFile(), metavar="RUN.h5")
RUNS = click.argument("runs", nargs=-1, required=True, type=RunFile(), metavar="RUN.h5 ...")
SOURCE = click.argument("source", metavar="PRESET|FILE.toml", shell_complete=_complete_source)
SEEDS = click.option(
    "--seeds", type=Seeds(), default=(), metavar="0-5", help="Random seeds, one run each: 0-5 or 1,4,7."
)
SET = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a key of the config; repeatable.")
ENGINE = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Evaluate with another task.engine or task.device."
)
MAX_HOURS = click.option("--max-hours", type=POSITIVE, help="Stop after so many hours: save the state, exit code 75.")
TENSORBOARD = click.option(
    "--tensorboard",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the metrics for TensorBoard into DIR/RUN, too.",
)
TRUST = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=lambda context, option, wanted: context.with_resource(trusting(wanted)),
    help="Run the code that the run file names; or set EES_MPI_TRUST=1.",
)
MINUTES = "ees_mpi.start_minutes"


def _begin_start(context: click.Context, option: click.Parameter, minutes: float) -> None:
    context.meta[MINUTES] = minutes
    ranks.begin_start(minutes)


START_MINUTES = click.option(
    "--start-minutes",
    type=Finite(min=0, max=1e6, min_open=True),
    default=5.0,
    show_default=True,
    envvar="EES_MPI_START_MINUTES",
    expose_value=False,
    callback=_begin_start,
    help="End the job if MPI has not started on all ranks after this time.",
)
POLICY_OPTIONS = (
    click.option(
        "--activation",
        default="",
        metavar="NAME[,NAME...]",
        help="Of a policy of another program: tanh, relu, silu, elu or identity for all hidden layers; or that of each "
        "layer, the last one of the output.",
    ),
    click.option("--normaliser", type=click.Path(path_type=Path), metavar="FILE.npz", help="observation_mean, _std."),
    click.option("--layers", default="", metavar="NAME[,NAME...]", help="The layers of a torch file, in order."),
)


def policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a policy of another program; `policy_of` takes them."""
    for option in POLICY_OPTIONS:
        command = option(command)
    return command


def policy_of(policy: str | None, options: dict[str, Any]) -> Any:
    """Return the policy that the options describe, and remove them; None if there is no policy."""
    layers, normaliser, activation = (options.pop(name) for name in ("layers", "normaliser", "activation"))
    if policy == "":
        raise click.UsageError("--from: expected RUN.h5 or RUN.h5@GENERATION, got an empty name")
    if policy is None:
        if layers or normaliser or activation:
            raise click.UsageError("--layers, --normaliser and --activation describe the policy of --from; add --from")
        return None
    from ees_mpi.commands.arguments import policy_source

    return policy_source("POLICY", policy, [name.strip() for name in layers.split(",") if name], normaliser, activation)


FORCE = click.option("--force", is_flag=True, help="Ignore the lock of another writer if the file system has no locks.")


def run_on_ranks(job: "Callable[[ranks.Ranks], object]") -> NoReturn:
    """Run the job of a command that has the option `--start-minutes` on all ranks, and exit."""
    ranks.run(job, click.get_current_context().meta[MINUTES])
