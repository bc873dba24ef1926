"""`--try` and `fedsim.testing`: check the contract of fedsim/learn/algorithm.py on a small deployment.

Each check is a plain function from a `Trial` to findings; `promises.py` lists them.  Not seen: what only
other data, more rounds, another device or another process would show.
"""
