"""A scenario is checked before anything runs."""
