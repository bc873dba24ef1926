"""The version of fedsim."""

__version__ = "0.1.0"
