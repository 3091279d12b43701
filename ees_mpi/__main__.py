"""The entry point of `ees-mpi` and of `python -m ees_mpi`. It notes signals that come while modules are imported.

Only rank 0 reads the command line of a command that runs on all ranks together; the others wait in MPI for its job. So
thousands of ranks do not load the command line, the config and HDF5 from the same disk.
"""

import atexit
import os
import sys
import traceback
from typing import NoReturn

from ees_mpi.errors import EesError
from ees_mpi.machine import pin_threads
from ees_mpi.ranks.process import act_on_stops, arm_end, begin_start, end_mpi, launched, leave, note_stops
from ees_mpi.terminal import show_any_character

SAVING = ("train", "resume")  # a signal stops them later
TOGETHER = (*SAVING, "sample", "adapt", "measure", "signal", "plan", "verify", "doctor")  # commands on all ranks
HELP = {"-h", "--help", "--version"}


def main() -> NoReturn:
    """Run the command line. A signal that comes before it is loaded acts then; a second Ctrl-C acts at once."""
    note_stops()
    atexit.register(end_mpi)  # the first handler is called last
    words = sys.argv[1:]
    if sys.path[0] == os.path.dirname(sys.argv[0]):
        del sys.path[0]  # the folder of `ees-mpi` has no modules, and every import would look there first
    name = next((word for word in words if not word.startswith("-")), "")
    together = name in TOGETHER and not HELP.intersection(words)
    size, rank, _ = launched()
    try:
        if together and rank != 0:
            _follow(name)
        from ees_mpi.cli.main import main as run

        run()
    except SystemExit as leaving:
        if together and size > 1 and leaving.code and "ees_mpi.ranks.mpi" not in sys.modules:
            from ees_mpi.ranks.launch import dismiss

            dismiss()  # srun may not end the others
        raise
    except KeyboardInterrupt:
        if launched()[1] == 0:
            os.write(2, b"ees-mpi: interrupted\n")
        os._exit(130)
    except EesError as error:
        leave(str(error), error.exit_code)
    except Exception as error:
        if "ees_mpi.ranks.mpi" in sys.modules:  # its excepthook ends all ranks, which may wait for this one
            raise
        leave("".join(traceback.format_exception(error)), 1, name="")
    finally:
        arm_end()


def _follow(name: str) -> NoReturn:
    """Run the job of rank 0 on another rank."""
    begin_start()  # the limit holds while numpy is imported
    pin_threads()
    from ees_mpi.ranks.launch import run
    from ees_mpi.registry.search import searching

    show_any_character()
    if name not in SAVING:
        act_on_stops()
    with searching():
        run()


if __name__ == "__main__":
    main()
