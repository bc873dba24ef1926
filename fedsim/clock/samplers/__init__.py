"""Samplers: who of those that could take part is asked; one file each."""
