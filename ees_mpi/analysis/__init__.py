"""Offline analysis: reads run files, never MPI."""
