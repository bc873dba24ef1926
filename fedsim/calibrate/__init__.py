"""Calibration: a client table fitted to the transfers and the work of a run, and a scenario that repeats the run.

`measured.py` is what was seen, read by `tables.py`; `network.py` is the network of the run's scenario.
`forward.py` predicts seconds, `fit.py` inverts it for one client, `fleet_fit.py` for all; `speeds.py` is
about work, `quality.py` about errors, `output.py` about files, `report.py` about the terminal.
"""
