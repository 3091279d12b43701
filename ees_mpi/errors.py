"""The errors a user can meet; each knows the exit code of the command that meets it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar


class EesError(Exception):
    """An error with a message for the user, in place of a traceback."""

    exit_code: ClassVar[int] = 1
    collective: bool = False  # True once every rank is raising the same error


class ConfigError(EesError, ValueError):
    """The command line or the config is wrong; nothing was touched."""

    exit_code = 2


class MissingExtra(EesError, ImportError):
    """An optional part is not installed."""

    exit_code = 2


class RunFileError(EesError, OSError):
    """The run file cannot be used."""

    exit_code = 3


class LaunchError(EesError, RuntimeError):
    """The ranks cannot work together as they were started."""


class LockStepError(EesError, RuntimeError):
    """Ranks that must hold the same bits do not."""


class TaskError(EesError, RuntimeError):
    """A task gave something that no update can be made of."""


class ObjectiveError(EesError, RuntimeError):
    """An objective gave something that no update can be made of."""


class GraphError(EesError, ValueError):
    """A stochastic computation graph breaks a rule."""


class VerifyError(EesError, RuntimeError):
    """A re-evaluated individual does not match the run file."""


class Interrupted(EesError):
    """A signal asked the run to stop; the state is saved and `resume` goes on."""

    exit_code = 75


class RanksLost(Exception):
    """Other ranks have died; not one of our errors, because the ranks that are left may go on.

    Carries what this rank had evaluated of the generation in flight, so that it need not be evaluated again.
    """

    generation: int = -1
    done: Mapping[int, Any] = MappingProxyType({})  # by index


def collective(error: EesError) -> EesError:
    """Mark an error that every rank raises at the same point: nobody needs to be stopped because of it."""
    error.collective = True
    return error


BY_NAME = {
    error.__name__: error
    for error in (
        EesError,
        ConfigError,
        MissingExtra,
        RunFileError,
        LaunchError,
        LockStepError,
        TaskError,
        ObjectiveError,
        GraphError,
        VerifyError,
        Interrupted,
    )
}
