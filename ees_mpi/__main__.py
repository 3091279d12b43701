"""The entry point of `ees-mpi` and of `python -m ees_mpi`. It notes signals that come while modules are imported."""

import atexit
import os
import sys
import traceback
from typing import NoReturn

from ees_mpi.ranks.process import arm_end, end_mpi, launched, note_stops
from ees_mpi.ranks.refusal import leave


def main() -> NoReturn:
    """Run the command line. A signal that comes before it is loaded acts then; a second Ctrl-C acts at once."""
    note_stops()
    atexit.register(end_mpi)  # the first handler is called last
    try:
        from ees_mpi.cli.main import main as run

        run()
    except KeyboardInterrupt:
        if launched()[1] == 0:
            os.write(2, b"ees-mpi: interrupted\n")
        os._exit(130)
    except Exception as error:
        if "ees_mpi.ranks.mpi" in sys.modules:  # its excepthook ends all ranks, which may wait for this one
            raise
        leave("".join(traceback.format_exception(error)), 1, name="")
    finally:
        arm_end()


if __name__ == "__main__":
    main()
