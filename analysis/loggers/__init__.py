"""Loggers that come with fedsim, one a file."""
