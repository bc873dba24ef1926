"""Calibration: a client table fitted to the transfers and the work of a run, and a scenario that repeats the run.

`measured.py` is what was seen, read by `run_tables.py` and `own_csv.py` (`source.py` chooses); `forward.py` predicts
seconds, `fit.py` inverts it for one client, `fleet_fit.py` for all; `speeds.py` and `presence.py` are about work and
availability, `quality.py` about errors, `written.py` about files, `shown.py` about the terminal.
"""
