"""Start or reopen a run, send it to all ranks, recover from lost ranks, show the progress."""
