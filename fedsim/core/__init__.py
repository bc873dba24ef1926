"""Values that every room shares: units, seeds, errors, tables and their rows; nothing of fedsim above it."""
