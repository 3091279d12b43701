"""The task of a run that `ees_mpi.Strategy` recorded: the user's own loop, which no file can repeat."""

from typing import Annotated, Any, NoReturn, Self

import msgspec

from ees_mpi.errors import RunFileError
from ees_mpi.registry import key
from ees_mpi.tasks.base import Task
from ees_mpi.tasks.keys import RolloutCount, Share, Starts


class OwnLoop(Task, frozen=True):
    """The user's own loop with `ees_mpi.Strategy`; only that program can evaluate individuals."""

    parameters: Annotated[int, key("D: the number of parameters of an individual.", ge=1)]
    behavior_dim: Annotated[int, key("B: the length of a behaviour; 0: not yet known.", ge=0)] = 0
    observation_dim: Annotated[int, key("O: the number of normalised observations; 0: none.", ge=0)] = 0
    observation_share: Annotated[
        Share, key("The share of individuals that feed the normaliser; at least ten, if not set.", "share")
    ] = 0.01
    rollouts: RolloutCount = 1
    starts: Starts = "fixed"

    in_program = True

    def observing(self, share: float) -> Self:
        """Return the task with a larger share, if about ten individuals need it."""
        return msgspec.structs.replace(self, observation_share=max(self.observation_share, share))

    def _refuse(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raise a RunFileError: only the program has the first mean, and can evaluate individuals."""
        raise RunFileError(
            "the task of this run was the user's own loop (ees_mpi.Strategy), so only that program can evaluate "
            "individuals; in Python, ees_mpi.Strategy.resume(RUN) continues the run"
        )

    initial = open = film = _refuse
