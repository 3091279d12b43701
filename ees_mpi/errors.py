"""The errors that a user can meet, each with the exit code of the command."""

import contextlib
import importlib
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar


class EesError(Exception):
    """An error that is printed as a message for the user, without a traceback."""

    exit_code: ClassVar[int] = 1
    collective: bool = False  # True: every rank raises the same error


class ConfigError(EesError, ValueError):
    """The command line or the config is wrong; no file was changed."""

    exit_code = 2


class MissingExtra(EesError, ImportError):
    """A package is not installed, or cannot be imported."""

    exit_code = 2


class RunFileError(EesError, OSError):
    """The run file cannot be used."""

    exit_code = 3


class TrustError(EesError, PermissionError):
    """A file names code that would run, and the user has not said to trust the file."""

    exit_code = 3


class LaunchError(EesError, RuntimeError):
    """The ranks were started in a way in which they cannot work together."""


class LockStepError(EesError, RuntimeError):
    """The ranks do not hold the same bits, but must."""


class TaskError(EesError, RuntimeError):
    """A task returned values that cannot be used."""


class PluginError(EesError, RuntimeError):
    """Code of the user raised an exception, or returned values that cannot be used."""


class GraphError(EesError, ValueError):
    """A stochastic computation graph breaks a rule."""


class VerifyError(EesError, RuntimeError):
    """A re-evaluated individual does not match the run file."""


class Interrupted(EesError):
    """A signal stopped the run; the state is saved, and `resume` continues it."""

    exit_code = 75
    by_keyboard = False


def collective(error: EesError) -> EesError:
    """Mark an error that every rank raises at the same point, so that no rank has to abort the others."""
    error.collective = True
    return error


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put a place in front of an error in a part, for example the generation or the individual."""
    try:
        yield
    except PluginError as error:
        between = ", " if str(error).startswith("individual ") else ": "
        raise _another(error, type(error), f"{place}{between}{error}") from error


@contextmanager
def before_rollouts() -> Iterator[None]:
    """Let an error in the user's code count as an error of the config, because nothing was evaluated yet."""
    try:
        yield
    except PluginError as error:
        raise _another(error, ConfigError, str(error)) from error


def _another(error: EesError, kind: type[EesError], message: str) -> EesError:
    """Return an error to raise in place of one. A variable with it would keep all frames, and their noise tables."""
    another = kind(message)
    another.collective = error.collective
    return another


def words_of(error: OSError) -> str:
    """Return an error of the system without its number: the file, and what is wrong with it."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error.strerror or str(error)


def callers(error: BaseException) -> str:
    """Return the lines of the user's program that led to an error, as a traceback shows them."""
    ours = os.path.dirname(os.path.abspath(__file__)) + os.sep, contextlib.__file__
    frames = [*traceback.extract_stack(), *traceback.extract_tb(error.__traceback__)]
    return "".join(traceback.format_list([frame for frame in frames if not frame.filename.startswith(ours)]))


def optional(module: str, missing: str, broken: str = "") -> Any:
    """Import a module of an extra; raise a MissingExtra if that fails, with a sentence.

    missing: the sentence if there is no such package; broken: the one if the package is there and fails
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken package raises an error of any kind
        absent = isinstance(error, ModuleNotFoundError) and module.startswith(error.name or module)
        broken = broken or f"{missing}; the one that is here fails"
        raise MissingExtra(missing if absent else f"{broken}: {error}") from None


def scipy_stats() -> Any:
    """Return scipy.stats; raise a MissingExtra if it is not installed."""
    return optional("scipy.stats", "statistics need scipy: pip install 'ees_mpi[analysis]'")


BY_NAME: dict[str, type[EesError]] = {error.__name__: error for error in EesError.__subclasses__()}
