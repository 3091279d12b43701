"""`ees-mpi replay`: individuals act again, are compared bit by bit, and are filmed."""
