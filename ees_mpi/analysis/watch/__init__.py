"""`ees-mpi watch`: follows a running file in the terminal."""
