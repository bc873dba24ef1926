"""Metrics: one file each; `measure.metrics` names them."""
