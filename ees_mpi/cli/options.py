"""Commands from typed signatures: each parameter that has an `Option` becomes an option of click.

A parameter that is a dataclass stands for all of its fields.
"""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Annotated, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from ees_mpi import ranks
from ees_mpi.commands.arguments import File, Number, Option, Source, options_of
from ees_mpi.commands.requests import Trust
from ees_mpi.ranks.process import DEFAULT_MINUTES
from ees_mpi.ranks.process import START_MINUTES as ENVIRONMENT
from ees_mpi.registry import trusting
from ees_mpi.terminal import plain

START_MINUTES = Option(
    "--start-minutes X",
    f"End the job if MPI has not started on all ranks after this time.  [default: {DEFAULT_MINUTES:g}]",
    Number(high=1e6),
)
TRUST: Option = Trust.__metadata__[0]  # type: ignore[attr-defined]


Json = Annotated[bool, Option("--json", "One JSON object, or a list of them.")]


def echo(text: str, nl: bool = True) -> None:
    """Write to stdout, without control characters."""
    click.echo(plain(text), nl=nl)


class Word(click.ParamType):  # type: ignore[type-arg]
    """A value of an option; the same check as in Python, with the name of the option in its error."""

    name = "word"

    def __init__(self, option: Option) -> None:
        self.option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a word."""
        named = self.option.names[-1] if self.option.names else self.option.metavar.removesuffix(" ...")
        return self.option.kind.read(named, value) if isinstance(value, str) else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the presets that the shell can complete a word to; without any, it completes the names of files."""
        names: list[CompletionItem] = []
        if isinstance(self.option.kind, Source):
            from ees_mpi.config import preset_names

            names = [CompletionItem(name) for name in preset_names() if name.startswith(incomplete)]
        files = isinstance(self.option.kind, (File, Source)) and not names
        return [CompletionItem(incomplete, type="file")] if files else names


def parameter(name: str, option: Option, default: Any) -> click.Parameter:
    """Return the option of click, or its argument, that an Option describes."""
    required = default is inspect.Parameter.empty or (name, default) == ("config", None)
    if not option.names:
        count = -1 if option.metavar.endswith(" ...") else 1
        return click.Argument([name], type=Word(option), metavar=option.metavar, nargs=count, required=required)
    if not option.metavar:
        return click.Option([*option.names, name], is_flag=True, help=option.help)
    return click.Option(
        [*option.names, name],
        type=Word(option),
        metavar=option.metavar,
        multiple=option.many,
        required=required,
        help=_help(option, default),
    )


def _help(option: Option, default: Any) -> str:
    """Return the help of an option, with its default and limits in brackets."""
    text, _, own = option.help.removesuffix("]").partition("[")
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    facts = [own] if own else []
    if default is inspect.Parameter.empty:
        facts.append("required")
    elif default not in (None, (), ""):
        facts.append(f"default: {shown}")
    facts += [option.kind.limits] if option.kind.limits else []
    return f"{text.rstrip()}  [{'; '.join(facts)}]" if facts else text


def command(
    on_ranks: bool = False, trusts: bool = False, kind: type[click.Command] = click.Command
) -> Callable[[Callable[..., None]], click.Command]:
    """Turn a function into a command of its name; its docstring, or that of its request, is the help.

    on_ranks: it runs on all ranks, and has --start-minutes; trusts: it has --trust, without a parameter for it
    """

    def build(function: Callable[..., None]) -> click.Command:
        requests: dict[str, Any] = {
            each.name: each.annotation
            for each in inspect.signature(function).parameters.values()
            if is_dataclass(each.annotation)
        }

        def run(**words: Any) -> None:
            given = {name: value for name, value in words.items() if value is not None and value != ()}
            with trusting(bool(given.get("trust"))):
                arguments = {
                    name: request(**{field: given.pop(field) for field in options_of(request) if field in given})
                    for name, request in requests.items()
                }
                if trusts:
                    given.pop("trust")
                function(**arguments, **given)

        described = [options_of(each) for each in (*requests.values(), function)]
        found = [parameter(name, *each) for options in described for name, each in options.items() if each[0].usage]
        found += [parameter("trust", TRUST, False)] if trusts else []
        found += [_start_minutes()] if on_ranks else []
        texts = [inspect.getdoc(each) for each in (function, *requests.values())]
        name = function.__name__.strip("_")
        return kind(name, params=found, callback=run, help=next(text for text in texts if text))

    return build


MINUTES = "ees_mpi.start_minutes"


def _start_minutes() -> click.Parameter:
    def begin(context: click.Context, option: click.Parameter, minutes: float) -> None:
        context.meta[MINUTES] = minutes
        ranks.begin_start(minutes)

    made = parameter("start_minutes", START_MINUTES, None)
    made.default, made.envvar, made.callback, made.expose_value = DEFAULT_MINUTES, ENVIRONMENT, begin, False
    return made


def run_on_ranks(job: "Callable[[ranks.Ranks], object]") -> NoReturn:
    """Run the job of a command with `on_ranks` on all ranks, and exit."""
    ranks.run(job, click.get_current_context().meta[MINUTES])
