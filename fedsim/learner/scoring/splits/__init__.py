"""Splits: what is scored; one file each."""
