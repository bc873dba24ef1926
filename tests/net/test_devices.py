"""Measured devices: draws give the table back, at the user's level."""

import csv

import numpy as np

from fedsim.net.measurements import devices


def test_draws_give_the_quantiles_back_at_the_level_asked_for():
    found = devices.phones(10_000, 2e9, np.random.default_rng(0))
    with devices.FILE.open(newline="") as file:
        rows = [(int(row["quantile"]) / 100, float(row["relative_speed"])) for row in csv.DictReader(file)]
    assert dict(rows)[0.5] == 1
    for share, speed in rows[1:-1]:
        assert abs((found <= speed * 2e9).mean() - share) < 4 * np.sqrt(share * (1 - share) / len(found))
    assert (devices.phones(10, 2e9, np.random.default_rng(0)) == found[:10]).all()
