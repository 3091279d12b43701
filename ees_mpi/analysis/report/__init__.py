"""`ees-mpi report`: one self-contained web page of a run."""
