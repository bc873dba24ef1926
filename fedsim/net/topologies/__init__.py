"""Topologies: which nodes are connected, one file each."""
