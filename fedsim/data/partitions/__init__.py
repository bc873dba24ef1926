"""Partitions of a graph's vertices among clients, one file each."""
