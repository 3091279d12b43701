"""The run file: plain HDF5 at all times, with a journal beside it while a run goes on.

A commit appends one checksummed record to `RUN.h5.journal`. Now and then, and at the end, the journal is folded
into a copy of `RUN.h5` that is then renamed over it. So `RUN.h5` is always whole, a reader is never in the
writer's way, and a kill at any instant loses at most the generation in flight.
"""
