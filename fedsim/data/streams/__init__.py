"""Streams: what reaches a client in which period, and when; one file each."""
