"""`python -m ees_mpi` is the command `ees-mpi`."""

from ees_mpi.cli.main import main

main()
