"""Start or reopen a run, send it to all ranks, show the progress."""
