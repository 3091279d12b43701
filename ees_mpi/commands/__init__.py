"""The options of commands, the work of the longer ones, and the same commands as Python functions."""
