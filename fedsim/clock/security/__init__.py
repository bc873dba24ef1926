"""Secure aggregation: its exchanges with the clients, and the sizes of their messages."""
