"""Tuning: the same number of trials for every algorithm of a scenario, judged on validation data alone."""
