"""Federated algorithms, one file each: a scenario's `algorithm: NAME` is the file NAME.py."""
