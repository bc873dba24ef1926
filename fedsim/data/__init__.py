"""Graphs, where they come from, who owns which part, and when it arrives."""
