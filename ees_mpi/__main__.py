"""The entry point of `ees-mpi` and of `python -m ees_mpi`. It notes signals that come while modules are imported."""

import os
import threading
from typing import NoReturn

from ees_mpi.ranks.process import MARGIN, arm, launched, note_stops, own_turn

END_SECONDS = 1800.0  # for threads and exit handlers of the user's code


def main() -> NoReturn:
    """Run the command line. A signal that comes before it is loaded acts then; a second Ctrl-C acts at once."""
    note_stops()
    try:
        from ees_mpi.cli.main import main as run
    except KeyboardInterrupt:
        if launched()[1] == 0:
            os.write(2, b"ees-mpi: interrupted\n")
        os._exit(130)
    try:
        run()
    finally:
        # Ranks without other threads may wait in MPI for one that has some: that one prints its stack before.
        arm(END_SECONDS + own_turn(launched()[1]) + MARGIN * (threading.active_count() == 1))


if __name__ == "__main__":
    main()
