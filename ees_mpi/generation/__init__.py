"""The parts that the generations of all methods share: the state, evaluation, results, the record for the run file."""
