"""Breach: an account of the network that does not come out even, which is a mistake in the program."""


class Breach(Exception):  # noqa: N818 - it tells what has happened
    """A link carries more than its capacity, or the clock has gone backwards."""
