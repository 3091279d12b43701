"""Policies that other programs trained: their files, and the task that fits them. Nothing in a file is unpickled."""
