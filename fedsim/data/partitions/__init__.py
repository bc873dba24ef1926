"""Partitions of a graph's nodes among clients, one file each."""
