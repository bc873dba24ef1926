"""Training: the client axis, models, tasks, cohorts and evaluation."""
