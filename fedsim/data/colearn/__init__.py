"""The partitioner of DG-CoLearn (Au, Zhang, He and Ni, arXiv 2605.31427) in steps, on plain numpy arrays.

A graph is a `Web`; the state of a partition is a `Parts`; `follow` puts the steps together for a graph that
changes.
"""
