"""`--try`: whether an algorithm keeps the contract of fedsim/learn/algorithm.py, tried out on a small deployment.

One file for each promise, each a plain function from a `Trial` to findings.  What a trial does not see: behaviour that
only other data, more rounds, another device or another process would show.
"""
