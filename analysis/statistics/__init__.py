"""Means and intervals over replicates, significance, rankings, and axes along which nothing changes."""
