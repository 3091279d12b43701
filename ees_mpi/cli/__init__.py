"""The command `ees-mpi`: parses, calls, prints."""
