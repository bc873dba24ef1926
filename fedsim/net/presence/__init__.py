"""Who is online when, and at which rates."""
