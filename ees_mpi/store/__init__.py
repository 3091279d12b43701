"""The run file: always plain HDF5, with a journal beside it while a run is training.

A commit appends one checksummed record to `RUN.h5.journal`. Every few minutes, and at the end, the journal is folded
into a copy of `RUN.h5`, which is then renamed over it. So `RUN.h5` is always complete, readers and the writer do not
disturb each other, and a kill at any instant loses at most the current generation.
"""
