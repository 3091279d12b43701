"""The entry point of `ees-mpi`: the commands, and the exit codes of errors."""

import sys
from typing import NoReturn

import click

from ees_mpi import machine, ranks
from ees_mpi.cli import files, looking, numbers, running
from ees_mpi.errors import EesError, RunFileError
from ees_mpi.terminal import say_on_stderr
from ees_mpi.version import __version__

LONGEST = 2000  # characters of a message
COMMANDS = (
    *(running.train, running.resume, running.verify, running.sample, running.adapt, running.doctor),
    *(files.info, files.repair, files.export, files.config, files.plan, files.presets, files.jobs),
    *(looking.figure, looking.replay, looking.report, looking.watch, numbers.metrics, numbers.compare),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ees-mpi")
def cli() -> None:
    """Evolvability ES under MPI: train, analyse, verify. Exit codes: 0 done; 2 wrong command line or config;
    3 the run file cannot be used; 75 interrupted, `resume` continues the run."""


for _command in COMMANDS:
    cli.add_command(_command)


def main() -> NoReturn:
    """Run the command line; an error is printed once, by one rank."""
    machine.pin_threads()
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        _leave(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _leave("interrupted", 130)
    except EesError as error:
        _leave(str(error), error.exit_code)
    except OSError as error:
        _leave(str(error), RunFileError.exit_code)
    except MemoryError as error:
        _leave(f"not enough memory: {error}", 1)
    sys.exit(0)


def _leave(message: str, code: int) -> NoReturn:
    if ranks.launched()[1] != 0:
        sys.exit(0)
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
    say_on_stderr(f"ees-mpi: {message}\n")
    sys.exit(code)
