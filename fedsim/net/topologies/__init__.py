"""Topologies: who is connected with whom, one file each."""
