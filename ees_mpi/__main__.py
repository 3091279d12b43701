"""The entry point of `ees-mpi` and of `python -m ees_mpi`. It handles signals that come while modules are imported."""

import os
import signal
from types import FrameType
from typing import NoReturn

from ees_mpi import watchdog

STOP = (signal.SIGTERM, signal.SIGUSR1)
RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID")  # environment variables of launchers


def main() -> NoReturn:
    """Run the command line. Until it is loaded, Ctrl-C ends the program with one sentence; other stop signals wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # until a command is ready for them: `cli.main`
    watchdog.start()
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else a shell has told us to ignore it
    if default:
        signal.signal(signal.SIGINT, _interrupted)
    from ees_mpi.cli.main import main as run

    if default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Leave at once: an exception in the middle of an import would end in a traceback."""
    if next((os.environ[name] for name in RANK if name in os.environ), "0") == "0":
        os.write(2, b"ees-mpi: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
