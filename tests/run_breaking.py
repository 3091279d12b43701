"""`ees-mpi` with the breaking task registered."""

import breaking  # noqa: F401

from ees_mpi.cli.main import main

main()
