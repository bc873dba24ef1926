"""Values of a running learner on disk, read without running code."""
