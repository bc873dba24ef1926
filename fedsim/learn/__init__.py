"""Training: the client axis, models, tasks, the cohort and the evaluator."""
