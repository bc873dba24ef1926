"""The text of a scenario: YAML, paths, and messages with line and column."""
