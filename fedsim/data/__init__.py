"""Graphs: their sources, their partition among clients, and their arrival."""
