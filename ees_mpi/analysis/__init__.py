"""Offline analysis: reads run files, never starts MPI."""
