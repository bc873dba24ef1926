"""Models: pure functions of (parameters, graph); one file each."""
