"""Protocols: when clients are asked, and when the server updates."""
