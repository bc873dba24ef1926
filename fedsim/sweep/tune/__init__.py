"""Tuning: the same number of trials for every algorithm of a scenario, scored on validation data only."""
