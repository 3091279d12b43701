"""The parts that the generations of all methods share: evaluation, results, the record for the run file."""
