"""Graphs in files: own arrays, tables and GraphML, published archives, pickles that run no code."""
