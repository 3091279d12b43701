"""The longer commands of `ees-mpi`: plan, verify, doctor, info, sample, adapt, export, config."""
