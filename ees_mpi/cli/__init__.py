"""The command `ees-mpi`: each parameter of a typed function that has an `Option` becomes an option of click.

A parameter that is a dataclass, a request, stands for all of its fields. The modules beside parse, call and print.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

from ees_mpi import ranks
from ees_mpi.commands import arguments as kinds
from ees_mpi.commands.arguments import Option, options_of
from ees_mpi.errors import ConfigError
from ees_mpi.terminal import nobody_reads, plain, say_on_stderr


def echo(text: str, nl: bool = True) -> None:
    """Write to stdout, without control characters; after the end of `| head` the command goes on in silence."""
    try:
        click.echo(plain(text), nl=nl)
    except BrokenPipeError:
        nobody_reads()
    except OSError as error:  # of a full disk
        raise OSError(error.errno, error.strerror, "stdout") from None


def print_notes(notes: Sequence[str]) -> None:
    """Print notes on stderr: stdout is for the config, or for the plan."""
    for note in filter(None, notes):
        say_on_stderr(f"ees-mpi: note: {note}\n")


class Word(click.ParamType):  # type: ignore[type-arg]
    """A value of an option; the same check as in Python, with the name of the option in its error."""

    name = "word"

    def __init__(self, option: Option) -> None:
        self.option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        names = self.option.names or [self.option.metavar.removesuffix(" ...")]
        return self.option.kind.check(names[-1], value) if isinstance(value, str) and self.option.kind.words else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the presets that the shell can complete a word to; without any, it completes the names of files."""
        names: list[CompletionItem] = []
        if self.option.kind in (kinds.PRESET, kinds.SOURCE):
            from ees_mpi.config import preset_names

            names = [CompletionItem(name) for name in preset_names() if name.startswith(incomplete)]
        runs = (kinds.RUN_FILE, kinds.RUN_OR_POLICY, kinds.POLICY, kinds.PRESET, kinds.SOURCE)
        files = self.option.kind in (kinds.FILE, kinds.FOLDER, *runs) and not names
        return [CompletionItem(incomplete, type="file")] if files else names


def parameter(name: str, option: Option) -> click.Parameter:
    """Return the option of click, or its argument, that an Option describes."""
    kind, metavar = Word(option), option.metavar
    if not option.names:
        count = -1 if metavar.endswith(" ...") else 1
        return click.Argument([name], type=kind, metavar=metavar, nargs=count, required=option.required)
    words = [*option.names, name]
    if not metavar:
        return click.Option(words, is_flag=True, help=option.help)
    options: dict[str, Any] = {"metavar": metavar, "required": option.required, "help": _help(option)}
    return click.Option(words, type=kind, multiple=True, callback=None if option.many else _only, **options)


def _only(context: click.Context, given: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Return the value of an option that may be given once; None without it."""
    if len(values) > 1:
        raise ConfigError(f"{given.opts[-1]}: expected once, got it {len(values)} times")
    return values[0] if values else None


def _help(option: Option) -> str:
    """Return the help of an option, with its default and limits in brackets."""
    text, _, own = option.help.removesuffix("]").partition("[")
    default, facts = option.default, [own] if own else []
    if default not in (None, (), "", 0) and not option.required:
        facts.append(f"default: {','.join(map(str, default)) if isinstance(default, tuple) else default}")
    facts += [option.kind.limits] if option.kind.limits else []
    return f"{text.rstrip()}  [{'; '.join(facts)}]" if facts else text


def command(
    on_ranks: bool = False, kind: type[click.Command] = click.Command
) -> Callable[[Callable[..., None]], click.Command]:
    """Turn a function into a command of its name; its docstring, or that of its request, is the help.

    on_ranks: it runs on all ranks; the time limit for the start of MPI begins before anything large is imported
    """

    def build(function: Callable[..., None]) -> click.Command:
        annotations = {name: each.annotation for name, each in inspect.signature(function).parameters.items()}
        requests: dict[str, Any] = {name: each for name, each in annotations.items() if is_dataclass(each)}

        def run(**words: Any) -> None:
            if on_ranks:
                ranks.begin_start()
            given = {name: value for name, value in words.items() if value is not None and value != ()}
            made = {
                name: request(**{field: given.pop(field) for field in options_of(request) if field in given})
                for name, request in requests.items()
            }
            function(**made, **given)

        options = {name: option for each in (*requests.values(), function) for name, option in options_of(each).items()}
        found = [parameter(name, option) for name, option in options.items() if option.usage]
        texts = [inspect.getdoc(each) for each in (function, *requests.values())]
        return kind(function.__name__, params=found, callback=run, help=next(text for text in texts if text))

    return build
