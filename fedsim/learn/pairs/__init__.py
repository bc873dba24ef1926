"""Pairs of nodes: links, rankings, histories of events."""
