"""Measures, statistics, comparisons and tables."""
