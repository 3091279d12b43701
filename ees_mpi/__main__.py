"""`python -m ees_mpi` is the command `ees-mpi`."""

from ees_mpi.cli import main

main()
