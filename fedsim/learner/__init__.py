"""The seam between the clock and the learning: the clock holds tickets, the learner what they stand for."""
