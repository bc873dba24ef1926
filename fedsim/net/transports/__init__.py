"""Transports: the programs that carry messages; one file each."""
