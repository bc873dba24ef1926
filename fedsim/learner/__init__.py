"""The seam between the clock and the learning: the clock holds tickets, the learner their values."""
