"""Breach: raised when the network violates one of its invariants, which is a bug."""


class Breach(Exception):  # noqa: N818 - named after what has happened
    """A link carries more than its capacity, or the clock has gone backwards."""
