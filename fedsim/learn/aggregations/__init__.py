"""Aggregations: a file for each."""
