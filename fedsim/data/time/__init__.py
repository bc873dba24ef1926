"""Graphs that change: arrivals, windows, snapshots, events."""
