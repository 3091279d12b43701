"""Measures, statistics, comparisons, tables, objective values after the fact, and the theorem's network."""
