"""One point of a sweep: checked, assembled, run, resumed, and stored."""
