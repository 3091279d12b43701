"""Measures, statistics, comparisons, tables, values of objectives, and the network of the feasibility theorem."""
