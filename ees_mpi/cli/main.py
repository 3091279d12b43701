"""The entry point of `ees-mpi`: the commands, and the exit codes of errors."""

import os
import signal
import sys
from typing import NoReturn

import click

from ees_mpi import machine, ranks
from ees_mpi.cli import files, looking, running
from ees_mpi.cli.help import cli, no_option
from ees_mpi.errors import EesError, RunFileError, words_of
from ees_mpi.ranks.refusal import leave
from ees_mpi.registry.search import searching
from ees_mpi.terminal import say_on_stderr, show_any_character

PRINTING = {"", "info", "config", "sweep", "presets", "docs", "metrics", "compare"}  # commands that only print

for _module in (running, files, looking):
    for _command in vars(_module).values():
        if isinstance(_command, click.Command):
            cli.add_command(_command)


def main() -> NoReturn:
    """Run the command line; an error is printed once, by one rank."""
    if ranks.launched()[1] != 0 and _only_prints(sys.argv[1:]):
        sys.exit(0)
    machine.pin_threads()
    show_any_character()
    try:
        with searching():
            cli(prog_name="ees-mpi", standalone_mode=False)
    except click.ClickException as error:
        message = no_option(error) if isinstance(error, click.NoSuchOption) else error.format_message()
        if not sys.argv[1:]:  # it is the help
            leave(message, error.exit_code, "")
        if context := getattr(error, "ctx", None):
            pause = "" if message.endswith((".", "?")) else ";"
            message = f"{message}{pause} `{context.command_path} --help` lists the options"
        leave(message, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if ranks.launched()[1] == 0:
            say_on_stderr("ees-mpi: interrupted\n")
        if ranks.launched()[0] > 1:
            os._exit(130)  # every rank, at once: the others may wait for this one in MPI
        sys.exit(130)
    except EesError as error:
        leave(str(error), error.exit_code)
    except OSError as error:
        leave(words_of(error), RunFileError.exit_code)
    except MemoryError as error:
        leave(f"not enough memory: {error}", 1)
    finally:
        ranks.disarm()
    sys.exit(0)


def _only_prints(words: list[str]) -> bool:
    """Return whether a command only prints, which is for rank 0: each rank would print the same.

    Others run on all ranks: `srun bash -c 'ees-mpi report run$SLURM_PROCID.h5'` writes a file on each.
    """
    name = next((word for word in words if not word.startswith("-")), "")
    return name in PRINTING or bool({"-h", "--help", "--version"}.intersection(words))
