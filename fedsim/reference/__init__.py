"""The reference table: every method at equal bytes and at equal seconds, in fixed deployments, and what came of it."""
