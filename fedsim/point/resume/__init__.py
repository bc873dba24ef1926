"""A run goes on from its checkpoint, or reuses the record of another."""
