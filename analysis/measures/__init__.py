"""What follows from the tables of points: bytes, times, scores, forgetting, who is served, and their means."""
