"""The run file: named arrays over generations in plain HDF5, with a journal beside it while a writer is at work.

A commit appends one checksummed record to `RUN.h5.journal`. Every few minutes, and at the end, the journal is folded
into a copy of `RUN.h5`, which is then renamed over it. So `RUN.h5` is always complete, readers and the writer do not
disturb each other, and a kill at any instant loses at most the generation that was being written.

Read in this order: `layout` (the list of arrays, and a row of bytes), `journal`, `hdf5`, `reader`, `lock`, `writer`.
`files` has what concerns any file: safe opening, replacing, errors. What the arrays of a run mean is known in `run/`.
"""
