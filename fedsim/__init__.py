"""fedsim: a discrete-event network simulator for federated graph learning."""

__version__ = "0.1.0"
