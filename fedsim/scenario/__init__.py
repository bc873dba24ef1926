"""What a scenario says: its schema, its axes, its text, and the files that its names stand for."""
